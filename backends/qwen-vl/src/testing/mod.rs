//! The parity suite of an engine: everything `tests/reference.py` recorded, stage by stage.

mod watched;

use std::path::{Path, PathBuf};
use std::process::Command;

use paravt_suite::backend::{Backend as _, CallId, Completion, FinishReason, Generation, Request};
use paravt_suite::conversation::parse_conversation;
use paravt_suite::message::Message;
use serde::Deserialize;

use crate::config::Config;
use crate::engine::{Engine, Options};
use crate::model::{Features, KvCache, Model, Rows};
use crate::ops::{Ops, PassLimits, Precision};
use crate::positions::{Grid, VideoRule};
use crate::prompt::{Medium, Prompt, Prompter};
use crate::weights::Weights;

pub use watched::{Counted, Seen, Watched, Work};

/// One recorded conversation.
#[derive(Debug, Deserialize)]
pub struct Case {
    name: String,
    messages: serde_json::Value,
    text: String,
    ids: Vec<u32>,
    generated: Vec<u32>,
    logprobs: Vec<f32>,
    answer: String,
}

/// A folder of small random models, and a trained one, with what transformers makes of them.
pub struct Reference {
    folder: PathBuf,
    /// Conversations of each model.
    cases: usize,
}

impl Reference {
    /// Runs transformers, unless `scratch` has what it made of the same scripts and packages; or opens the folder
    /// `PARAVT_REFERENCE`, which `tests/reference.py --small` has made.
    ///
    /// # Panics
    /// Python or its packages are missing.
    pub fn record(scratch: &str) -> Self {
        if let Some(folder) = std::env::var_os("PARAVT_REFERENCE") {
            return Self { folder: folder.into(), cases: 5 };
        }
        let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = here.join("tests/reference.py");
        let mut from = vec![script.clone()];
        from.extend(["tiny_qwen3vl.py", "tiny_qwen25vl.py"].map(|name| here.join("../../ci").join(name)));
        from.push(here.join("../../reproduce/nano/base/model.safetensors"));
        // ci/setup's, of an environment of its own.
        let packages = Path::new(&python).ancestors().nth(2).map(|environment| environment.join(".peers"));
        from.extend(packages.filter(|packages| packages.exists()));
        let folder = Path::new(scratch).join("reference");
        let record = |folder: &Path| {
            let output = Command::new(&python).arg(&script).arg(folder).output().expect("python runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        paravt_files::make_once(&folder, &from, record).expect("the reference's folder");
        Self { folder, cases: 7 }
    }

    /// The models.
    pub fn models(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).expect("the folder");
        let mut models: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        models.sort();
        assert_eq!(models.len(), 7);
        models
    }

    fn cases(&self, folder: &Path) -> Vec<Case> {
        let text = std::fs::read_to_string(folder.join("cases.json")).expect("cases");
        let text = text.replace("file://", &format!("file://{}/", folder.display()));
        let cases: Vec<Case> = serde_json::from_str(&text).expect("cases");
        assert_eq!(cases.len(), self.cases);
        cases
    }

    /// Compares every stage of every case of every model; `ops` makes the engine's arithmetic in f32.
    pub fn compare<O: Ops>(&self, ops: impl Fn() -> O + Copy + Send + 'static) {
        self.compare_arithmetic(ops);
        self.compare_orders(ops);
    }

    /// Compares answers to prompts read in the orders that an engine may take, whatever computes them.
    pub fn compare_orders<O: Ops>(&self, ops: impl Fn() -> O + Copy + Send + 'static) {
        for folder in self.models() {
            orders(&folder, &self.cases(&folder), ops);
        }
    }

    /// Compares every stage, and answers alone and in a batch.
    pub fn compare_arithmetic<O: Ops>(&self, ops: impl Fn() -> O + Copy + Send + 'static) {
        for folder in self.models() {
            let cases = self.cases(&folder);
            stages(&folder, &cases, ops());
            answers(&folder, &cases, ops);
        }
    }
}

impl Reference {
    /// bfloat16 is at most `limit` times as far from f32 here as in transformers, and a trained model's likeliest tokens are nearly
    /// all the same: `ops` makes the engine's arithmetic in it.
    pub fn compare_bf16<O: Ops>(&self, limit: f64, ops: impl Fn() -> O) {
        for folder in self.models() {
            let config = read_config(&folder);
            let prompter = Prompter::read(&folder, &config).expect("prompter");
            let weights = Weights::open(&folder).expect("weights");
            let width = config.text.vocab_size;
            let model = Model::load(ops(), config, &weights).expect("model");
            let (mut ours, mut theirs, mut scale) = (0.0, 0.0, 0.0);
            let (mut agreeing, mut tokens) = (0, 0);
            for case in self.cases(&folder) {
                let read = |end: &str| Tensors::open(&folder.join(format!("{}{end}.safetensors", case.name)));
                let (exact, rounded) = (read(""), read(".bf16"));
                let prompt = prompter.prompt(&case.conversation()).expect("prompt");
                let features = exact.get("pixels").map(|(shape, pixels)| {
                    let grids: Vec<Grid> = prompt.media.iter().map(|medium| medium.patches.grid).collect();
                    model.encode(model.ops.upload(pixels, &shape).expect("pixels"), &grids).expect("features")
                });
                let (hidden, _) = run(&model, &prompt, features.as_ref(), &[prompt.ids.len()]);
                let found = model.ops.download(&model.logits(&hidden).expect("logits")).expect("logits");
                let exact = exact.get("logits").expect("logits").1;
                let rounded = rounded.get("logits").expect("logits").1;
                ours += squares(&found, &exact);
                theirs += squares(&rounded, &exact);
                scale += squares(&exact, &vec![0.0; exact.len()]);
                let pairs = found.chunks(width).zip(rounded.chunks(width));
                agreeing += pairs.filter(|(found, rounded)| likeliest(found) == likeliest(rounded)).count();
                tokens += prompt.ids.len();
            }
            let (ours, theirs) = ((ours / scale).sqrt(), (theirs / scale).sqrt());
            let label = folder.file_name().unwrap_or_default().display().to_string();
            println!(
                "{label}: relative error of bf16 {ours:.2e}, of transformers' {theirs:.2e}; the same likeliest token \
                 at {agreeing} of {tokens}"
            );
            assert!(
                ours <= limit * theirs,
                "{label}: {ours} is more than {limit} times transformers' {theirs}"
            );
            // Of random weights the likeliest tokens are often nearly equally likely.
            assert!(label != "trained" || agreeing * 100 >= tokens * 98, "{agreeing} of {tokens}");
        }
    }
}

/// With the video rule of the installed version of transformers.
fn read_config(folder: &Path) -> Config {
    let mut config = Config::read(folder).expect("config");
    config.video_rule = VideoRule::Transformers5;
    config
}

fn likeliest(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
}

fn squares(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
}

impl Case {
    fn conversation(&self) -> Vec<Message> {
        parse_conversation(&self.messages).expect("a conversation")
    }

