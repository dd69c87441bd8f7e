//! What a server says of itself: its program with its version, and the context of its model.

use std::time::Duration;

use paravt_hub::http::Client;
use paravt_suite::plan::{Channel, RunPlan};
use serde_json::{Value, json};

use crate::endpoints::Endpoint;
use crate::secret::Secrets;

/// Time for each question; the answers are optional.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that an answer may have.
const BYTES: usize = 1 << 20;
/// The first version of vLLM that reads `media_io_kwargs` of a request.
const READS_MEDIA_SETTINGS: [u32; 2] = [0, 18];
/// The first version of vLLM that takes the positions of frames that go out as a video: 0.18 drops them, 0.19 numbers the
/// frames itself (`multimodal/media/video.py`).
const TAKES_POSITIONS: [u32; 2] = [0, 20];
/// The first version of vLLM whose loaders for Qwen's models sample at a rate and pass over a number of frames
/// (`multimodal/video.py`, `Qwen3VLVideoBackend`); the loader `opencv` heeds it.
const SAMPLES_AT_A_RATE: [u32; 2] = [0, 24];

/// A server without `/version`: how the list of its models names its owner, and where it states its version: at the first
/// of the paths that answers.
struct Other {
    name: &'static str,
    owner: &'static str,
    paths: &'static [&'static str],
    field: &'static str,
}

const OTHERS: [Other; 2] = [
    Other { name: SGLANG, owner: "sglang", paths: &["/server_info", "/get_server_info"], field: "version" },
    Other { name: "llama.cpp", owner: "llamacpp", paths: &["/props"], field: "build_info" },
];
const SGLANG: &str = "SGLang";
const TRANSFORMERS: &str = "transformers serve";

/// Facts of one server; each is absent where the server does not state it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Version of vLLM (`GET /version`).
    pub version: Option<String>,
    /// Program and version, e.g. `SGLang 0.5.6`.
    pub program: Option<String>,
    /// Tokens of a conversation and its answer (`max_model_len` of `GET /v1/models`).
    pub context: Option<u64>,
    /// Frames of a video that SGLang was started with.
    pub nframes: Option<u64>,
    /// vLLM behind the front end that is written in Rust.
    pub rust_frontend: bool,
    /// The models that it lists, where the one that is asked for is not among them: some servers answer by another name.
    pub others: Vec<String>,
}

/// Models that a line names, and characters of a name.
const NAMED: usize = 3;
const LONGEST: usize = 80;

impl About {
    /// Asks a server. One that fails says nothing.
    pub(crate) async fn ask(client: &Client, endpoint: &Endpoint, model: &str, secrets: &Secrets) -> Self {
        let version = get(client, format!("{}/version", endpoint.root()), secrets);
        let models = async {
            match endpoint.listed.get() {
                Some(models) => Some(models.clone()),
                None => get(client, format!("{}/models", endpoint.base), secrets).await,
            }
        };
        let (version, models) = futures::join!(version, models);
        let models = models.unwrap_or_default();
        let mut about = Self::read(&version.unwrap_or_default(), &models, model);
        for name in &mut about.others {
            *name = secrets.redact(name).chars().take(LONGEST).collect();
        }
        let other = OTHERS.iter().find(|other| models["data"][0]["owned_by"] == other.owner);
        if let (None, Some(other)) = (&about.version, other) {
            let mut said = Value::Null;
            for path in other.paths {
                said = get(client, format!("{}{path}", endpoint.root()), secrets).await.unwrap_or_default();
                if !said.is_null() {
                    break;
                }
            }
            about.program = version_in(&said[other.field]).map(|version| format!("{} {version}", other.name));
            about.nframes = said["mm_process_config"]["video"]["nframes"].as_u64();
        }
        about
    }

