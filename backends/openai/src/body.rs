//! Request bodies. A prompt of 64 frames is megabytes of base64 that a conversation sends again
//! each turn: it is copied once, and never looked at for characters to escape.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use paravt_suite::backend::Request;
use paravt_suite::message::{Content, Frames, Message, Part, Role, StructuredCall};
use serde_json::{Map, Value, json};

use crate::about::media_settings;

/// Fields of every request body of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fixed {
    /// Ask vLLM for a video's frame count with each request (`media_io_kwargs`).
    pub send_video_frames: bool,
    /// The loader of vLLM that heeds it, where it is not the server's own.
    pub video_backend: Option<&'static str>,
    /// Arguments of the server's chat template.
    pub chat_template_kwargs: Map<String, Value>,
    /// Further fields; none that the suite writes itself.
    pub extra: Map<String, Value>,
    /// Names that fields have at this server, empty for those that are left out.
    pub names: BTreeMap<String, String>,
}

/// The field of the token limit, and its name at servers of reasoning models.
pub(crate) const LIMIT: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The JSON of one chat completion request.
pub(crate) fn build(model: &str, request: &Request, fixed: &Fixed, streams: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 + request.messages.iter().map(size).sum::<usize>());
    out.extend_from_slice(b"{\"model\":");
    string(&mut out, model);
    out.extend_from_slice(b",\"messages\":[");
    for (index, message) in request.messages.iter().enumerate() {
        comma(&mut out, index);
        write_message(&mut out, message);
    }
    out.push(b']');
    let generation = &request.generation;
    // The reference sends a temperature of `0`, not `0.0`; servers take both.
    let temperature = match generation.temperature {
        0.0 => json!(0),
        other => json!(other),
    };
    let limits = [(LIMIT[0], json!(generation.max_tokens)), ("temperature", temperature)];
    let more = [("stop", json!(generation.sampling.stop)), ("seed", json!(generation.seed))];
    for (name, value) in limits.into_iter().chain(generation.sampling.numbers()).chain(more) {
        let name = fixed.names.get(name).map_or(name, String::as_str);
        let is_set = !value.is_null() && value != json!([]);
        if is_set && !name.is_empty() {
            field(&mut out, name, &value);
        }
    }
    if generation.logprobs {
        out.extend_from_slice(b",\"logprobs\":true,\"return_token_ids\":true");
    }
    if let Some(tools) = &request.tools {
        field(&mut out, "tools", &**tools);
    }
    if let (true, Some(frames)) = (fixed.send_video_frames, request.videos().find_map(|video| video.nframes))
    {
        field(&mut out, "media_io_kwargs", &media_settings(fixed.video_backend, frames));
    }
    let mut extra = Cow::Borrowed(&fixed.extra);
    let videos: Vec<&Frames> = frames(request).collect();
    if !videos.is_empty() {
        write_frames_settings(&mut out, &videos);
    }
    if videos.iter().any(|video| video.keep_size) {
        let settings = extra.to_mut().entry("mm_processor_kwargs").or_insert_with(|| json!({}));
        if let Some(settings) = settings.as_object_mut() {
            settings.insert("do_resize".to_owned(), json!(false));
        }
    }
    if let Some(template) = &request.chat_template {
        field(&mut out, "chat_template", template);
    }
    if !fixed.chat_template_kwargs.is_empty() {
        field(&mut out, "chat_template_kwargs", &fixed.chat_template_kwargs);
    }
    if request.messages.last().is_some_and(|message| message.role == Role::Assistant) {
        // vLLM and SGLang; without it the server would open another turn of the model.
        out.extend_from_slice(b",\"continue_final_message\":true,\"add_generation_prompt\":false");
    }
    if streams {
        out.extend_from_slice(b",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    }
    for (name, value) in extra.iter() {
        field(&mut out, name, value);
    }
    out.push(b'}');
    out
}

/// The frames that go out as videos, in order.
pub(crate) fn frames(request: &Request) -> impl Iterator<Item = &Frames> {
    let parts = request.messages.iter().filter_map(|message| match &message.content {
        Content::Parts(parts) => Some(parts),
        Content::Text(_) => None,
    });
    parts.flatten().filter_map(|part| match part {
        Part::Frames(frames) => Some(frames),
        _ => None,
    })
}

/// What vLLM has to know of frames that it did not sample (vLLM 0.32, `multimodal/media/video.py`): an object that holds for
/// every video of the request. Where theirs differ a list has one for each video, which vLLM refuses (`About::refuses`).
fn write_frames_settings(out: &mut Vec<u8>, videos: &[&Frames]) {
    let settings: Vec<Value> = videos.iter().copied().map(settings_of).collect();
    let video = match &settings[..] {
        [first, others @ ..] if others.iter().all(|other| other == first) => first.clone(),
        _ => Value::Array(settings),
    };
    field(out, "media_io_kwargs", &json!({ "video": video }));
}

/// `num_frames` has to be there: beside any other field its default of 32 would cut the list of frames off.
fn settings_of(frames: &Frames) -> Value {
    let (total, rate) = (frames.source_frames(), frames.rate());
    match frames.even {
        // Without a number of frames they fit each of several videos.
        Some(rate) => json!({"num_frames": -1, "fps": rate, "do_sample_frames": false}),
        None => json!({
            "num_frames": frames.images.len(), "fps": rate, "frames_indices": frames.indices(),
            "total_num_frames": total, "duration": total as f64 / rate, "do_sample_frames": false,
        }),
    }
}

fn size(message: &Message) -> usize {
    match &message.content {
        Content::Text(text) => text.len() + 64,
        Content::Parts(parts) => parts.iter().map(part_size).sum::<usize>() + 64,
    }
}

fn part_size(part: &Part) -> usize {
    64 + match part {
        Part::Text(text) => text.len(),
        Part::Image(image) => image.data_url().len(),
        Part::Frames(frames) => frames.images.iter().map(|image| image.data_url().len()).sum(),
        Part::Video(video) => video.path.as_os_str().len(),
    }
}

fn write_message(out: &mut Vec<u8>, message: &Message) {
    raw(out, &format!("{{\"role\":\"{}\",\"content\":", message.role.as_str()));
    match &message.content {
        Content::Text(text) => string(out, text),
        Content::Parts(parts) => {
            out.push(b'[');
            for (index, part) in parts.iter().enumerate() {
                comma(out, index);
                write_part(out, part);
            }
            out.push(b']');
        }
    }
    if !message.tool_calls.is_empty() {
        let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
        field(out, "tool_calls", &calls);
    }
    if let Some(id) = &message.tool_call_id {
        field(out, "tool_call_id", id);
    }
    out.push(b'}');
}

fn call(call: &StructuredCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn write_part(out: &mut Vec<u8>, part: &Part) {
    match part {
        Part::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            string(out, text);
            out.push(b'}');
        }
        Part::Image(image) => {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":\"");
            // A data URL is base64 behind a MIME type: no character of it needs an escape.
            out.extend_from_slice(image.data_url().as_bytes());
            out.extend_from_slice(b"\"}}");
        }
        Part::Frames(frames) => {
            out.extend_from_slice(
                b"{\"type\":\"video_url\",\"video_url\":{\"url\":\"data:video/jpeg;base64,",
            );
            for (index, image) in frames.images.iter().enumerate() {
                comma(out, index);
                let url = image.data_url();
                raw(out, url.split_once(',').map_or(url, |(_, base64)| base64));
            }
            out.extend_from_slice(b"\"}}");
        }
        Part::Video(video) => {
            out.extend_from_slice(b"{\"type\":\"video_url\",\"video_url\":{\"url\":");
            string(out, &file_url(&video.path));
            out.extend_from_slice(b"}}");
        }
    }
}

