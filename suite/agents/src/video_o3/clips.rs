//! The call of a reply of Video-o3, and the frames of the first message and of a call.
//!
//! Sources below `Eval/vlmeval`: `vlm/video_o3/model.py` (call), `vlm/video_o3/vision_process.py` (frames of a call),
//! `dataset/videomme.py` and its like (frames of the first message).

use paravt_python::{PyValue, loads, repr, repr_float, strip};
use paravt_suite::media::{VideoRequest, frame_indices};
use paravt_suite::text::between;

/// A window in seconds, and how finely it is sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Grounding {
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
    /// `coarse`, `medium`, `fine`, or whatever else the model wrote.
    pub strategy: String,
}

/// The last `<grounding>` of a reply (`extract_grounding_info`).
pub fn grounding(reply: &str) -> Result<Grounding, String> {
    let absent = || format!("No grounding content found in response: {reply}");
    let body = strip(between(reply, "<grounding>", "</grounding>").last().ok_or_else(absent)?);
    let braces = body.find('{').zip(body.rfind('}')).filter(|(start, end)| start < end);
    let (start, end) = braces.ok_or_else(|| format!("Invalid grounding content: {body}"))?;
    let object = &body[start..=end];
    let value = loads(object)
        .or_else(|_| loads(&object.replace('\'', "\"")))
        .map_err(|error| format!("Failed to parse grounding JSON: {object}. Error: {error}"))?;
    let (Some(segment), Some(strategy)) = (value.get("temporal_segment"), value.get("sampling_strategy"))
    else {
        return Err(format!("Missing required fields in grounding JSON: {}", repr(&value)));
    };
    let shape = || format!("Invalid temporal_segment format: {}", printed(segment));
    let PyValue::List(bounds) = segment else { return Err(shape()) };
    let [start, end] = &bounds[..] else { return Err(shape()) };
    let bound = |value: &PyValue| {
        value.to_float().map_err(|error| match value {
            // Not among the exceptions that are given other words.
            PyValue::Int(_) => error,
            _ => format!("Failed to convert temporal_segment to float: {}. Error: {error}", repr(segment)),
        })
    };
    Ok(Grounding { start: bound(start)?, end: bound(end)?, strategy: printed(strategy) })
}

/// Python's `str`.
fn printed(value: &PyValue) -> String {
    match value {
        PyValue::Str(text) => text.clone(),
        other => repr(other),
    }
}

/// Frames of one video, and how many of them are in a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    pub indices: Vec<usize>,
    /// Frames per second, as the model is shown it.
    pub fps: f64,
}

/// Frames of the first message: `rate` a second, or `limit` evenly where those are more (`save_video_frames`).
pub fn overview(total: usize, fps: f64, rate: f64, limit: usize) -> Sampled {
    let seconds = total as f64 / fps;
    let wanted = (seconds * rate) as usize;
    if wanted > limit {
        let step = total as f64 / (limit + 1) as f64;
        let indices = (1..=limit).map(|frame| (frame as f64 * step) as usize).collect();
        return Sampled { indices, fps: limit as f64 / seconds };
    }
    let step = fps / rate;
    Sampled { indices: (0..wanted).map(|frame| (frame as f64 * step) as usize).collect(), fps: rate }
}

