//! Frames of agents: indices, times, sizes.

use paravt_agents::eva::selection;
use paravt_agents::{conan, framethinker, longvt, videozoomer};
use paravt_suite::protocol::SizeRule;
use serde_json::{Value, json};

use super::super::extraction::number;
use super::{Function, index, real, reals, size, text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "conan_overview", outputs: &["indices"], run: conan_overview },
    Function { name: "conan_clips", outputs: &["indices"], run: conan_clips },
    Function { name: "conan_stamps", outputs: &["stamp"], run: conan_stamp },
    Function { name: "conan_sizes", outputs: &["size"], run: conan_size },
    Function { name: "videozoomer_overview", outputs: &["indices"], run: videozoomer_overview },
    Function { name: "videozoomer_sizes", outputs: &["size"], run: videozoomer_size },
    Function { name: "videozoomer_zoom", outputs: &["indices", "labels", "error"], run: videozoomer_zoom },
    Function { name: "eva_budget", outputs: &["nframes", "resize", "estimate"], run: eva_budget },
    Function { name: "eva_selects", outputs: &["nframes", "resize", "error"], run: eva_select },
    Function { name: "eva_times", outputs: &["times"], run: eva_times },
    Function { name: "eva_bounds", outputs: &["bounds"], run: eva_bounds },
    Function { name: "eva_frames", outputs: &["indices"], run: eva_frames },
    Function { name: "eva_stamps", outputs: &["stamps"], run: eva_stamps },
    Function { name: "eva_sizes", outputs: &["size"], run: eva_size },
    Function { name: "framethinker_frames", outputs: &["indices"], run: framethinker_frames },
    Function { name: "framethinker_sizes", outputs: &["size"], run: framethinker_size },
    Function { name: "longvt_crops", outputs: &["allowed"], run: longvt_crop },
];

/// What EVA is run with: visual tokens of a call, pixels of the shorter side.
const EVA_LIMITS: (u32, u32) = (12_000, 720);
/// Frames of one call of VideoZoomer.
const ZOOM_FRAMES: usize = 16;

/// The size of a frame; none where a side comes to nothing.
fn sized(rule: SizeRule, size: (u32, u32), scale: f64) -> Value {
    json!({ "size": rule.apply(size, scale, 1).ok() })
}

fn conan_overview(case: &Value) -> Option<Value> {
    Some(json!({ "indices": conan::overview(index(&case["total"])?, index(&case["max"])?) }))
}

fn conan_clips(case: &Value) -> Option<Value> {
    let clips = case["clips"].as_array()?.iter();
    let clips: Option<Vec<(f64, f64)>> = clips
        .map(|clip| Some((conan::seconds(clip[0].as_str()?)?, conan::seconds(clip[1].as_str()?)?)))
        .collect();
    let history = case["history"].as_array()?.iter();
    let history: Option<Vec<f64>> = history.map(|stamp| conan::seconds(stamp.as_str()?)).collect();
    let (total, count) = (index(&case["total"])?, index(&case["max_frames"])?);
    Some(json!({ "indices": conan::clip_frames(total, real(&case["fps"])?, &clips?, &history?, count) }))
}

fn conan_stamp(case: &Value) -> Option<Value> {
    Some(json!({ "stamp": conan::stamp(index(&case["index"])?, real(&case["fps"])?) }))
}

fn conan_size(case: &Value) -> Option<Value> {
    Some(sized(SizeRule::LongSide(448), size(case)?, 1.0))
}

fn videozoomer_overview(case: &Value) -> Option<Value> {
    let (total, limit) = (index(&case["total"])?, index(&case["max"])?);
    Some(json!({ "indices": videozoomer::overview(total, real(&case["fps"])?, real(&case["rate"])?, limit) }))
}

fn videozoomer_size(case: &Value) -> Option<Value> {
    Some(sized(SizeRule::Pixels { min: 25_088, max: 100_352 }, size(case)?, 1.0))
}

