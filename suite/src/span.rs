//! A part of a video.

use serde::{Deserialize, Serialize};

/// A part of a video, in seconds from its start. In JSON the list `[start, end]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct TimeSpan {
    /// Start in seconds.
    pub start: f64,
    /// Where it ends; before `start` in a few published rows, and where a model asks for it.
    pub end: f64,
}

impl TimeSpan {
    /// From `start` to `end` seconds.
    pub const fn new(start: f64, end: f64) -> Self {
        Self { start, end }
    }

    /// Seconds from start to end.
    pub fn length(self) -> f64 {
        self.end - self.start
    }

    /// Intersection over union by lengths; 0 where neither has any.
    pub fn iou(self, other: Self) -> f64 {
        let intersection = (self.end.min(other.end) - self.start.max(other.start)).max(0.0);
        let union = self.length() + other.length() - intersection;
        if union > 0.0 { intersection / union } else { 0.0 }
    }
}

impl From<(f64, f64)> for TimeSpan {
    fn from((start, end): (f64, f64)) -> Self {
        Self { start, end }
    }
}

impl From<TimeSpan> for (f64, f64) {
    fn from(span: TimeSpan) -> Self {
        (span.start, span.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iou_is_by_lengths() {
        let span = TimeSpan::new;
        assert_eq!(span(0.0, 10.0).iou(span(5.0, 15.0)), 5.0 / 15.0);
        assert_eq!(span(0.0, 1.0).iou(span(9.0, 10.0)), 0.0);
        assert_eq!(span(5.0, 5.0).iou(span(5.0, 5.0)), 0.0);
    }

    #[test]
    fn a_span_is_a_list_in_json() {
        let json = serde_json::to_string(&TimeSpan::new(1.5, 3.0)).unwrap();
        assert_eq!(json, "[1.5,3.0]");
        assert_eq!(serde_json::from_str::<TimeSpan>(&json).unwrap(), TimeSpan::new(1.5, 3.0));
    }
}