    /// From both answers. The context is that of the model, or of the only one listed.
    fn read(answer: &Value, models: &Value, model: &str) -> Self {
        let listed = models["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours = listed.iter().find(|entry| entry["id"] == model).or(match listed {
            [only] => Some(only),
            _ => None,
        });
        let version = version_in(&answer["version"]).map(str::to_owned);
        let names: Vec<&str> = listed.iter().filter_map(|entry| entry["id"].as_str()).collect();
        let others = if names.contains(&model) { &[][..] } else { &names[..names.len().min(NAMED)] };
        // transformers lists which of its models are in memory, as llama.cpp does, which names itself.
        let is_transformers = models["data"][0]["status"]["value"].is_string()
            && OTHERS.iter().all(|other| models["data"][0]["owned_by"] != other.owner);
        let program = version.as_ref().map(|version| format!("vLLM {version}"));
        Self {
            others: others.iter().map(|&name| name.to_owned()).collect(),
            rust_frontend: answer["rust_frontend_version"].is_string()
                || models["data"][0]["owned_by"] == "vllm-frontend-rs",
            nframes: None,
            program: program.or_else(|| is_transformers.then(|| TRANSFORMERS.to_owned())),
            version,
            context: ours.and_then(|entry| entry["max_model_len"].as_u64()),
        }
    }

    /// `vLLM 0.17.1, context of 65536 tokens`; `None` where nothing is known.
    pub(crate) fn line(&self) -> Option<String> {
        let context = self.context.map(|context| format!("context of {context} tokens"));
        let others = (!self.others.is_empty()).then(|| format!("lists {}", self.others.join(", ")));
        let parts: Vec<String> = self.program.clone().into_iter().chain(context).chain(others).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The program of a server that has no chat template of a request; one that does not say what it is may have it.
    pub(crate) fn ignores_templates(&self) -> Option<&str> {
        self.program.as_deref().filter(|_| self.version.is_none())
    }

    /// Why this server cannot do what a plan asks of it.
    ///
    /// vLLM 0.32 takes one list of positions for all videos of a request (`multimodal/media/video.py`), and finds a video of
    /// an earlier request by its `uuid` under the same settings alone (`multimodal/processing/inputs.py`).
    pub(crate) fn refuses(&self, plan: &RunPlan, sends_frames: bool) -> Option<String> {
        if let Some(program) = self.program.as_ref().filter(|_| plan.own_positions) {
            return Some(format!(
                "{program} takes no frame positions of several videos in a request, which this protocol has: answer with \
                 --backend candle, or set `agent.clips.own_positions = false` in a protocol file, a variant"
            ));
        }
        if let Some(context) = self.context.filter(|context| u64::from(plan.max_tokens) >= *context) {
            return Some(format!(
                "--max-tokens {} leaves no room in the server's context of {context} tokens: lower it, or serve the \
                 model with a longer context",
                plan.max_tokens
            ));
        }
        self.refuses_videos(plan, sends_frames)
    }

    /// Why this server does not show videos, or frames as a video, as a plan has them.
    fn refuses_videos(&self, plan: &RunPlan, sends_frames: bool) -> Option<String> {
        let flag = match plan.channel {
            Channel::Image => return None,
            Channel::Video => "--channel video",
            Channel::FramesVideo => "--channel frames-video",
        };
        let is_reference = plan.channel == Channel::Video;
        let frames = plan.switches().video_channel_frames;
        let program = self.program.as_deref().unwrap_or_default();
        if self.rust_frontend {
            return Some(format!(
                "{flag}: the Rust front end of {program} takes neither local videos nor settings of their frames: start \
                 vLLM with VLLM_USE_RUST_FRONTEND=0, or use --channel image"
            ));
        }
        if program.starts_with(TRANSFORMERS) || (program.starts_with(SGLANG) && !is_reference) {
            return Some(format!(
                "{flag}: {program} takes no such video: use --channel image, or serve with vLLM"
            ));
        }
        if program.starts_with(SGLANG) && (sends_frames || self.nframes != Some(frames as u64)) {
            let asked = if sends_frames { "--send-video-frames" } else { flag };
            return Some(format!(
                "{asked}: {program} takes the number of frames from its own flag alone, and this run plans {frames}: start \
                 it with --mm-process-config '{{\"video\": {{\"nframes\": {frames}}}}}'{}",
                if sends_frames { " and leave the flag out" } else { "" }
            ));
        }
        let version = self.version.as_deref()?;
        if !is_reference {
            return (!self.is_from(TAKES_POSITIONS)).then(|| {
                format!(
                    "--channel frames-video: vLLM {version} takes no frames with their positions as a video: serve the model \
                     with vLLM 0.20 or newer, or use --channel image"
                )
            });
        }
        (sends_frames && !self.is_from(READS_MEDIA_SETTINGS)).then(|| {
            format!(
                "--send-video-frames: vLLM {version} ignores the number of frames in a request: leave the flag out and \
                 start the server with --media-io-kwargs '{}'",
                media_settings(self.video_backend(), frames)
            )
        })
    }

    /// Whether it is a vLLM of that version or a later one; one without numbers is a build of today.
    fn is_from(&self, first: [u32; 2]) -> bool {
        let Some(version) = &self.version else { return false };
        let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).take(2).collect();
        numbers.len() < 2 || numbers[..] >= first[..]
    }

    /// The loader that heeds a number of frames, where it is not the server's own.
    pub(crate) fn video_backend(&self) -> Option<&'static str> {
        self.is_from(SAMPLES_AT_A_RATE).then_some("opencv")
    }
}

