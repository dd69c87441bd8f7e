//! What a server says of itself: its program with its version, and the context of its model.

use std::time::Duration;

use paravt_hub::http::Client;
use paravt_suite::plan::{Channel, RunPlan};
use serde_json::Value;

use crate::endpoints::Endpoint;
use crate::secret::Secrets;

/// Time for each question; the answers are optional.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that an answer may have.
const BYTES: usize = 1 << 20;
/// The first version of vLLM that reads `media_io_kwargs` of a request.
const READS_MEDIA_SETTINGS: [u32; 2] = [0, 18];

/// A server without `/version`: how the list of its models names its owner, and where it states its version.
struct Other {
    name: &'static str,
    owner: &'static str,
    path: &'static str,
    field: &'static str,
}

const OTHERS: [Other; 2] = [
    Other { name: "SGLang", owner: "sglang", path: "/get_server_info", field: "version" },
    Other { name: "llama.cpp", owner: "llamacpp", path: "/props", field: "build_info" },
];

/// Facts of one server; each is absent where the server does not state it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Version of vLLM (`GET /version`).
    pub version: Option<String>,
    /// Program and version, e.g. `SGLang 0.5.6`.
    pub program: Option<String>,
    /// Tokens of a conversation and its answer (`max_model_len` of `GET /v1/models`).
    pub context: Option<u64>,
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
        if let (None, Some(other)) = (&about.program, other) {
            let said = get(client, format!("{}{}", endpoint.root(), other.path), secrets).await;
            let version = said.as_ref().and_then(|said| version_in(&said[other.field]));
            about.program = version.map(|version| format!("{} {version}", other.name));
        }
        about
    }

    /// From both answers. The context is that of the model, or of the only one listed.
    fn read(version: &Value, models: &Value, model: &str) -> Self {
        let listed = models["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours = listed.iter().find(|entry| entry["id"] == model).or(match listed {
            [only] => Some(only),
            _ => None,
        });
        let version = version_in(&version["version"]).map(str::to_owned);
        let names: Vec<&str> = listed.iter().filter_map(|entry| entry["id"].as_str()).collect();
        let others = if names.contains(&model) { &[][..] } else { &names[..names.len().min(NAMED)] };
        Self {
            others: others.iter().map(|&name| name.to_owned()).collect(),
            program: version.as_ref().map(|version| format!("vLLM {version}")),
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
        let version = self.version.as_deref()?;
        let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).take(2).collect();
        if numbers.len() < 2 || numbers[..] >= READS_MEDIA_SETTINGS[..] {
            return None;
        }
        if plan.channel == Channel::FramesVideo {
            return Some(format!(
                "--channel frames-video: vLLM {version} takes no video of frames: serve the model with vLLM 0.18 or newer, \
                 or use --channel image"
            ));
        }
        (sends_frames && plan.channel == Channel::Video).then(|| {
            format!(
                "--send-video-frames: vLLM {version} ignores the number of frames in a request: leave the flag out and \
                 start the server with --media-io-kwargs '{{\"video\": {{\"num_frames\": {}}}}}'",
                plan.switches().video_channel_frames
            )
        })
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
    use serde_json::json;

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
        assert!(why.contains("--media-io-kwargs '{\"video\": {\"num_frames\": 64}}'"), "{why}");
        for version in ["0.9.2", "0.17.1+cpu", "0.17.0rc1"] {
            assert!(about(version, 65536).refuses(&video, true).is_some(), "{version}");
        }
        for version in ["0.18.0", "1.0", "nightly"] {
            assert_eq!(about(version, 65536).refuses(&video, true), None, "{version}");
        }
        assert_eq!(about("0.17.1", 65536).refuses(&video, false), None);
        let frames = plan(Channel::FramesVideo);
        assert!(about("0.17.1", 65536).refuses(&frames, false).unwrap().contains("--channel frames-video"));
        assert_eq!(about("0.32.0", 65536).refuses(&frames, false), None);
        assert_eq!(about("0.17.1", 65536).refuses(&plan(Channel::Image), true), None);
        let placed = RunPlan { own_positions: true, ..plan(Channel::FramesVideo) };
        let named = |program: &str| About { program: Some(program.into()), ..About::default() };
        for program in ["vLLM 0.32.0", "SGLang 0.5.6"] {
            let why = named(program).refuses(&placed, false).unwrap();
            assert!(why.starts_with(program) && why.contains("agent.clips.own_positions = false"), "{why}");
            assert_eq!(named(program).refuses(&frames, false), None);
        }
        assert_eq!(About::default().refuses(&placed, false), None, "a server that does not say what it is");
        let why = about("0.18.0", 2048).refuses(&plan(Channel::Image), false).unwrap();
        assert!(why.contains("context of 2048 tokens"), "{why}");
    }
}