fn videozoomer_zoom(case: &Value) -> Option<Value> {
    let (start, end) = (real(&case["segment"][0])?, real(&case["segment"][1])?);
    let zoom = videozoomer::Zoom { start, end, fps: real(&case["fps"])? };
    let (fps, total) = (real(&case["video_fps"])?, index(&case["total"])?);
    Some(match videozoomer::frames(zoom, fps, total, ZOOM_FRAMES) {
        Ok(indices) => {
            let labels: Vec<String> = indices.iter().map(|index| videozoomer::label(*index, fps)).collect();
            json!({ "indices": indices, "labels": labels })
        }
        Err(error) => json!({ "error": error }),
    })
}

fn eva_budget(case: &Value) -> Option<Value> {
    let resize = if case["resize_in"].is_null() { 1.0 } else { real(&case["resize_in"])? };
    let found =
        selection::budget(real(&case["nframes_in"])?, resize, size(case)?, EVA_LIMITS.0, EVA_LIMITS.1);
    let selection::Budget { nframes, resize, estimate } = found;
    Some(json!({ "nframes": number(nframes), "resize": number(resize), "estimate": number(estimate) }))
}

fn eva_select(case: &Value) -> Option<Value> {
    let size = size(case)?;
    let found = selection::select(text(case, "arguments")?)
        .and_then(|select| selection::within(select, size, EVA_LIMITS.0, EVA_LIMITS.1));
    Some(match found {
        Ok(found) => json!({ "nframes": number(found.nframes), "resize": number(found.resize) }),
        Err(error) => json!({ "error": error.to_string() }),
    })
}

fn eva_times(case: &Value) -> Option<Value> {
    Some(
        json!({ "times": reals(selection::times(real(&case["start"])?, real(&case["end"])?, index(&case["n"])?)) }),
    )
}

fn eva_bounds(case: &Value) -> Option<Value> {
    let end = if case["end"].is_null() { None } else { Some(real(&case["end"])?) };
    let stream = (real(&case["stream"][0])?, real(&case["stream"][1])?);
    let (start, end) = selection::bounds(real(&case["start"])?, end, stream);
    Some(json!({ "bounds": reals([start, end]) }))
}

fn eva_frames(case: &Value) -> Option<Value> {
    let (first, fps, total) = (real(&case["first"])?, real(&case["fps"])?, index(&case["total"])?);
    let times = case["times"].as_array()?.iter().map(real);
    let indices: Option<Vec<usize>> =
        times.map(|time| Some(selection::frame(time?, first, fps, total))).collect();
    Some(json!({ "indices": indices? }))
}

fn eva_stamps(case: &Value) -> Option<Value> {
    let times = selection::shown_times(real(&case["start"])?, real(&case["end"])?, index(&case["n"])?);
    Some(json!({ "stamps": times.into_iter().map(selection::stamp).collect::<Vec<_>>() }))
}

fn eva_size(case: &Value) -> Option<Value> {
    Some(sized(SizeRule::Multiple(28), size(case)?, real(&case["resize"])?))
}

fn framethinker_frames(case: &Value) -> Option<Value> {
    let (total, count) = (index(&case["total"])?, index(&case["frames"])?);
    Some(json!({ "indices": framethinker::chosen_frames(text(case, "action")?, total, count) }))
}

fn framethinker_size(case: &Value) -> Option<Value> {
    let limit =
        (u32::try_from(case["limit"][0].as_u64()?).ok()?, u32::try_from(case["limit"][1].as_u64()?).ok()?);
    Some(sized(SizeRule::Within(limit.0, limit.1), size(case)?, 1.0))
}

fn longvt_crop(case: &Value) -> Option<Value> {
    let (start, end) = (real(&case["start"])?, real(&case["end"])?);
    Some(json!({ "allowed": longvt::check_crop(start, end, real(&case["duration"])?).is_ok() }))
}