/// A file's URL as the reference writes it, `file://` and the path; of its characters only those are
/// escaped that would end the path or stand for others in any reader of URLs.
fn file_url(path: &Path) -> String {
    let mut url = String::from("file://");
    for character in path.to_string_lossy().chars() {
        match character {
            '%' | '#' | '?' | '\\' => url.push_str(&format!("%{:02X}", character as u32)),
            character if character.is_ascii_control() => url.push_str(&format!("%{:02X}", character as u32)),
            character => url.push(character),
        }
    }
    url
}

/// `,"name":value`
fn field(out: &mut Vec<u8>, name: &str, value: &impl serde::Serialize) {
    out.push(b',');
    string(out, name);
    out.push(b':');
    // Plain values into memory: writing them cannot fail.
    let _ = serde_json::to_writer(out, value);
}

fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn comma(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::backend::{CallId, Generation};
    use paravt_suite::message::{FrameOrigin, Image, Spread, VideoPart};
    use paravt_suite::settings::SamplingParams;
    use std::sync::Arc;

    #[test]
    fn bodies_are_what_the_interface_asks_for() {
        let image = Arc::new(Image::new("image/jpeg", vec![1, 2, 3], 1, 1, None));
        let video =
            VideoPart { path: "/data/a \"b\".mp4".into(), nframes: Some(32), spread: Spread::default() };
        let request = Request {
            id: CallId::new("s", "turn0"),
            messages: vec![
                Message::text(Role::System, "quotes \" and\nlines"),
                Message::parts(
                    Role::User,
                    vec![Part::Image(image), Part::Video(video), Part::Text("é?".into())],
                ),
            ],
            generation: Generation {
                seed: Some(1),
                sampling: SamplingParams {
                    top_p: Some(0.5),
                    top_k: Some(20),
                    repetition_penalty: Some(1.05),
                    presence_penalty: Some(1.5),
                    stop: vec!["</answer>".into(), "\"".into()],
                },
                ..Generation::greedy(8)
            },
            tools: None,
            chat_template: None,
        };
        let fixed = Fixed { send_video_frames: true, ..Fixed::default() };
        let body: Value = serde_json::from_slice(&build("m", &request, &fixed, false)).unwrap();
        assert_eq!(
            body,
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "quotes \" and\nlines"},
                    {"role": "user", "content": [
                        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AQID"}},
                        {"type": "video_url", "video_url": {"url": "file:///data/a \"b\".mp4"}},
                        {"type": "text", "text": "é?"},
                    ]},
                ],
                "max_tokens": 8, "temperature": 0, "seed": 1,
                "top_p": 0.5, "top_k": 20, "repetition_penalty": 1.05, "presence_penalty": 1.5, "stop": ["</answer>", "\""],
                "media_io_kwargs": {"video": {"num_frames": 32}},
            })
        );
    }

    #[test]
    fn frames_go_out_as_one_video_with_their_positions() {
        let image = |index, byte| {
            let origin = Some(FrameOrigin { index, time: index as f64 / 25.0 });
            Arc::new(Image::new("image/jpeg", vec![byte; 3], 64, 32, origin))
        };
        let frames = Part::Frames(Frames::placed(vec![image(0, 1), image(50, 2), image(99, 3)]));
        let messages = vec![Message::parts(Role::User, vec![frames, Part::Text("q".into())])];
        let id = CallId::new("s", "turn0");
        let request = Request::new(id, messages, Generation::greedy(8));
        let body: Value = serde_json::from_slice(&build("m", &request, &Fixed::default(), false)).unwrap();
        assert_eq!(
            body,
            json!({
                "model": "m",
                "messages": [{"role": "user", "content": [
                    {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,AQEB,AgIC,AwMD"}},
                    {"type": "text", "text": "q"},
                ]}],
                "max_tokens": 8, "temperature": 0,
                "media_io_kwargs": {"video": {
                    "num_frames": 3, "fps": 25.0, "frames_indices": [0, 50, 99], "total_num_frames": 100,
                    "duration": 4.0, "do_sample_frames": false,
                }},
            })
        );
    }

    #[test]
    fn several_videos_without_positions_share_the_settings_of_a_request() {
        let image = |byte| Arc::new(Image::new("image/png", vec![byte; 3], 64, 32, None));
        let video = |bytes: &[u8]| {
            let images = bytes.iter().map(|&byte| image(byte)).collect();
            Part::Frames(Frames { images, even: Some(2.0), keep_size: false })
        };
        let messages = vec![
            Message::parts(Role::User, vec![video(&[1, 2, 3, 3])]),
            Message::parts(Role::User, vec![video(&[4, 5])]),
        ];
        let mut request = Request::new(CallId::new("s", "turn1"), messages, Generation::greedy(8));
        request.chat_template = Some("{{ messages }}".into());
        let body: Value = serde_json::from_slice(&build("m", &request, &Fixed::default(), false)).unwrap();
        let settings = json!({"video": {"num_frames": -1, "fps": 2.0, "do_sample_frames": false}});
        assert_eq!((&body["media_io_kwargs"], &body["chat_template"]), (&settings, &json!("{{ messages }}")));
        assert_eq!(body["messages"][1]["content"][0]["video_url"]["url"], "data:video/jpeg;base64,BAQE,BQUF");
    }

    #[test]
    fn videos_with_positions_of_their_own_have_a_list_of_settings() {
        let image = |index: usize| {
            let origin = Some(FrameOrigin { index, time: index as f64 / 25.0 });
            Arc::new(Image::new("image/png", vec![1; 3], 64, 32, origin))
        };
        let video = |indices: [usize; 2], even| {
            let images = indices.map(image).to_vec();
            Message::parts(Role::User, vec![Part::Frames(Frames { images, even, keep_size: true })])
        };
        let messages = vec![video([0, 50], Some(2.0)), video([50, 75], None), video([50, 75], None)];
        let request = Request::new(CallId::new("s", "turn2"), messages, Generation::greedy(8));
        let extra = json!({"mm_processor_kwargs": {"size": {}}, "min_p": 0.1}).as_object().cloned().unwrap();
        let fixed = Fixed { extra, ..Fixed::default() };
        let body: Value = serde_json::from_slice(&build("m", &request, &fixed, false)).unwrap();
        let placed = json!({
            "num_frames": 2, "fps": 25.0, "frames_indices": [50, 75], "total_num_frames": 76, "duration": 3.04,
            "do_sample_frames": false,
        });
        let even = json!({"num_frames": -1, "fps": 2.0, "do_sample_frames": false});
        assert_eq!(body["media_io_kwargs"], json!({"video": [even, placed, placed]}));
        assert_eq!(body["mm_processor_kwargs"], json!({"size": {}, "do_resize": false}));
        assert_eq!(body["min_p"], json!(0.1));
    }

    #[test]
    fn a_reply_that_ends_the_conversation_is_continued() {
        let messages = vec![Message::text(Role::User, "q"), Message::text(Role::Assistant, "Best (")];
        let request = Request::new(CallId::new("s", "answer"), messages, Generation::greedy(8));
        let body: Value = serde_json::from_slice(&build("m", &request, &Fixed::default(), false)).unwrap();
        assert_eq!(
            (&body["continue_final_message"], &body["add_generation_prompt"]),
            (&json!(true), &json!(false))
        );
    }

    #[test]
    fn tools_calls_results_and_settings_stand_where_the_interface_has_them() {
        let called = StructuredCall {
            id: "turn0c000".into(),
            name: "crop_video".into(),
            arguments: r#"{"start_time": 1}"#.into(),
        };
        let mut request = Request::new(
            CallId::new("s", "turn1"),
            vec![Message::calls("", vec![called]), Message::tool_result("turn0c000", "2 frames")],
            Generation::greedy(8),
        );
        request.tools = Some(Arc::new(vec![json!({"type": "function"})]));
        let fields = |value: Value| value.as_object().cloned().unwrap();
        let fixed = Fixed {
            chat_template_kwargs: fields(json!({"enable_thinking": false})),
            extra: fields(json!({"min_p": 0.1})),
            ..Fixed::default()
        };
        let body: Value = serde_json::from_slice(&build("m", &request, &fixed, false)).unwrap();
        assert_eq!(
            body,
            json!({
                "model": "m",
                "messages": [
                    {"role": "assistant", "content": "", "tool_calls": [{
                        "id": "turn0c000", "type": "function",
                        "function": {"name": "crop_video", "arguments": "{\"start_time\": 1}"},
                    }]},
                    {"role": "tool", "content": "2 frames", "tool_call_id": "turn0c000"},
                ],
                "max_tokens": 8, "temperature": 0, "tools": [{"type": "function"}],
                "chat_template_kwargs": {"enable_thinking": false}, "min_p": 0.1,
            })
        );
    }

    #[test]
    fn fields_have_the_names_of_the_server_or_are_left_out() {
        let messages = vec![Message::text(Role::User, "q")];
        let request = Request::new(CallId::new("s", "turn0"), messages, Generation::greedy(8));
        let names = [("max_tokens", "max_completion_tokens"), ("temperature", "")];
        let names = names.map(|(field, name)| (field.to_owned(), name.to_owned())).into();
        let fixed = Fixed { names, ..Fixed::default() };
        let body: Value = serde_json::from_slice(&build("m", &request, &fixed, false)).unwrap();
        let messages = json!([{"role": "user", "content": "q"}]);
        assert_eq!(body, json!({"model": "m", "messages": messages, "max_completion_tokens": 8}));
    }

    #[test]
    fn any_path_comes_back_out_of_its_url() {
        assert_eq!(file_url(Path::new("/data/a \"b\" é.mp4")), "file:///data/a \"b\" é.mp4");
        for path in
            ["/a#b.mp4", "/50% off?.mp4", "/a%20b.mp4", "/line\nbreak\t.mp4", "/é ü[1].mp4", "/a\\b.mp4"]
        {
            let url = reqwest::Url::parse(&file_url(Path::new(path))).unwrap();
            assert_eq!(url.to_file_path().unwrap(), Path::new(path));
        }
    }
}
