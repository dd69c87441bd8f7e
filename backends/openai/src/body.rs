//! Request bodies. A prompt of 64 frames is megabytes of base64 that a conversation sends again
//! each turn: it is copied once, and never looked at for characters to escape.

use paravt_suite::backend::Request;
use paravt_suite::message::{Content, Message, Part};

/// The JSON of one chat completion request.
pub fn build(model: &str, request: &Request, send_video_frames: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 + request.messages.iter().map(size).sum::<usize>());
    out.extend_from_slice(b"{\"model\":");
    string(&mut out, model);
    out.extend_from_slice(b",\"messages\":[");
    for (index, message) in request.messages.iter().enumerate() {
        comma(&mut out, index);
        write_message(&mut out, message);
    }
    let generation = &request.generation;
    raw(&mut out, &format!("],\"max_tokens\":{},\"temperature\":", generation.max_tokens));
    number(&mut out, generation.temperature);
    if let Some(top_p) = generation.top_p {
        out.extend_from_slice(b",\"top_p\":");
        number(&mut out, top_p);
    }
    if let Some(top_k) = generation.top_k {
        raw(&mut out, &format!(",\"top_k\":{top_k}"));
    }
    if let Some(penalty) = generation.repetition_penalty {
        out.extend_from_slice(b",\"repetition_penalty\":");
        number(&mut out, penalty);
    }
    if !generation.stop.is_empty() {
        out.extend_from_slice(b",\"stop\":");
        // Strings into memory: writing them cannot fail.
        let _ = serde_json::to_writer(&mut out, &generation.stop);
    }
    if let Some(seed) = generation.seed {
        raw(&mut out, &format!(",\"seed\":{seed}"));
    }
    if generation.logprobs {
        out.extend_from_slice(b",\"logprobs\":true,\"return_token_ids\":true");
    }
    if let (true, Some(frames)) = (send_video_frames, video_frames(request)) {
        raw(&mut out, &format!(",\"media_io_kwargs\":{{\"video\":{{\"num_frames\":{frames}}}}}"));
    }
    out.push(b'}');
    out
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
        Part::Video(video) => video.path.as_os_str().len(),
    }
}

fn video_frames(request: &Request) -> Option<usize> {
    request.messages.iter().find_map(|message| match &message.content {
        Content::Parts(parts) => parts.iter().find_map(|part| match part {
            Part::Video(video) => video.nframes,
            _ => None,
        }),
        Content::Text(_) => None,
    })
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
    out.push(b'}');
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
        Part::Video(video) => {
            out.extend_from_slice(b"{\"type\":\"video_url\",\"video_url\":{\"url\":");
            string(out, &format!("file://{}", video.path.display()));
            out.extend_from_slice(b"}}");
        }
    }
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

fn number(out: &mut Vec<u8>, value: f64) {
    // The reference sends `0`, not `0.0`; servers take both.
    if value == 0.0 {
        out.push(b'0');
    } else {
        let _ = serde_json::to_writer(out, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::backend::{CallId, Generation};
    use paravt_suite::message::{Image, Role, VideoPart};
    use serde_json::{Value, json};
    use std::sync::Arc;

    #[test]
    fn bodies_are_what_the_interface_asks_for() {
        let image = Arc::new(Image::new("image/jpeg", vec![1, 2, 3], 1, 1, None));
        let video = VideoPart { path: "/data/a \"b\".mp4".into(), nframes: Some(32) };
        let request = Request {
            id: CallId { sample: "s".into(), step: "turn0".into() },
            messages: vec![
                Message::text(Role::System, "quotes \" and\nlines"),
                Message::parts(
                    Role::User,
                    vec![Part::Image(image), Part::Video(video), Part::Text("é?".into())],
                ),
            ],
            generation: Generation {
                seed: Some(1),
                top_p: Some(0.5),
                top_k: Some(20),
                repetition_penalty: Some(1.05),
                stop: vec!["</answer>".into(), "\"".into()],
                ..Generation::greedy(8)
            },
        };
        let body: Value = serde_json::from_slice(&build("m", &request, true)).unwrap();
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
                "top_p": 0.5, "top_k": 20, "repetition_penalty": 1.05, "stop": ["</answer>", "\""],
                "media_io_kwargs": {"video": {"num_frames": 32}},
            })
        );
    }
}