/// What makes vLLM show so many frames of a video: `media_io_kwargs`, as a flag or in a request.
pub(crate) fn media_settings(video_backend: Option<&str>, frames: usize) -> Value {
    match video_backend {
        Some(loader) => json!({"video": {"video_backend": loader, "num_frames": frames}}),
        None => json!({"video": {"num_frames": frames}}),
    }
}

/// A version that may stand in a manifest, not whatever else is there.
fn version_in(value: &Value) -> Option<&str> {
    let is_version = |text: &&str| {
        text.len() <= 40 && text.chars().all(|c| c.is_ascii_alphanumeric() || ".+-".contains(c))
    };
    value.as_str().filter(is_version)
}

async fn get(client: &Client, url: String, secrets: &Secrets) -> Option<Value> {
    let response = client.get(url).timeout(TIMEOUT).send().await.ok()?;
    let body = crate::errors::successful_body(response, BYTES, secrets).await.ok()?;
    serde_json::from_slice(&body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::profile::Profile;

    #[test]
    fn facts_are_those_of_the_model() {
        let models =
            json!({"data": [{"id": "a", "max_model_len": 4096}, {"id": "b", "max_model_len": 65536}]});
        let about = About::read(&json!({"version": "0.17.1"}), &models, "b");
        assert_eq!(about.line().unwrap(), "vLLM 0.17.1, context of 65536 tokens");
        let other = About::read(&Value::Null, &models, "c");
        assert_eq!(other.line().unwrap(), "lists a, b", "the model that is asked for is not among them");
        assert_eq!(About::read(&json!({"version": "a b"}), &json!({"data": []}), "c").line(), None);
    }

    /// SGLang 0.5.23 (`multimodal/processors/qwen_vl.py`), transformers 5.24 (`cli/serving`), vLLM 0.33 (`rust/`).
    #[test]
    fn servers_that_show_videos_otherwise_are_refused_with_what_to_do() {
        let plan = |channel| RunPlan { channel, ..paravt_suite::fixtures::plan(Profile::Strict) };
        let (video, frames) = (plan(Channel::Video), plan(Channel::FramesVideo));
        let listed = |entry: Value| json!({"data": [entry]});
        let sglang = |nframes| About { program: Some("SGLang 0.5.23".into()), nframes, ..About::default() };
        let why = sglang(None).refuses(&video, false).unwrap();
        assert!(why.contains(r#"--mm-process-config '{"video": {"nframes": 64}}'"#), "{why}");
        assert!(sglang(Some(32)).refuses(&video, false).is_some(), "another number");
        assert_eq!(sglang(Some(64)).refuses(&video, false), None);
        assert!(sglang(Some(64)).refuses(&video, true).unwrap().contains("leave the flag out"));
        assert!(sglang(Some(64)).refuses(&frames, false).is_some());
        assert_eq!(sglang(None).refuses(&plan(Channel::Image), false), None);
        let model = json!({"id": "m", "owned_by": "Qwen", "status": {"value": "loaded"}});
        let transformers = About::read(&Value::Null, &listed(model), "m");
        assert_eq!(transformers.line().as_deref(), Some("transformers serve"));
        for plan in [&video, &frames] {
            assert!(transformers.refuses(plan, false).unwrap().contains("takes no such video"));
        }
        let router = json!({"id": "m", "owned_by": "llamacpp", "status": {"value": "loaded"}});
        assert_eq!(About::read(&Value::Null, &listed(router), "m").line(), None);
        let version = json!({"version": "0.33.0", "rust_frontend_version": "0.33.0"});
        let rust = About::read(&version, &listed(json!({"id": "m"})), "m");
        assert!(rust.refuses(&frames, false).unwrap().contains("VLLM_USE_RUST_FRONTEND=0"));
        assert_eq!(rust.refuses(&plan(Channel::Image), false), None);
        let of = |version: &str| {
            media_settings(About { version: Some(version.into()), ..About::default() }.video_backend(), 32)
        };
        assert_eq!(of("0.23.1"), json!({"video": {"num_frames": 32}}));
        for version in ["0.24.0", "0.33.0", "nightly"] {
            assert_eq!(of(version), json!({"video": {"video_backend": "opencv", "num_frames": 32}}));
        }
    }

    #[test]
    fn plans_that_a_server_would_not_follow_are_refused() {
        let plan = |channel| RunPlan { channel, ..paravt_suite::fixtures::plan(Profile::Strict) };
        let about = |version: &str, context| About {
            version: Some(version.into()),
            context: Some(context),
            ..About::default()
        };
        let video = plan(Channel::Video);
        let why = about("0.17.1", 65536).refuses(&video, true).unwrap();
        assert!(why.contains(r#"--media-io-kwargs '{"video":{"num_frames":64}}'"#), "{why}");
        for version in ["0.9.2", "0.17.1+cpu", "0.17.0rc1"] {
            assert!(about(version, 65536).refuses(&video, true).is_some(), "{version}");
        }
        for version in ["0.18.0", "1.0", "nightly"] {
            assert_eq!(about(version, 65536).refuses(&video, true), None, "{version}");
        }
        assert_eq!(about("0.17.1", 65536).refuses(&video, false), None);
        let frames = plan(Channel::FramesVideo);
        for version in ["0.17.1", "0.18.1", "0.19.1"] {
            let why = about(version, 65536).refuses(&frames, false).unwrap();
            assert!(why.contains("--channel frames-video") && why.contains("vLLM 0.20"), "{why}");
        }
        assert_eq!(about("0.20.0", 65536).refuses(&frames, false), None);
        assert_eq!(about("0.32.0", 65536).refuses(&frames, false), None);
        assert_eq!(about("0.17.1", 65536).refuses(&plan(Channel::Image), true), None);
        let placed = RunPlan { own_positions: true, ..plan(Channel::FramesVideo) };
        let named = |program: &str| About { program: Some(program.into()), ..About::default() };
        for program in ["vLLM 0.32.0", "SGLang 0.5.6"] {
            let why = named(program).refuses(&placed, false).unwrap();
            assert!(why.starts_with(program) && why.contains("agent.clips.own_positions = false"), "{why}");
        }
        assert_eq!(About::default().refuses(&frames, false), None);
        assert_eq!(About::default().refuses(&placed, false), None, "a server that does not say what it is");
        let why = about("0.18.0", 2048).refuses(&plan(Channel::Image), false).unwrap();
        assert!(why.contains("context of 2048 tokens"), "{why}");
    }
}