/// Frames of a call: two a second, from 4 to 768 (`calculate_video_frame_range`, `smart_nframes`).
pub fn clip(start: f64, end: f64, total: usize, fps: f64) -> Result<Sampled, String> {
    let duration = total as f64 / fps;
    if start >= duration {
        let start = repr_float(start);
        return Err(format!("Requested video_start ({start}s) exceeds video duration ({duration:.2}s)."));
    }
    if end <= start {
        let (start, end) = (repr_float(start), repr_float(end));
        return Err(format!("Invalid time range: video_end ({end}s) <= video_start ({start}s)."));
    }
    // As Python's max(0.0, min(time, duration)), where NaN comes out as 0.
    let clamped = |time: f64| {
        let below = if duration < time { duration } else { time };
        if below > 0.0 { below } else { 0.0 }
    };
    let (start, end) = (clamped(start), clamped(end));
    let first = (start * fps).ceil();
    let last = (end * fps).floor().min(total as f64 - 1.0);
    if first >= last {
        return Err(format!(
            "Invalid time range: Start frame {first:.0} (at {}s) exceeds end frame {last:.0} (at {}s). Video duration: \
             {duration:.2}s ({total} frames @ {}fps)",
            repr_float(start),
            repr_float(end),
            repr_float(fps),
        ));
    }
    let request = VideoRequest { start: Some(start), end: Some(end), ..VideoRequest::at_default_rate() };
    let indices = frame_indices(&request, total, fps)?;
    let fps = indices.len() as f64 / (last - first + 1.0) * fps;
    Ok(Sampled { indices, fps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls() {
        let read = |body: &str| grounding(&format!("x<grounding>{body}</grounding>"));
        let fine = Grounding { start: 1.0, end: 2.5, strategy: "fine".to_owned() };
        let text = r#"{"temporal_segment": [1, "2.5"], "sampling_strategy": "fine"}"#;
        assert_eq!(read(&format!("json {text}.")), Ok(fine.clone()));
        assert_eq!(read(&text.replace('"', "'")), Ok(fine));
    }

    /// Errors and frames of the authors' functions, run on these arguments.
    #[test]
    fn refused_calls_are_in_the_words_of_the_release() {
        let read = |body: &str| grounding(&format!("x<grounding>{body}</grounding>")).unwrap_err();
        let long = "1".repeat(400);
        let huge = format!(r#"{{"temporal_segment": [{long}, 2], "sampling_strategy": "fine"}}"#);
        for (body, error) in [
            (" } { ", "Invalid grounding content: } {"),
            ("{}", "Missing required fields in grounding JSON: {}"),
            (r#"{"temporal_segment": 1, "sampling_strategy": 2}"#, "Invalid temporal_segment format: 1"),
            (
                r#"{"temporal_segment": "1-2", "sampling_strategy": 2}"#,
                "Invalid temporal_segment format: 1-2",
            ),
            (
                r#"{"temporal_segment": [1, null], "sampling_strategy": 2}"#,
                "Failed to convert temporal_segment to float: [1, None]. Error: float() argument must be a string or a \
                 real number, not 'NoneType'",
            ),
            (&huge, "int too large to convert to float"),
            (
                "{x}",
                "Failed to parse grounding JSON: {x}. Error: Expecting property name enclosed in double quotes: line 1 \
                 column 2 (char 1)",
            ),
        ] {
            assert_eq!(read(body), error);
        }
        let absent = "No grounding content found in response: </grounding><grounding>";
        assert_eq!(grounding("</grounding><grounding>"), Err(absent.to_owned()));
        for (start, end, error) in [
            (100.0, 120.0, "Requested video_start (100.0s) exceeds video duration (33.37s)."),
            (5.0, 2.5, "Invalid time range: video_end (2.5s) <= video_start (5.0s)."),
            (
                33.36,
                f64::INFINITY,
                "Invalid time range: Start frame 1000 (at 33.36s) exceeds end frame 999 (at 33.36666666666667s). Video \
                 duration: 33.37s (1000 frames @ 29.97002997002997fps)",
            ),
        ] {
            assert_eq!(clip(start, end, 1000, 30_000.0 / 1001.0), Err(error.to_owned()));
        }
    }

    #[test]
    fn frames() {
        let short = overview(1000, 30_000.0 / 1001.0, 2.0, 768);
        assert_eq!((short.indices.len(), &short.indices[..4], short.fps), (66, &[0, 14, 29, 44][..], 2.0));
        let long = overview(30_000, 25.0, 2.0, 768);
        assert_eq!(
            (long.indices.len(), long.indices[0], long.indices[767], long.fps),
            (768, 39, 29_960, 0.64)
        );
        let clip = clip(f64::NAN, 3.0, 1000, 25.0).unwrap();
        assert_eq!((clip.indices, clip.fps), (vec![0, 15, 30, 45, 60, 75], 6.0 / 76.0 * 25.0));
    }
}
