//! EVA's calls: their arguments, their budget of tokens, times and sizes of their frames (`eval-eva.py` and
//! `select_frame_fallback.py`).

use paravt_python::{PyValue, float, linspace, loads, pattern, strip};
use paravt_suite::text::between;

/// Pixels of a visual token's side.
const PATCH: f64 = 28.0;

/// The body of a reply's first `<tool_call>`.
pub fn tool_call(reply: &str) -> Option<&str> {
    between(reply, "<tool_call>", "</tool_call>").next().map(strip)
}

/// Arguments of all calls in the body of a `<tool_call>`, as written. A call is an object whose first key is `tool`.
pub fn arguments(body: &str) -> Vec<&str> {
    pattern! { CALL = r#"(?s)\{\s*"tool":\s*"frame_select",\s*"(?:arguments|parameters)":\s*(\{.*?\})\s*\}"# }
    CALL.captures_iter(body).map(|found| found.extract::<1>().1[0]).collect()
}

/// Frames of a window, as asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Select {
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
    /// Number of frames; the release takes whole ones alone.
    pub nframes: f64,
    /// Whether the number was written without a fraction.
    pub is_whole: bool,
    /// Scale of the sides.
    pub resize: f64,
    /// Whether the scale was written as `true` or `false`, which the tool does not read.
    pub is_flag: bool,
}

/// Why a call gives no frames. Where all calls of a turn fail, the conversation ends with these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("arguments_not_json")]
    NotJson,
    /// Start or end is absent.
    #[error("no_start_or_end_time")]
    NoTime,
    /// The number of frames is absent.
    #[error("no_nframes")]
    NoCount,
    #[error("call_frame_select_failed")]
    Failed,
    /// A value at which the release's own code raises: the sample is an error. So is here a number of frames in quotes,
    /// with which the release goes on as long as it is within the budget, and a time in quotes where the tool fails
    /// for another reason.
    #[error("raises")]
    Raises,
}

/// Reads the arguments of one call.
pub fn select(arguments: &str) -> Result<Select, SelectError> {
    let values = loads(arguments).map_err(|_| SelectError::NotJson)?;
    let (Some(start), Some(end)) = (values.get("start_time"), values.get("end_time")) else {
        return Err(SelectError::NoTime);
    };
    let count = values.get("nframes").ok_or(SelectError::NoCount)?;
    // Tokens are counted before the tool is run: what Python cannot count with raises first.
    let nframes = countable(count)?;
    let resize = values.get("resize").filter(|value| **value != PyValue::None).map_or(Ok(1.0), countable)?;
    let (start, end) = (time(start, SelectError::Failed)?, time(end, SelectError::Raises)?);
    let (Some(start), Some(end)) = (start, end) else { return Err(SelectError::Raises) };
    let is_flag = matches!(values.get("resize"), Some(PyValue::Bool(_)));
    Ok(Select { start, end, nframes, is_whole: matches!(count, PyValue::Int(_)), resize, is_flag })
}

/// A number that tokens can be counted with.
fn countable(value: &PyValue) -> Result<f64, SelectError> {
    let found = Some(value).filter(|value| !matches!(value, PyValue::Str(_)));
    found.and_then(|value| value.to_float().ok()).filter(|value| value.is_finite()).ok_or(SelectError::Raises)
}

/// A time in seconds; `None` for one that the tool reads and the times of its frames cannot be computed from. The
/// command line of the tool takes a negative infinity for a flag; NaN ends in `nan`.
fn time(value: &PyValue, nan: SelectError) -> Result<Option<f64>, SelectError> {
    match value {
        PyValue::Int(_) => Ok(value.to_float().ok()),
        PyValue::Float(value) if value.is_nan() => Err(nan),
        PyValue::Float(f64::NEG_INFINITY) => Err(SelectError::Failed),
        PyValue::Float(value) => Ok(Some(*value).filter(|value| value.is_finite())),
        PyValue::Str(text) if text.split(':').all(|part| float(part).is_some()) => Ok(None),
        _ => Err(SelectError::Failed),
    }
}

