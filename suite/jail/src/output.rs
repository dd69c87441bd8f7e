//! What comes back from a call.

use serde::Deserialize;

use crate::Limits;
use crate::command::ERROR_BYTES;

/// The files of an episode as its interpreter sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// Number of frames of the video, or of images.
    pub frames: u64,
    /// Average frames of the video in a second; 0 for images.
    pub fps: f64,
    /// Width of the first frame or image, in pixels.
    pub width: u32,
    /// Height of the first frame or image, in pixels.
    pub height: u32,
    /// Time that opening them took.
    pub open_seconds: f64,
    /// The images as the model is shown them.
    pub pictures: Vec<Figure>,
}

/// First frame of an interpreter that is ready.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ready {
    frames: u64,
    fps: f64,
    width: u32,
    height: u32,
    open_seconds: f64,
    /// Number of pictures that follow.
    #[serde(default)]
    pub pictures: usize,
}

impl Ready {
    /// The whole, with its pictures.
    pub(crate) fn with(self, pictures: Vec<Figure>) -> Opened {
        let Self { frames, fps, width, height, open_seconds, .. } = self;
        Opened { frames, fps, width, height, open_seconds, pictures }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The code ran to its end.
    Done,
    /// It raised this exception; the variables are kept.
    Raised(String),
    /// It ran longer than a call may; the jail was killed.
    TimedOut,
    /// The interpreter ended, or was killed for what it did; the reason.
    Ended(String),
}

/// A figure, in the order in which the figures were shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The file. It begins as a PNG of this size does; the rest has not been decoded.
    pub png: Vec<u8>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// What one call gave back.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// How it ended. Text and figures of a call that did not run to its end are lost, as in the release.
    pub outcome: Outcome,
    /// Standard output without white space around it, cut after [`Limits::stdout`] bytes.
    pub stdout: String,
    /// Bytes of standard output before it was cut.
    pub stdout_bytes: u64,
    /// Its figures, up to [`Limits::figures`] and [`Limits::figure_bytes`].
    pub figures: Vec<Figure>,
    pub figures_made: u64,
    /// Figures of the episode so far.
    pub figures_total: u64,
    /// Time of the call.
    pub seconds: f64,
    /// Whether an earlier call ended the interpreter: the variables of calls before this one were lost.
    pub restarted: bool,
}

impl Output {
    pub(crate) fn failed(outcome: Outcome) -> Self {
        Self {
            outcome,
            stdout: String::new(),
            stdout_bytes: 0,
            figures: Vec::new(),
            figures_made: 0,
            figures_total: 0,
            seconds: 0.0,
            restarted: false,
        }
    }

    /// Whether a limit cut the text, which the release would not have done.
    pub fn text_is_cut(&self, limits: &Limits) -> bool {
        self.stdout_bytes > limits.stdout as u64
    }

    /// Figures that a limit kept back.
    pub fn figures_lost(&self) -> u64 {
        self.figures_made.saturating_sub(self.figures.len() as u64)
    }
}

/// First frame of a reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    pub call: u64,
    pub error: Option<String>,
    #[serde(default)]
    pub stdout: String,
    #[serde(default)]
    pub stdout_bytes: u64,
    #[serde(default)]
    pub figures: usize,
    #[serde(default)]
    pub figures_made: u64,
    #[serde(default)]
    pub figures_total: u64,
}

impl Reply {
    /// Bytes of its JSON: a byte of text is at most `\u0000`.
    pub(crate) fn max_bytes(limits: &Limits) -> usize {
        6 * (limits.stdout + ERROR_BYTES) + 1024
    }

    /// That it keeps to the limits of which the interpreter knows.
    pub(crate) fn check(&self, call: u64, limits: &Limits) -> Result<(), String> {
        if self.call != call {
            return Err(format!("it answered call {} in the place of {call}", self.call));
        }
        if self.stdout.len() > limits.stdout || self.figures > limits.figures {
            return Err(format!("its reply has {} bytes and {} figures", self.stdout.len(), self.figures));
        }
        if self.error.is_some() && self.figures > 0 {
            return Err("its reply has an error and figures".to_owned());
        }
        Ok(())
    }
}

impl Figure {
    /// Reads the size of a PNG.
    pub(crate) fn new(png: Vec<u8>, limits: &Limits) -> Result<Self, String> {
        let header = png.get(..24).filter(|header| {
            header.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0d") && &header[12..16] == b"IHDR"
        });
        let header = header.ok_or("its figure is not a PNG")?;
        let [width, height] = [16, 20]
            .map(|at| header[at..at + 4].iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)));
        let (long, short) = (width.max(height), width.min(height));
        if short == 0 || long / short >= 200 || u64::from(width) * u64::from(height) > limits.figure_pixels {
            return Err(format!("its figure has {width}×{height} pixels"));
        }
        Ok(Self { png, width, height })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a PNG of a size.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let sizes = [width, height].map(u32::to_be_bytes).concat();
        [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &sizes, &[8, 6, 0, 0, 0]].concat()
    }

    #[test]
    fn figures_are_png_of_a_bounded_size() {
        let limits = Limits { figure_pixels: 1 << 20, ..Limits::default() };
        let figure = Figure::new(png(640, 480), &limits).unwrap();
        assert_eq!((figure.width, figure.height), (640, 480));
        for bad in
            [png(0, 480), png(1 << 31, 1 << 31), png(2048, 1024), png(2000, 10), png(640, 480)[..20].to_vec()]
        {
            assert!(Figure::new(bad, &limits).is_err());
        }
        assert!(Figure::new(b"GIF89a\x01\0\x01\0 and more than a header".to_vec(), &limits).is_err());
    }

    #[test]
    fn replies_of_another_call_or_above_the_limits_are_refused() {
        let limits = Limits { stdout: 4, figures: 1, ..Limits::default() };
        let reply = |text: &str| serde_json::from_str::<Reply>(text).unwrap().check(7, &limits);
        assert_eq!(reply(r#"{"call": 7, "stdout": "abcd", "figures": 1}"#), Ok(()));
        for bad in [
            r#"{"call": 8}"#,
            r#"{"call": 7, "stdout": "abcde"}"#,
            r#"{"call": 7, "figures": 2}"#,
            r#"{"call": 7, "error": "x", "figures": 1}"#,
        ] {
            assert!(reply(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Reply>(r#"{"call": 7, "reward": 1}"#).is_err());
    }
}
