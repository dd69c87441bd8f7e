//! The engine's promises on a small model: what its caches take, who fails, what an answer depends on, what is refused.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use paravt_backend_candle::{ComposedOps, CpuOps, start};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::engine::{Engine, MemoryPlan, Options};
use paravt_qwen_vl::ops::{Device, Ops, PassLimits, Precision};
use paravt_qwen_vl::sampling::Draw;
use paravt_qwen_vl::spread::Spread;
use paravt_qwen_vl::testing::{Seen, Watched, Work};
use paravt_qwen_vl::weights::Weights;
use paravt_suite::backend::{Backend, CallId, Completion, FinishReason, Generation, Request, StoppedBy};
use paravt_suite::message::{Message, Role};
use paravt_suite::settings::SamplingParams;

type Result<T> = std::result::Result<T, Error>;

/// A random model folder, made once.
static MODEL: LazyLock<PathBuf> = LazyLock::new(|| {
    // No temporary folder: nothing drops what a static holds.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("candle-model");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/tiny_qwen3vl.py");
    paravt_files::make_once(&folder, &[&script], |folder| {
        let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
        let made = Command::new(python).arg(&script).arg(folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    })
    .unwrap();
    folder
});

/// A copy of the model folder.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&*MODEL).unwrap() {
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

/// Answers that are asked for at once.
fn together(
    engine: &Engine,
    texts: impl IntoIterator<Item = impl AsRef<str>>,
    generation: &Generation,
) -> Vec<Result<Completion>> {
    let answers = texts.into_iter().map(|text| async move {
        let prompt = engine.prepare(&said(text.as_ref())).await.unwrap();
        engine.answer(prompt, generation.clone()).await
    });
    futures::executor::block_on(futures::future::join_all(answers))
}

/// Tokens of the prompt of a text.
fn tokens(engine: &Engine, text: &str) -> usize {
    futures::executor::block_on(engine.prepare(&said(text))).unwrap().ids.len()
}

fn greedy(max_tokens: u32) -> Generation {
    Generation { logprobs: true, ..Generation::greedy(max_tokens) }
}

fn bits(completion: &Completion) -> Vec<u32> {
    completion.logprobs.as_ref().unwrap().iter().map(|value| value.to_bits()).collect()
}

/// An engine whose caches have room for exactly so many tokens.
fn watched(tokens: usize, reuse: bool) -> (Engine, Arc<Seen>) {
    let options = Options { reuse, ..Options::new(MODEL.clone()) };
    let (config, weights) = (Config::read(&MODEL).unwrap(), Weights::open(&MODEL).unwrap());
    let holds = |memory: &u64| {
        MemoryPlan::new(&config, &weights, &Options { memory: *memory, ..options.clone() }).cache_tokens
    };
    let (mut low, mut high) = (0, 1 << 40);
    while low < high {
        let middle = (low + high) / 2;
        if holds(&middle) < tokens { low = middle + 1 } else { high = middle }
    }
    let (engine, seen) = start_watched(Options { memory: low, ..options });
    assert_eq!(engine.plan().cache_tokens, tokens);
    (engine, seen)
}

fn start_watched(options: Options) -> (Engine, Arc<Seen>) {
    start_on(options, || CpuOps::new(Precision::F32).batch_invariant())
}

fn start_on<O: Ops>(options: Options, ops: impl FnOnce() -> O + Send + 'static) -> (Engine, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let ours = Arc::clone(&seen);
    (Engine::start("watched", options, move |_| Ok(Watched(ops(), ours))).unwrap(), seen)
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn caches_never_exceed_the_planned_memory() {
    let text = "word ".repeat(300);
    let (engine, _) = watched(100_000, false);
    let prompt = tokens(&engine, &text);
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
        let (plan, memory) = (*engine.plan(), Backend::memory(&engine).unwrap());
        let held = (memory.planned - plan.weights - plan.activations) / plan.caches(1);
        assert!((prompt as u64..=budget as u64).contains(&held), "{held} of {budget} tokens of caches");
        assert!(memory.peak.is_some_and(|peak| peak > plan.weights), "{memory:?}");
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
    for (alone, found) in alone.into_iter().zip(together(&engine, &texts, &greedy(40))) {
        assert_eq!(alone, found.unwrap().token_ids);
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
    seen.largest.store(tokens(&engine, &long) + 256, Ordering::SeqCst);
    let wanted = ask(&engine, &short, &greedy(400)).unwrap().token_ids;
    let ended = wanted.as_ref().unwrap().len() < 400;
    let both = together(&engine, [&short, &long], &greedy(400));
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
    let tokens = tokens(&engine, &long);
    let both = || together(&engine, ["short", &long], &greedy(5));
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
    let options = || Options { deterministic: true, batch: 16, ..Options::new(MODEL.clone()) };
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
    for (found, fresh) in together(&engine, &questions, &greedy(12)).into_iter().zip(&fresh) {
        assert_eq!(&bits(&found.unwrap()), fresh);
    }
}

/// Rows of the prompts' passes, one entry a layer that sees all rows.
fn prompt_rows(seen: &Seen) -> usize {
    std::mem::take(&mut *seen.passes.lock().unwrap()).into_iter().filter(|rows| *rows > 8).sum()
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn samples_of_a_prompt_are_read_once_and_are_to_the_bit_what_each_is_alone() {
    let sampled = |seed| Generation { temperature: 1.0, seed: Some(seed), ..greedy(10 + seed as u32) };
    let text = "word ".repeat(100);
    for batch in [8, 3, 1] {
        let options = Options { reuse: false, batch, tempered_logprobs: true, ..Options::new(MODEL.clone()) };
        let (engine, seen) = start_watched(options);
        let alone: Vec<Vec<u32>> =
            (0..6).rev().map(|seed| bits(&ask(&engine, &text, &sampled(seed)).unwrap())).collect();
        let each = prompt_rows(&seen);
        let prompt = futures::executor::block_on(engine.prepare(&said(&text))).unwrap();
        let other = futures::executor::block_on(engine.prepare(&said("another"))).unwrap();
        let asked = (0..6).rev().map(|seed| engine.answer(prompt.clone(), sampled(seed)));
        let (together, other) = futures::executor::block_on(async {
            futures::future::join(futures::future::join_all(asked), engine.answer(other, greedy(4))).await
        });
        let together: Vec<_> = together.iter().map(|found| bits(found.as_ref().unwrap())).collect();
        assert_eq!(together, alone, "batch {batch}");
        other.unwrap();
        let rows = prompt_rows(&seen);
        assert!((each / 6..each / 6 + 60).contains(&rows), "{rows} rows of {each}, batch {batch}");
        drop(engine);
        assert_eq!(seen.rows.load(Ordering::SeqCst), 0);
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_decoded_token_launches_and_moves_so_much() {
    // Of each of eight tokens: what the second answer is longer by.
    fn of_a_token<O: Ops>(penalty: f64, ops: impl FnOnce() -> O + Send + 'static) -> Work {
        let options = Options { reuse: false, ..Options::new(MODEL.clone()) };
        let (engine, seen) = start_on(options, ops);
        let [short, long] = [4, 12].map(|tokens| {
            let sampling = SamplingParams { repetition_penalty: Some(penalty), ..SamplingParams::default() };
            let asked = Generation { sampling, ..greedy(tokens) };
            assert_eq!(ask(&engine, "tell", &asked).unwrap().token_ids.unwrap().len(), tokens as usize);
            seen.take()
        });
        let each = |of: fn(&Work) -> usize| (of(&long) - of(&short)) / 8;
        Work {
            operations: each(|work| work.operations),
            uploaded: each(|work| work.uploaded),
            downloaded: each(|work| work.downloaded),
            waits: each(|work| work.waits),
        }
    }
    let vocabulary = Config::read(&MODEL).unwrap().text.vocab_size;
    // The id of the token and two rotary tables.
    let uploaded = 4 + 2 * 4 * 32;
    let on_host = Work { operations: 34, uploaded, downloaded: 4 * vocabulary, waits: 1 };
    assert_eq!(of_a_token(1.0, || CpuOps::new(Precision::F32)), on_host);
    // Queries, keys and values are one product there, and the two of the gated MLP, in each of two layers.
    let composed = || ComposedOps::new(candle_core::Device::Cpu, Precision::F32);
    // The host looks at logits that a penalty changes.
    assert_eq!(of_a_token(1.001, composed), Work { operations: 28, ..on_host });
    // Of any other greedy answer the device gives a token and its log-probability.
    assert_eq!(of_a_token(1.0, composed), Work { operations: 29, downloaded: 8, ..on_host });
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_pass_of_a_prompt_launches_and_moves_so_much_and_waits_for_nothing() {
    fn of_a_pass<O: Ops>(ops: impl Fn() -> O + Clone + Send + 'static) -> usize {
        let pass = PassLimits { tokens: 64, ..PassLimits::CPU };
        let [(few, before), (many, after)] = [150, 400].map(|words| {
            let options = Options { reuse: false, pass, ..Options::new(MODEL.clone()) };
            let (engine, seen) = start_on(options, ops.clone());
            let text = "word ".repeat(words);
            let tokens = tokens(&engine, &text);
            ask(&engine, &text, &greedy(1)).unwrap();
            (tokens, seen.take())
        });
        assert_eq!((before.waits, after.waits), (1, 1), "for the first token alone");
        assert_eq!(before.downloaded, after.downloaded);
        let [passes, tokens] = [many.div_ceil(64) - few.div_ceil(64), many - few];
        // Of each token its id and two rotary tables; of each pass the tables of its last row once more, and where that is.
        let tables = 2 * 4 * 32;
        assert_eq!(after.uploaded - before.uploaded, tokens * (4 + tables) + passes * (tables + 2 * 4));
        let operations = after.operations - before.operations;
        assert!(operations.is_multiple_of(passes), "{before:?} {after:?}");
        operations / passes
    }
    assert_eq!(of_a_pass(|| CpuOps::new(Precision::F32)), 36);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn several_engines_answer_as_one() {
    let request = |number: usize, step: &str| Request {
        id: CallId::new(format!("sample {}", number % 7), step),
        messages: said(&format!("tell {}", "more ".repeat(number))),
        generation: greedy(12),
        tools: None,
        chat_template: None,
    };
    let requests: Vec<Request> = (0..20).map(|number| request(number, &format!("turn{number}"))).collect();
    let engine = || {
        let options = Options { deterministic: true, ..Options::new(MODEL.clone()) };
        Arc::new(start(options, Device::Cpu).unwrap()) as Arc<dyn Backend>
    };
    let answers = |backend: &dyn Backend| {
        let all = requests.iter().map(|request| backend.complete(request));
        let all = futures::executor::block_on(futures::future::join_all(all));
        all.into_iter()
            .map(|found| found.unwrap())
            .map(|found| (bits(&found), found.token_ids))
            .collect::<Vec<_>>()
    };
    let (one, three) = (engine(), Spread::new(vec![engine(), engine(), engine()]));
    assert_eq!(one.describe(), three.describe());
    assert_eq!(answers(&*one), answers(&three));
}

#[test]
fn the_likeliest_token_is_the_first_of_equals_and_none_where_a_logit_is_not_finite() {
    let ops = ComposedOps::new(candle_core::Device::Cpu, Precision::F32);
    let likeliest = Draw { temperature: 0.0, top_k: 0, top_p: 1.0, uniform: 0.0, logprob_temperature: 1.0 };
    let found = |values: &[f32]| {
        let logits = ops.upload(values.to_vec(), &[2, values.len() / 2]).unwrap();
        ops.sample(&logits, &[likeliest; 2]).unwrap()
    };
    let tokens = found(&[1.0, 3.0, 3.0, -1.0, 2.0, 2.0, 2.0, 2.0]).unwrap();
    assert_eq!(tokens.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 0]);
    assert!((tokens[1].1 - 0.25f32.ln()).abs() < 1e-6);
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(found(&[1.0, 2.0, 3.0, wrong]).is_none(), "{wrong}");
    }
    // Another vocabulary.
    assert_eq!(found(&[1.0, 2.0, 4.0, 3.0]).unwrap()[1].0, 0);
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
    let engine = start(Options::new(MODEL.clone()), Device::Cpu).unwrap();
    let whole = ask(&engine, "tell", &greedy(30)).unwrap();
    let (at, stop) = whole.text.char_indices().find(|(_, character)| character.is_ascii_graphic()).unwrap();
    let stop = stop.to_string();
    let sampling = SamplingParams { stop: vec![stop.clone()], ..SamplingParams::default() };
    let stopped = ask(&engine, "tell", &Generation { sampling, ..greedy(30) }).unwrap();
    assert_eq!((stopped.stopped_by, whole.stopped_by), (StoppedBy::Text(stop.clone()), StoppedBy::Model));
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
    assert_eq!(before, digests(&MODEL));
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
        let buffer = ops.buffer([4, 1, 2]).unwrap();
        let into_itself = ops.write(&buffer, 2, &ops.narrow(&buffer, 0, 0, 2).unwrap());
        let values = [&twice, &squared, &added, &x].map(|tensor| ops.download(tensor).unwrap());
        done.send((values, into_itself.is_err())).unwrap();
    });
    let ([twice, squared, added, x], into_itself) =
        found.recv_timeout(Duration::from_secs(60)).expect("no deadlock");
    assert_eq!(twice, [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(added, [4.0, 6.0, 4.0, 6.0]);
    assert!((squared[1] - 4.0 / (1.0 + (-2.0f32).exp())).abs() < 1e-5 && into_itself);
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