/// A number of frames, their scale, and the visual tokens that they are taken to cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Frames.
    pub nframes: f64,
    /// Scale of the sides.
    pub resize: f64,
    /// Tokens.
    pub estimate: f64,
}

/// Frames and scale within `max_tokens` for one call on a video of `width` by `height` pixels: first the shorter
/// side is reduced to `max_side`, then frames and scale together by the cube root of the excess. The result may
/// still be too many.
pub fn budget(nframes: f64, resize: f64, size: (u32, u32), max_tokens: u32, max_side: u32) -> Budget {
    fitted(nframes, resize, size, (max_tokens, max_side)).0
}

/// The budget of a call, and whether its number of frames was reduced, which makes it a whole one.
fn fitted(nframes: f64, resize: f64, (width, height): (u32, u32), limits: (u32, u32)) -> (Budget, bool) {
    let side = |side: u32, resize: f64| (f64::from(side) * resize / PATCH).round_ties_even().max(1.0);
    let cost = |nframes: f64, resize: f64| nframes.trunc() * side(height, resize) * side(width, resize);
    let mut found = Budget { nframes, resize, estimate: cost(nframes, resize) };
    let limit = f64::from(limits.0);
    if found.estimate > limit {
        let cap = (f64::from(limits.1) / f64::from(width.min(height))).min(1.0);
        found.resize = found.resize.min(cap);
        found.estimate = cost(found.nframes, found.resize);
        if found.estimate > limit {
            let factor = (limit / found.estimate).powf(1.0 / 3.0);
            found.nframes = (found.nframes * factor).trunc().max(1.0);
            found.resize *= factor;
            found.estimate = cost(found.nframes, found.resize);
            return (found, true);
        }
    }
    (found, false)
}

/// Frames and scale of a call on a video of `size`, as the tool is run with them.
///
/// # Errors
/// The tool takes whole numbers of frames from one on, and numbers above zero for the scale.
pub fn within(
    select: Select,
    size: (u32, u32),
    max_tokens: u32,
    max_side: u32,
) -> Result<Budget, SelectError> {
    let (found, is_reduced) = fitted(select.nframes, select.resize, size, (max_tokens, max_side));
    let is_whole = select.is_whole || is_reduced;
    let is_scale = found.resize > 0.0 && (!select.is_flag || found.resize < select.resize);
    Some(found).filter(|found| is_whole && found.nframes >= 1.0 && is_scale).ok_or(SelectError::Failed)
}

/// The window that is read of a stream from `stream.0` to `stream.1` seconds (`_apply_time_bounds` with clamping):
/// the whole stream where nothing is left.
pub fn bounds(start: f64, end: Option<f64>, stream: (f64, f64)) -> (f64, f64) {
    let start = start.max(stream.0);
    let end = end.map_or(stream.1, |end| end.min(stream.1));
    if end <= start { stream } else { (start, end) }
}

/// Times of the frames in seconds (`_build_timestamps`): the middle for one, else evenly up to just before the end.
pub fn times(start: f64, end: f64, count: usize) -> Vec<f64> {
    if count == 1 {
        return vec![(start + end) / 2.0];
    }
    let epsilon = ((end - start) / (count as f64 * 4.0)).min(1e-3);
    linspace(start, (end - epsilon).max(start), count)
}

/// Index of the frame at a time, `first` being the time of the first of `total`.
pub fn frame(time: f64, first: f64, fps: f64, total: usize) -> usize {
    ((time - first) * fps).round_ties_even().min(total as f64 - 1.0).max(0.0) as usize
}

/// Whole seconds of `count` frames as the model is shown them: spread over the window that it asked for, whatever
/// was read.
pub fn shown_times(start: f64, end: f64, count: usize) -> Vec<i64> {
    let step = (end - start) / count.saturating_sub(1).max(1) as f64;
    (0..count).map(|index| (start + index as f64 * step) as i64).collect()
}

/// `mm:ss` of whole seconds.
pub fn stamp(seconds: i64) -> String {
    format!("{:02}:{:02}", seconds.div_euclid(60), seconds.rem_euclid(60))
}

