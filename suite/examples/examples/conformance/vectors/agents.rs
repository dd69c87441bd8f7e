//! Replies of agents: calls, answers, scores.

use paravt_agents::{
    conan, eva, framethinker, longvt, time_r1, video_o3, video_r1, videochat_r1, videozoomer,
};
use serde_json::{Value, json};

use super::super::extraction::number;
use super::{Function, index, real, reals, text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "conan_replies", outputs: &["replay", "clips", "letter"], run: conan_reply },
    Function { name: "videozoomer_calls", outputs: &["call", "error"], run: videozoomer_call },
    Function { name: "videozoomer_scores", outputs: &["score"], run: videozoomer_score },
    Function { name: "eva_answers", outputs: &["answer"], run: eva_answer },
    Function { name: "eva_calls", outputs: &["arguments"], run: eva_calls },
    Function { name: "video_r1_mra", outputs: &["mra"], run: video_r1_mra },
    Function { name: "video_r1_scores", outputs: &["score"], run: video_r1_score },
    Function { name: "time_r1_intervals", outputs: &["interval"], run: time_r1_interval },
    Function { name: "time_r1_letters", outputs: &["correct"], run: time_r1_letter },
    Function { name: "videochat_r1_intervals", outputs: &["interval"], run: videochat_r1_interval },
    Function { name: "videochat_r1_letters", outputs: &["letter"], run: videochat_r1_letter },
    Function { name: "framethinker_replies", outputs: &["parsed"], run: framethinker_reply },
    Function { name: "framethinker_time", outputs: &["reply"], run: framethinker_time },
    Function { name: "framethinker_valid", outputs: &["valid"], run: framethinker_valid },
    Function { name: "longvt_answers", outputs: &["answer"], run: longvt_answer },
    Function { name: "longvt_letters", outputs: &["letter"], run: longvt_letter },
    Function { name: "longvt_scores", outputs: &["score"], run: longvt_score },
    Function { name: "video_o3_calls", outputs: &["call"], run: video_o3_call },
];

fn conan_reply(case: &Value) -> Option<Value> {
    let reply = text(case, "text")?;
    let clips: Vec<Value> = conan::clips(reply).iter().map(|(start, end)| json!([start, end])).collect();
    Some(json!({ "replay": !clips.is_empty(), "clips": clips, "letter": conan::letter(reply) }))
}

fn videozoomer_call(case: &Value) -> Option<Value> {
    Some(match videozoomer::call(text(case, "text")?) {
        None => json!({ "call": null }),
        Some(Ok(zoom)) => json!({ "call": reals([zoom.start, zoom.end, zoom.fps]) }),
        Some(Err(error)) => json!({ "error": error }),
    })
}

fn videozoomer_score(case: &Value) -> Option<Value> {
    let turns: Vec<&str> = case["turns"].as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let right = videozoomer::is_right(&videozoomer::answer(&turns), text(case, "gold")?);
    Some(json!({ "score": f64::from(u8::from(right)) }))
}

fn eva_answer(case: &Value) -> Option<Value> {
    Some(json!({ "answer": eva::answer(text(case, "text")?) }))
}

fn eva_calls(case: &Value) -> Option<Value> {
    Some(json!({ "arguments": eva::selection::arguments(text(case, "text")?) }))
}

fn video_r1_mra(case: &Value) -> Option<Value> {
    let accuracy = video_r1::mean_relative_accuracy(real(&case["pred"])?, real(&case["target"])?);
    Some(json!({ "mra": number(accuracy) }))
}

fn video_r1_score(case: &Value) -> Option<Value> {
    let kind = match text(case, "kind")? {
        "multiple choice" => video_r1::Kind::Choice,
        "numerical" => video_r1::Kind::Numerical,
        "regression" => video_r1::Kind::Regression,
        _ => return None,
    };
    Some(json!({ "score": video_r1::score(kind, text(case, "text")?, text(case, "solution")?) }))
}

fn interval(found: Option<(f64, f64)>) -> Value {
    json!({ "interval": found.map(|(start, end)| reals([start, end])) })
}

fn time_r1_interval(case: &Value) -> Option<Value> {
    Some(interval(time_r1::interval(text(case, "text")?)))
}

fn time_r1_letter(case: &Value) -> Option<Value> {
    let letter = time_r1::letter(text(case, "text")?).map(String::from);
    Some(json!({ "correct": u8::from(letter.as_deref() == Some(text(case, "gold")?)) }))
}

fn videochat_r1_interval(case: &Value) -> Option<Value> {
    Some(interval(videochat_r1::interval(text(case, "text")?)))
}

fn videochat_r1_letter(case: &Value) -> Option<Value> {
    Some(json!({ "letter": videochat_r1::letter(text(case, "text")?) }))
}

fn framethinker_reply(case: &Value) -> Option<Value> {
    let parts = framethinker::parts(text(case, "text")?);
    Some(json!({ "parsed": parts.map_or([None, None], |(think, action)| [Some(think), Some(action)]) }))
}

fn framethinker_time(case: &Value) -> Option<Value> {
    Some(json!({ "reply": framethinker::frame_number(text(case, "action")?, real(&case["fps"])?) }))
}

fn framethinker_valid(case: &Value) -> Option<Value> {
    let found = framethinker::validated(text(case, "text")?, index(&case["frames"])?);
    Some(json!({
        "valid": found.map_or(json!([false, 0, 0]), |calls| json!([true, calls.all, calls.of_frames]))
    }))
}

fn longvt_answer(case: &Value) -> Option<Value> {
    Some(json!({ "answer": longvt::answers::answer(text(case, "text")?) }))
}

fn longvt_letter(case: &Value) -> Option<Value> {
    let letter = longvt::answers::letter(text(case, "text")?);
    Some(json!({ "letter": letter.map(String::from).unwrap_or_default() }))
}

fn longvt_score(case: &Value) -> Option<Value> {
    let right = longvt::answers::is_right(text(case, "text")?, text(case, "gold")?);
    Some(json!({ "score": f64::from(u8::from(right)) }))
}

/// Start, end and strategy, or nothing where the call is refused.
fn video_o3_call(case: &Value) -> Option<Value> {
    let call = video_o3::clips::grounding(text(case, "text")?).ok();
    let call = call.map(|call| json!([number(call.start), number(call.end), call.strategy]));
    Some(json!({ "call": call }))
}
