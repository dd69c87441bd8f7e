//! The engine's promises on a small model: what its caches take, who fails, what an answer depends on, what is refused.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use candle_core::Tensor;
use paravt_backend_candle::{CpuOps, CpuPlan, start};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::ops::{Activation, Device, KvSource, Linear, Ops, Precision, Segment};
use paravt_qwen_vl::weights::View;
use paravt_suite::backend::{Backend as _, Completion, FinishReason, Generation};
use paravt_suite::message::{Message, Role};

type Result<T> = std::result::Result<T, Error>;

/// A random model folder, made once.
static MODEL: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/tiny_qwen3vl.py");
    let made = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
});

/// A copy of the model folder.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(MODEL.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().to_owned();
    (folder, path)
}

/// Writes values over the start of a tensor.
fn overwrite(folder: &Path, tensor: &str, values: &[f32]) {
    let path = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let start = header + 8 + metadata.info(tensor).unwrap().data_offsets.0;
    for (number, value) in values.iter().enumerate() {
        bytes[start + 4 * number..][..4].copy_from_slice(&value.to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

fn edit(folder: &Path, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let path = folder.join(name);
    let mut json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(path, serde_json::to_vec(&json).unwrap()).unwrap();
}

fn said(text: &str) -> Vec<Message> {
    vec![Message::text(Role::User, text)]
}

fn ask(engine: &Engine, text: &str, generation: &Generation) -> Result<Completion> {
    futures::executor::block_on(async {
        let prompt = engine.prepare(&said(text)).await?;
        engine.answer(prompt, generation.clone()).await
    })
}

fn greedy(max_tokens: u32) -> Generation {
    Generation { logprobs: true, ..Generation::greedy(max_tokens) }
}

fn bits(completion: &Completion) -> Vec<u32> {
    completion.logprobs.as_ref().unwrap().iter().map(|value| value.to_bits()).collect()
}

/// What a test sees of the arithmetic.
#[derive(Default)]
struct Seen {
    /// Rows of key and value buffers that live, and the most that ever lived.
    rows: AtomicUsize,
    peak: AtomicUsize,
    /// Rows of the passes so far: a prompt's, or of tokens that are decoded.
    passes: std::sync::Mutex<Vec<usize>>,
    /// Allocations of more rows than this fail; 0 turns the limit off.
    largest: AtomicUsize,
    /// Allocations of more rows than this in all fail as out of memory; 0 turns the limit off.
    room: AtomicUsize,
}

/// A tensor, and the rows of the buffer behind it.
#[derive(Clone)]
struct Counted(Tensor, #[allow(dead_code)] Option<Arc<Room>>);

struct Room(Arc<Seen>, usize);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.rows.fetch_sub(self.1, Ordering::SeqCst);
    }
}

/// candle's arithmetic under observation.
struct Watched(CpuOps, Arc<Seen>);

fn plain(result: Result<Tensor>) -> Result<Counted> {
    result.map(|tensor| Counted(tensor, None))
}

impl Ops for Watched {
    type Tensor = Counted;
    /// With the rows of queries of the pass.
    type Plan = (CpuPlan, usize);

    fn weight(&self, view: &View<'_>, shape: &[usize]) -> Result<Counted> {
        plain(self.0.weight(view, shape))
    }
    fn upload(&self, values: Vec<f32>, shape: &[usize]) -> Result<Counted> {
        plain(self.0.upload(values, shape))
    }
    fn upload_f32(&self, values: Vec<f32>, shape: &[usize]) -> Result<Counted> {
        plain(self.0.upload_f32(values, shape))
    }
    fn download(&self, x: &Counted) -> Result<Vec<f32>> {
        self.0.download(&x.0)
    }
    fn shape(&self, x: &Counted) -> Vec<usize> {
        self.0.shape(&x.0)
    }
    fn gather(&self, table: &Counted, ids: &[u32]) -> Result<Counted> {
        plain(self.0.gather(&table.0, ids))
    }
    fn linear(&self, x: &Counted, linear: &Linear<Counted>) -> Result<Counted> {
        let bias = linear.bias.as_ref().map(|bias| bias.0.clone());
        plain(self.0.linear(&x.0, &Linear { weight: linear.weight.0.clone(), bias }))
    }
    fn rms_norm(&self, x: &Counted, weight: &Counted, eps: f64) -> Result<Counted> {
        plain(self.0.rms_norm(&x.0, &weight.0, eps))
    }
    fn layer_norm(&self, x: &Counted, weight: &Counted, bias: &Counted, eps: f64) -> Result<Counted> {
        plain(self.0.layer_norm(&x.0, &weight.0, &bias.0, eps))
    }
    fn activate(&self, x: Counted, activation: Activation) -> Result<Counted> {
        plain(self.0.activate(x.0, activation))
    }
    fn gated(&self, gate: Counted, up: &Counted) -> Result<Counted> {
        plain(self.0.gated(gate.0, &up.0))
    }
    fn add(&self, x: Counted, y: &Counted) -> Result<Counted> {
        plain(self.0.add(x.0, &y.0))
    }
    fn index_add(&self, x: Counted, places: &[u32], values: &Counted) -> Result<Counted> {
        plain(self.0.index_add(x.0, places, &values.0))
    }
    fn embedding_bag(&self, table: &Counted, ids: &[u32], weights: &[f32], taps: usize) -> Result<Counted> {
        plain(self.0.embedding_bag(&table.0, ids, weights, taps))
    }
    fn rotate(&self, x: Counted, cos: &Counted, sin: &Counted) -> Result<Counted> {
        plain(self.0.rotate(x.0, &cos.0, &sin.0))
    }
    fn plan(&self, segments: &[Segment], causal: bool) -> Result<(CpuPlan, usize)> {
        let rows = segments.iter().map(|segment| segment.queries).sum();
        Ok((self.0.plan(segments, causal)?, rows))
    }
    fn attention(
        &self,
        q: &Counted,
        keys: KvSource<'_, Counted>,
        (plan, rows): &(CpuPlan, usize),
    ) -> Result<Counted> {
        self.1.passes.lock().unwrap().push(*rows);
        plain(match keys {
            KvSource::Packed(k, v) => self.0.attention(&q.0, KvSource::Packed(&k.0, &v.0), plan),
            KvSource::Cached(sides) => {
                let sides: Vec<_> = sides.iter().map(|(k, v)| (k.0.clone(), v.0.clone())).collect();
                self.0.attention(&q.0, KvSource::Cached(&sides), plan)
            }
        })
    }
    fn reshape(&self, x: &Counted, shape: &[usize]) -> Result<Counted> {
        plain(self.0.reshape(&x.0, shape))
    }
    fn narrow(&self, x: &Counted, axis: usize, start: usize, length: usize) -> Result<Counted> {
        plain(self.0.narrow(&x.0, axis, start, length))
    }
    fn cat(&self, parts: &[Counted]) -> Result<Counted> {
        plain(self.0.cat(&parts.iter().map(|part| part.0.clone()).collect::<Vec<_>>()))
    }
    fn buffer(&self, shape: [usize; 3]) -> Result<Counted> {
        let limit = self.1.largest.load(Ordering::SeqCst);
        if limit > 0 && shape[0] > limit {
            return Err(Error::compute("cannot have so large a buffer".to_owned()));
        }
        let room = self.1.room.load(Ordering::SeqCst);
        if room > 0 && self.1.rows.load(Ordering::SeqCst) + shape[0] > room {
            return Err(Error::compute("the device is out of memory".to_owned()));
        }
        let now = self.1.rows.fetch_add(shape[0], Ordering::SeqCst) + shape[0];
        self.1.peak.fetch_max(now, Ordering::SeqCst);
        let room = Room(Arc::clone(&self.1), shape[0]);
        Ok(Counted(self.0.buffer(shape)?, Some(Arc::new(room))))
    }
    fn write(&self, buffer: &Counted, at: usize, rows: &Counted) -> Result<()> {
        self.0.write(&buffer.0, at, &rows.0)
    }
}

/// An engine whose caches have room for exactly so many tokens.
fn watched(tokens: usize, reuse: bool) -> (Engine, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let start = |memory| {
        let seen = Arc::clone(&seen);
        let options = Options { memory, reuse, ..Options::new(MODEL.path().to_owned()) };
        let ops = move || Ok(Watched(CpuOps::new(Precision::F32), seen));
        Engine::start("watched", options, ops).unwrap()
    };
    let plan = *start(1 << 40).memory();
    // A tenth is left for activations.
    let engine = start(plan.weights + (plan.per_token * tokens as u64).div_ceil(9) * 10);
    assert_eq!(engine.memory().cache_tokens, tokens);
    (engine, seen)
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn caches_never_exceed_the_planned_memory() {
    let text = "word ".repeat(300);
    let (engine, _) = watched(100_000, false);
    let prompt = futures::executor::block_on(engine.prepare(&said(&text))).unwrap().ids.len();
    drop(engine);
    let budget = prompt + 600;
    for reuse in [false, true] {
        let (engine, seen) = watched(budget, reuse);
        // Once more beside what is kept of the first answer, which has to go.
        for text in [text.clone(), format!("another {}", &text[8..])] {
            let found = ask(&engine, &text, &greedy(600)).unwrap();
            assert!(!found.token_ids.unwrap().is_empty());
        }
        // Two layers with keys and values; while one tensor is replaced by a larger one, both are there.
        let peak = seen.peak.load(Ordering::SeqCst);
        assert!(peak <= 4 * budget + budget, "{peak} rows of four tensors, {budget} tokens planned");
        drop(engine);
        assert_eq!(seen.rows.load(Ordering::SeqCst), 0);
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn many_conversations_complete_within_little_memory() {
    let (engine, seen) = watched(900, false);
    let texts: Vec<String> =
        (0..12).map(|number| format!("{number} {}", "word ".repeat(20 * (number % 5)))).collect();
    let alone: Vec<_> = texts.iter().map(|text| ask(&engine, text, &greedy(40)).unwrap().token_ids).collect();
    let together = futures::executor::block_on(futures::future::join_all(texts.iter().map(|text| async {
        let prompt = engine.prepare(&said(text)).await.unwrap();
        engine.answer(prompt, greedy(40)).await
    })));
    for (alone, together) in alone.into_iter().zip(together) {
        assert_eq!(alone, together.unwrap().token_ids);
    }
    let peak = seen.peak.load(Ordering::SeqCst);
    assert!(peak <= 4 * 900 + 900, "{peak}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_conversation_that_fails_does_not_end_the_others() {
    let (engine, seen) = watched(20_000, false);
    // The long prompt fits, its first growth does not.
    let (short, long) = ("short".to_owned(), "word ".repeat(150));
    let tokens = futures::executor::block_on(engine.prepare(&said(&long))).unwrap().ids.len();
    seen.largest.store(tokens + 256, Ordering::SeqCst);
    let wanted = ask(&engine, &short, &greedy(400)).unwrap().token_ids;
    let ended = wanted.as_ref().unwrap().len() < 400;
    let both = futures::executor::block_on(futures::future::join_all([&short, &long].map(|text| async {
        let prompt = engine.prepare(&said(text)).await.unwrap();
        engine.answer(prompt, greedy(400)).await
    })));
    assert_eq!(both[0].as_ref().unwrap().token_ids, wanted);
    let other = &both[1];
    assert!(
        other.is_err() || ended || other.as_ref().unwrap().finish_reason == Some(FinishReason::Stop),
        "{other:?}"
    );
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn prompts_are_read_between_the_tokens_of_open_answers() {
    let (engine, seen) = watched(100_000, false);
    let first = ask(&engine, "short", &greedy(60)).unwrap().token_ids.unwrap().len();
    seen.passes.lock().unwrap().clear();
    let long = "word ".repeat(1500);
    let (_, other) = futures::executor::block_on(async {
        let short = engine.prepare(&said("short")).await.unwrap();
        let long = engine.prepare(&said(&long)).await.unwrap();
        futures::future::join(engine.answer(short, greedy(60)), engine.answer(long, greedy(2))).await
    });
    other.unwrap();
    // One entry a layer; the last layer of a prompt's pass has one query.
    let passes = seen.passes.lock().unwrap();
    let prompt: Vec<usize> = (0..passes.len()).filter(|&place| passes[place] > 100).collect();
    assert!(prompt.len() > 3 && first > 5, "{prompt:?} {first}");
    let between = prompt.windows(2).filter(|pair| pair[1] - pair[0] > 2).count();
    assert!(between + 1 >= prompt.len().min(first), "no token between passes: {passes:?}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_prompt_that_does_not_fit_in_memory_waits_for_the_others() {
    let (engine, seen) = watched(100_000, false);
    let long = "word ".repeat(30);
    let wanted = ask(&engine, &long, &greedy(5)).unwrap().token_ids;
    let tokens = futures::executor::block_on(engine.prepare(&said(&long))).unwrap().ids.len();
    let both = || {
        futures::executor::block_on(futures::future::join_all(["short", &long].map(|text| async {
            let prompt = engine.prepare(&said(text)).await.unwrap();
            engine.answer(prompt, greedy(5)).await
        })))
    };
    // Room for the keys and values of the long one alone: it waits for the short one, and is answered.
    seen.room.store(4 * (tokens + 5), Ordering::SeqCst);
    let found = both();
    assert!(found[0].is_ok());
    assert_eq!(found[1].as_ref().unwrap().token_ids, wanted);
    // Not even that: an error once it is alone, and no other's.
    seen.room.store(4 * (tokens + 4), Ordering::SeqCst);
    let found = both();
    assert!(found[0].is_ok() && matches!(&found[1], Err(Error::Memory(_))), "{found:?}");
    seen.room.store(0, Ordering::SeqCst);
    assert_eq!(ask(&engine, &long, &greedy(5)).unwrap().token_ids, wanted);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_deterministic_answer_is_the_same_to_the_bit_whatever_came_before_and_beside_it() {
    let options = || Options { deterministic: true, batch: 16, ..Options::new(MODEL.path().to_owned()) };
    // Eight questions about one beginning: all but a few tokens could be reused.
    let questions: Vec<String> =
        (0..8).map(|number| format!("{} question {number}", "word ".repeat(40))).collect();
    let fresh: Vec<Vec<u32>> = questions
        .iter()
        .map(|text| bits(&ask(&start(options(), Device::Cpu).unwrap(), text, &greedy(12)).unwrap()))
        .collect();
    let engine = start(options(), Device::Cpu).unwrap();
    let info = engine.describe();
    assert_eq!(
        (info.details["deterministic"].as_str(), info.details["prefix_reuse"].as_str()),
        ("on", "off")
    );
    for (text, fresh) in questions.iter().zip(&fresh).rev() {
        assert_eq!(&bits(&ask(&engine, text, &greedy(12)).unwrap()), fresh);
    }
    let together =
        futures::executor::block_on(futures::future::join_all(questions.iter().map(|text| async {
            let prompt = engine.prepare(&said(text)).await.unwrap();
            engine.answer(prompt, greedy(12)).await
        })));
    for (found, fresh) in together.iter().zip(&fresh) {
        assert_eq!(&bits(found.as_ref().unwrap()), fresh);
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_dropped_engine_frees_its_memory() {
    let (engine, seen) = watched(10_000, true);
    ask(&engine, "a question", &greedy(3)).unwrap();
    assert!(seen.rows.load(Ordering::SeqCst) > 0, "a finished conversation is kept");
    drop(engine);
    assert_eq!((seen.rows.load(Ordering::SeqCst), Arc::strong_count(&seen)), (0, 1));
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn stop_texts_end_an_answer_and_are_no_part_of_it() {
    let engine = start(Options::new(MODEL.path().to_owned()), Device::Cpu).unwrap();
    let whole = ask(&engine, "tell", &greedy(30)).unwrap();
    let (at, stop) = whole.text.char_indices().find(|(_, character)| character.is_ascii_graphic()).unwrap();
    let stop = stop.to_string();
    let stopped = ask(&engine, "tell", &Generation { stop: vec![stop.clone()], ..greedy(30) }).unwrap();
    assert_eq!((stopped.text.as_str(), stopped.finish_reason), (&whole.text[..at], Some(FinishReason::Stop)));
    assert!(stopped.token_ids.unwrap().len() < whole.token_ids.unwrap().len());
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn weights_that_are_not_finite_are_refused_by_name_and_logits_by_step() {
    let tensor = "model.language_model.layers.1.mlp.up_proj.weight";
    for value in [f32::NAN, f32::INFINITY] {
        let (_folder, path) = copy();
        overwrite(&path, tensor, &[1.0, value]);
        let error = start(Options::new(path), Device::Cpu).err().unwrap().to_string();
        assert!(error.contains(tensor) && error.contains("NaN or infinite"), "{error}");
    }
    // Finite, and too large for any sum.
    let (_folder, path) = copy();
    overwrite(&path, "model.language_model.norm.weight", &[f32::MAX; 64]);
    let engine = start(Options::new(path), Device::Cpu).unwrap();
    for generation in [greedy(4), Generation { temperature: 1.0, ..greedy(4) }] {
        let error = ask(&engine, "a question", &generation).unwrap_err();
        assert!(
            matches!(&error, Error::Compute(message) if message.contains("token 1 of the answer")),
            "{error}"
        );
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn tensors_that_the_configuration_leaves_out_are_named() {
    for (name, key) in [("layers", "text_config"), ("depth", "vision_config")] {
        let (_folder, path) = copy();
        edit(&path, "config.json", |json| {
            let size = if name == "layers" { "num_hidden_layers" } else { "depth" };
            json[key][size] = 1.into();
        });
        let error = start(Options::new(path), Device::Cpu).err().unwrap().to_string();
        assert!(error.contains("not used") && error.contains(".1."), "{error}");
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn digests_follow_weights_and_files_and_hold_no_path() {
    let digests = |path: &Path| {
        let info = start(Options::new(path.to_owned()), Device::Cpu).unwrap().describe();
        let text = serde_json::to_string(&info).unwrap();
        assert!(!text.contains(path.parent().unwrap().to_str().unwrap()), "{text}");
        assert_eq!(info.model, path.file_name().unwrap().to_str().unwrap());
        (info.details["weights_sha256"].clone(), info.details["files_sha256"].clone())
    };
    let (_folder, path) = copy();
    let before = digests(&path);
    assert_eq!(before, digests(MODEL.path()));
    // One value in the middle of nowhere.
    overwrite(&path, "model.language_model.layers.0.mlp.up_proj.weight", &[0.123]);
    let after = digests(&path);
    assert!(after.0 != before.0 && after.1 == before.1);
    edit(&path, "config.json", |json| json["note"] = 3.into());
    let last = digests(&path);
    assert!(last.0 == after.0 && last.1 != after.1);
}

#[test]
fn adding_a_tensor_to_itself_doubles_it() {
    let (done, found) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let ops = CpuOps::new(Precision::F32);
        let x = ops.upload(vec![1.0, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let twice = ops.add(x.clone(), &x).unwrap();
        let squared = ops.gated(x.clone(), &x).unwrap();
        let added = ops.index_add(x.clone(), &[1, 0], &x).unwrap();
        let cube = ops.reshape(&x, &[1, 1, 4]).unwrap();
        let turned = ops.rotate(cube, &ops.reshape(&x, &[1, 4]).unwrap(), &ops.reshape(&x, &[1, 4]).unwrap());
        let buffer = ops.buffer([4, 1, 2]).unwrap();
        let into_itself = ops.write(&buffer, 2, &ops.narrow(&buffer, 0, 0, 2).unwrap());
        let values = [&twice, &squared, &added, &x].map(|tensor| ops.download(tensor).unwrap());
        done.send((values, turned.is_ok(), into_itself.is_err())).unwrap();
    });
    let ([twice, squared, added, x], turned, into_itself) =
        found.recv_timeout(Duration::from_secs(60)).expect("no deadlock");
    assert_eq!(twice, [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(added, [4.0, 6.0, 4.0, 6.0]);
    assert!((squared[1] - 4.0 / (1.0 + (-2.0f32).exp())).abs() < 1e-5 && turned && into_itself);
    // What was read is as it was.
    assert_eq!(x, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn neutral_sampling_ignores_the_folders_defaults() {
    let (_folder, path) = copy();
    std::fs::write(path.join("generation_config.json"), r#"{"top_k": 1}"#).unwrap();
    let answers = |engine: &Engine| -> std::collections::BTreeSet<Vec<u32>> {
        let sampled = |seed| Generation { temperature: 1.0, seed: Some(seed), ..Generation::greedy(8) };
        (0..8).map(|seed| ask(engine, "a question", &sampled(seed)).unwrap().token_ids.unwrap()).collect()
    };
    // An evaluation follows the folder, as vLLM does, and its record says so.
    let engine = start(Options::new(path.clone()), Device::Cpu).unwrap();
    assert_eq!(answers(&engine).len(), 1);
    assert!(engine.describe().details["generation_defaults"].contains("top_k 1"));
    let engine = start(Options { neutral_sampling: true, ..Options::new(path) }, Device::Cpu).unwrap();
    assert!(answers(&engine).len() > 6);
    assert!(engine.describe().details["generation_defaults"].contains("top_k 0"));
}