/// Length of the video that the first turn names, in whole seconds.
pub fn video_length(duration: f64) -> u64 {
    (duration - 0.5).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls() {
        let body = r#"{"tool": "frame_select", "arguments": {"start_time": 0, "end_time": 9.5, "nframes": 4}}
            {"tool":"frame_select","parameters":{"start_time": 1}}"#;
        let found = arguments(body);
        assert_eq!(found.len(), 2);
        let all = Select { start: 0.0, end: 9.5, nframes: 4.0, is_whole: true, resize: 1.0, is_flag: false };
        assert_eq!(select(found[0]), Ok(all));
        assert_eq!(select(found[1]), Err(SelectError::NoTime));
        assert!(arguments(r#"{ "tool" : "frame_select", "arguments": {}}"#).is_empty());
        for (text, error) in [
            ("{'a': 1}", SelectError::NotJson),
            (r#"{"start_time": 0, "end_time": 1}"#, SelectError::NoCount),
            (r#"{"start_time": "0:10", "end_time": 1, "nframes": 1}"#, SelectError::Raises),
            (r#"{"start_time": true, "end_time": 1, "nframes": 1}"#, SelectError::Failed),
            (r#"{"start_time": 0, "end_time": -Infinity, "nframes": 1}"#, SelectError::Failed),
            (r#"{"start_time": NaN, "end_time": 1, "nframes": 1}"#, SelectError::Failed),
            (r#"{"start_time": 0, "end_time": NaN, "nframes": 1}"#, SelectError::Raises),
        ] {
            assert_eq!(select(text), Err(error), "{text}");
        }
    }

    #[test]
    fn budgets() {
        let found = |nframes, resize, size| {
            let Budget { nframes, resize, estimate } = budget(nframes, resize, size, 12_000, 720);
            (nframes, resize, estimate)
        };
        assert_eq!(found(64.0, 1.0, (1280, 720)), (34.0, 0.5392084599439809, 11_900.0));
        assert_eq!(found(64.0, 1.0, (1920, 1080)), (34.0, 0.3594723066293206, 11_900.0));
        assert_eq!(found(8.0, 1.0, (1920, 1080)), (8.0, 2.0 / 3.0, 9_568.0));
        assert_eq!(found(256.0, 0.25, (640, 360)), (256.0, 0.25, 4_608.0));
    }

    #[test]
    fn calls_that_the_tool_refuses() {
        let run = |text: &str| within(select(text).unwrap(), (1280, 720), 12_000, 720);
        let call = |count: &str, scale: &str| {
            run(&format!(r#"{{"start_time": 0, "end_time": 9, "nframes": {count}, "resize": {scale}}}"#))
        };
        assert_eq!(call("4", "0.5").map(|budget| budget.nframes), Ok(4.0));
        for (count, scale) in [("4.0", "1"), ("0", "1"), ("4", "0"), ("4", "true"), ("true", "1")] {
            assert_eq!(call(count, scale), Err(SelectError::Failed), "{count} {scale}");
        }
        assert_eq!(call("64.0", "true").map(|budget| budget.nframes), Ok(34.0), "reduced to a number");
    }

    #[test]
    fn frames() {
        assert_eq!(times(0.0, 10.0, 4), [0.0, 3.333, 6.666, 9.999]);
        assert_eq!(times(2.0, 3.0, 1), [2.5]);
        assert_eq!(bounds(12.0, Some(20.0), (0.0, 10.0)), (0.0, 10.0));
        assert_eq!(bounds(-3.0, Some(4.0), (0.0, 10.0)), (0.0, 4.0));
        assert_eq!(shown_times(-3.0, 4.0, 3), [-3, 0, 4]);
        assert_eq!((stamp(65), stamp(-3)), ("01:05".to_owned(), "-1:57".to_owned()));
        assert_eq!(frame(9.999, 0.0, 25.0, 240), 239);
        assert_eq!(video_length(90.4), 89);
    }
}
