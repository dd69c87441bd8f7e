//! Video-o3, as its fork has it (ZZQ987/Video-o3-Qwen3VL a6e0973, `Eval/vlmeval/vlm/video_o3/model.py`): the answer and
//! the call of a reply.

use paravt_suite::text::between;

use crate::python::{PyValue, loads, repr, strip};

/// The answer of a reply: what stands between its first `<answer>` and its first `</answer>`. `Some(None)` where both
/// are there in the wrong order, for which the release asks the model again with nothing new.
pub fn answer(reply: &str) -> Option<Option<&str>> {
    let (start, end) = (reply.find("<answer>")? + "<answer>".len(), reply.find("</answer>")?);
    Some((start <= end).then(|| strip(&reply[start..end])))
}

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

/// Why a call is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroundingError {
    /// No closed `<grounding>`.
    #[error("no closed <grounding> block")]
    Absent,
    /// No braces within it.
    #[error("no object in the <grounding> block")]
    NoObject,
    /// Not JSON, not even with double quotes for single ones.
    #[error("the object in the <grounding> block is not JSON: {0}")]
    NotJson(String),
    /// `temporal_segment` or `sampling_strategy` is absent.
    #[error("the <grounding> object lacks temporal_segment or sampling_strategy")]
    Field,
    /// The segment is not a list of two.
    #[error("temporal_segment is not a list of two")]
    Segment,
    /// A bound is not a number.
    #[error("temporal_segment holds something else than numbers")]
    Bound,
}

/// The last `<grounding>` of a reply (`extract_grounding_info`).
///
/// # Errors
/// Where the release raises; the model is shown why and asked again.
pub fn grounding(reply: &str) -> Result<Grounding, GroundingError> {
    let body = between(reply, "<grounding>", "</grounding>").last().ok_or(GroundingError::Absent)?;
    let (start, end) = body.find('{').zip(body.rfind('}')).ok_or(GroundingError::NoObject)?;
    let object = body.get(start..=end).ok_or(GroundingError::NoObject)?;
    let value = loads(object)
        .or_else(|_| loads(&object.replace('\'', "\"")))
        .map_err(|error| GroundingError::NotJson(error.to_string()))?;
    let (Some(segment), Some(strategy)) = (value.get("temporal_segment"), value.get("sampling_strategy"))
    else {
        return Err(GroundingError::Field);
    };
    let PyValue::List(bounds) = segment else { return Err(GroundingError::Segment) };
    let [start, end] = &bounds[..] else { return Err(GroundingError::Segment) };
    let bound = |value: &PyValue| value.to_float().map_err(|_| GroundingError::Bound);
    let strategy = match strategy {
        PyValue::Str(text) => text.clone(),
        other => repr(other),
    };
    Ok(Grounding { start: bound(start)?, end: bound(end)?, strategy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(answer("<answer> B </answer>"), Some(Some("B")));
        assert_eq!(answer("</answer><answer>"), Some(None));
        assert_eq!(answer("<answer>B"), None);
    }

    #[test]
    fn calls() {
        let read = |body: &str| grounding(&format!("x<grounding>{body}</grounding>"));
        let fine = Grounding { start: 1.0, end: 2.5, strategy: "fine".to_owned() };
        let text = r#"{"temporal_segment": [1, "2.5"], "sampling_strategy": "fine"}"#;
        assert_eq!(read(&format!("json {text}.")), Ok(fine.clone()));
        assert_eq!(read(&text.replace('"', "'")), Ok(fine));
        for (body, error) in [
            ("} {", GroundingError::NoObject),
            ("none", GroundingError::NoObject),
            ("{}", GroundingError::Field),
            (r#"{"temporal_segment": 1, "sampling_strategy": 2}"#, GroundingError::Segment),
            (r#"{"temporal_segment": [1, null], "sampling_strategy": 2}"#, GroundingError::Bound),
        ] {
            assert_eq!(read(body), Err(error), "{body}");
        }
        assert!(matches!(read("{x}"), Err(GroundingError::NotJson(_))));
        assert_eq!(grounding("<grounding>{}"), Err(GroundingError::Absent));
    }
}