    /// Compares an answer with the recorded one.
    fn check(&self, folder: &Path, way: &str, found: &Completion) {
        let label = format!("{} {} {way}", folder.file_name().unwrap_or_default().display(), self.name);
        assert_eq!(found.token_ids.as_deref(), Some(self.generated.as_slice()), "{label}");
        close(&label, found.logprobs.as_deref().expect("logprobs"), &self.logprobs, 1e-4);
        assert_eq!(found.text, self.answer, "{label}");
        assert!(found.first_token.is_some_and(|first| first <= found.latency), "{label}: {found:?}");
        let stopped = self.generated.len() < 64;
        assert_eq!(found.finish_reason == Some(FinishReason::Stop), stopped, "{label}");
    }
}

/// Prompt, pixels, positions, features and logits.
fn stages<O: Ops>(folder: &Path, cases: &[Case], ops: O) {
    let config = read_config(folder);
    let prompter = Prompter::read(folder, &config).expect("prompter");
    let weights = Weights::open(folder).expect("weights");
    let model = Model::load(ops, config, &weights).expect("model");
    for case in cases {
        let label = format!("{} {}", folder.file_name().unwrap_or_default().display(), case.name);
        let tensors = Tensors::open(&folder.join(format!("{}.safetensors", case.name)));
        let prompt = prompter.prompt(&case.conversation()).expect("prompt");
        assert_eq!(prompt.text, case.text, "{label}: rendered text");
        assert_eq!(prompt.ids, case.ids, "{label}: prompt ids");
        let positions = tensors.get("positions").expect("positions").1;
        let found: Vec<f32> =
            (0..3).flat_map(|axis| prompt.positions.iter().map(move |p| p[axis] as f32)).collect();
        assert_eq!(found, positions, "{label}: positions");
        let features = compare_media(&label, &model, &prompt, &tensors);
        let (hidden, _) = run(&model, &prompt, features.as_ref(), &[prompt.ids.len()]);
        let logits = model.ops.download(&model.logits(&hidden).expect("logits")).expect("logits");
        close(&format!("{label}: logits"), &logits, &tensors.get("logits").expect("logits").1, 1e-4);
        // The same in three passes over a growing cache.
        let cuts = [prompt.ids.len() / 3, prompt.ids.len() / 2, prompt.ids.len()];
        let (hidden, _) = run(&model, &prompt, features.as_ref(), &cuts);
        let last = model.ops.download(&model.logits(&hidden).expect("logits")).expect("logits");
        close(&format!("{label}: logits with a cache"), &last, &logits[logits.len() - last.len()..], 1e-4);
    }
}

/// Pixels within 1e-6 of the reference's; features of the reference's own pixels within 1e-4 of their largest value, which
/// a trained model has far above 1: what is rounded grows with it.
fn compare_media<O: Ops>(
    label: &str,
    model: &Model<O>,
    prompt: &Prompt,
    tensors: &Tensors,
) -> Option<Features<O::Tensor>> {
    let (shape, pixels) = tensors.get("pixels")?;
    let grids: Vec<Grid> = prompt.media.iter().map(|medium| medium.patches.grid).collect();
    let found: Vec<f32> =
        grids.iter().flat_map(|grid| [grid.t, grid.h, grid.w].map(|side| side as f32)).collect();
    assert_eq!(found, tensors.get("grids").expect("grids").1, "{label}: grids");
    let values: Vec<f32> = prompt.media.iter().flat_map(|medium| medium.patches.values()).collect();
    // Equal to the bit but for the last one of the normalisation, resized pictures and decoded frames too.
    close(&format!("{label}: pixels"), &values, &pixels, 1e-6);
    // The same from bytes, normalised where the engine does so.
    for Medium { patches, .. } in &prompt.media {
        let bytes: Vec<&[u8]> = (0..patches.grid.t).map(|number| patches.frame(number)).collect();
        let shape = [patches.grid.patches(), shape[1]];
        let found = model.ops.upload_patches(&bytes.concat(), patches.scale(), shape).expect("pixels");
        let wanted = model.ops.upload(patches.values().collect(), &shape).expect("pixels");
        let [found, wanted] = [found, wanted].map(|pixels| model.ops.download(&pixels).expect("pixels"));
        close(&format!("{label}: pixels of bytes"), &found, &wanted, 0.0);
    }
    let pixels = model.ops.upload(pixels, &shape).expect("pixels");
    let features = model.encode(pixels, &grids).expect("features");
    let merged = model.ops.download(&features.merged).expect("features");
    let wanted = &tensors.get("merged").expect("features").1;
    close(&format!("{label}: features"), &merged, wanted, 1e-4 * largest(wanted));
    for (number, deep) in features.deepstack.iter().enumerate() {
        let found = model.ops.download(deep).expect("deepstack");
        let wanted = tensors.get(&format!("deepstack.{number}")).expect("deepstack").1;
        close(&format!("{label}: deepstack {number}"), &found, &wanted, 1e-4 * largest(&wanted));
    }
    assert!(tensors.get(&format!("deepstack.{}", features.deepstack.len())).is_none(), "{label}");
    Some(features)
}

/// Runs a prompt in passes that end at the cuts; hidden states of the last pass, and the cache.
fn run<O: Ops>(
    model: &Model<O>,
    prompt: &Prompt,
    features: Option<&Features<O::Tensor>>,
    cuts: &[usize],
) -> (O::Tensor, KvCache<O::Tensor>) {
    let visual: Vec<usize> = prompt
        .media
        .iter()
        .flat_map(|medium| &medium.runs)
        .flat_map(|&(start, length)| start..start + length)
        .collect();
    let mut cache = KvCache::new(&model.ops, &model.config.text, 1).expect("a cache");
    let (mut start, mut hidden) = (0, None);
    for &end in cuts {
        let before = visual.iter().filter(|place| **place < start).count();
        let places: Vec<u32> = visual[before..]
            .iter()
            .filter(|place| **place < end)
            .map(|place| (place - start) as u32)
            .collect();
        let cut = |tensor: &O::Tensor| model.ops.narrow(tensor, 0, before, places.len()).expect("rows");
        let part = features.filter(|_| !places.is_empty()).map(|features| Features {
            merged: cut(&features.merged),
            deepstack: features.deepstack.iter().map(cut).collect(),
        });
        let rows = Rows {
            ids: &prompt.ids[start..end],
            positions: &prompt.positions[start..end],
            visual: &places,
            features: part.as_ref(),
            cache: Some(&mut cache),
            shared: 0..0,
            last_only: false,
        };
        hidden = Some(model.hidden(&mut [rows]).expect("hidden states"));
        start = end;
    }
    (hidden.expect("at least one pass"), cache)
}

/// An engine of a folder.
fn start<O: Ops>(folder: &Path, pass: PassLimits, ops: impl Fn() -> O + Send + 'static) -> Engine {
    let options = Options {
        precision: Precision::F32,
        memory: 1 << 30,
        narrow_weights: true,
        // The peer's version.
        video_rule: VideoRule::Transformers5,
        pass,
        ..Options::new(folder.to_owned())
    };
    Engine::start("test", options, move |_| Ok(ops())).expect("an engine")
}

/// Greedy answers alone and all at once (in a batch).
fn answers<O: Ops>(folder: &Path, cases: &[Case], ops: impl Fn() -> O + Copy + Send + 'static) {
    for case in cases {
        case.check(folder, "alone", &block_on(&start(folder, PassLimits::CPU, ops), case));
    }
    let engine = start(folder, PassLimits::CPU, ops);
    let requests: Vec<Request> = cases.iter().map(request).collect();
    let together = futures::future::join_all(requests.iter().map(|request| engine.complete(request)));
    for (case, found) in cases.iter().zip(futures::executor::block_on(together)) {
        case.check(folder, "in a batch", &found.expect("an answer"));
    }
}

/// Greedy answers after each other, with prefix reuse, and with prompts in many passes, frames one by one.
fn orders<O: Ops>(folder: &Path, cases: &[Case], ops: impl Fn() -> O + Copy + Send + 'static) {
    let engine = start(folder, PassLimits::CPU, ops);
    for case in cases.iter().chain(cases) {
        case.check(folder, "after others", &block_on(&engine, case));
    }
    let engine = start(folder, PassLimits { tokens: 7, patches: 1, ..PassLimits::CPU }, ops);
    for case in cases {
        case.check(folder, "in short passes", &block_on(&engine, case));
    }
}

fn request(case: &Case) -> Request {
    Request {
        id: CallId::new(case.name.clone(), "turn0"),
        messages: case.conversation(),
        generation: Generation { logprobs: true, ..Generation::greedy(64) },
        tools: None,
        chat_template: None,
    }
}

fn block_on(engine: &Engine, case: &Case) -> Completion {
    futures::executor::block_on(engine.complete(&request(case))).expect("an answer")
}

/// Largest magnitude, 1 at least.
fn largest(values: &[f32]) -> f32 {
    values.iter().fold(1.0, |largest, value| largest.max(value.abs()))
}

/// Largest absolute difference within `limit`.
fn close(label: &str, found: &[f32], wanted: &[f32], limit: f32) {
    assert_eq!(found.len(), wanted.len(), "{label}: values");
    let worst = found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // Shown with --nocapture.
    println!("{label}: {worst:.1e} of {limit:.1e}");
    assert!(
        worst <= limit && found.iter().all(|value| value.is_finite()),
        "{label}: {worst} is over {limit}"
    );
}

/// A recorded file of f32 tensors.
struct Tensors {
    bytes: Vec<u8>,
}

impl Tensors {
    fn open(path: &Path) -> Self {
        Self { bytes: std::fs::read(path).expect("recorded tensors") }
    }

    fn get(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let file = safetensors::SafeTensors::deserialize(&self.bytes).expect("safetensors");
        let tensor = file.tensor(name).ok()?;
        let values = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        Some((tensor.shape().to_vec(), values.collect()))
    }
}
