//! Probes: the same samples asked in a way that takes something away, to measure what a score rests on.
//!
//! A probe changes the samples of a run (options), the frames that its model is shown, or both, and nothing else:
//! tasks, protocol and scoring stay as they are. It is part of the plan, so that a probed run is another measurement
//! than the run without it.

mod frames;
mod options;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::media::{Sampling, VideoRequest};
use crate::sample::Sample;

pub use frames::ProbedFrames;

/// Flag of a sample that the probe of its run leaves as it is: it has no options, or no gold option.
pub const UNCHANGED: &str = "probe_unchanged";

/// Fewest frames that a request for half of them may have: a video is at least two frames.
pub(crate) const FEWEST_TO_HALVE: usize = 4;

/// What a run takes away from its samples or frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probe {
    /// No frames at all: the text alone, and crops that fail. Videos need not be there.
    Blind,
    /// Options in another order, drawn for each sample from this seed and its uid; the gold letter follows.
    Shuffle(u64),
    /// The text of the gold option is `None`; its letter stays the right answer.
    NoneRight,
    /// Every frame, also of a crop, is the overview's middle one; times and number stay.
    Freeze,
    /// The video runs backwards: frames in reverse order under ascending times, crops of the mirrored window. A gold
    /// interval stays where it is in the video as published.
    Reverse,
    /// Half the frames, of overview and crops.
    HalfFrames,
}

impl Probe {
    /// Whether it changes frames, which must then be sampled here.
    pub fn changes_frames(self) -> bool {
        matches!(self, Self::Freeze | Self::Reverse | Self::HalfFrames)
    }

    /// The samples as the probe asks them; those that it has nothing to change in get the flag [`UNCHANGED`].
    ///
    /// # Errors
    /// Options that cannot be told from the question, or no sample with options at all; in words, without the split.
    pub fn samples(self, samples: Vec<Sample>) -> Result<Vec<Sample>, String> {
        let change: &dyn Fn(&Sample) -> Result<Option<Sample>, String> = match self {
            Self::Shuffle(seed) => &move |sample| options::shuffled(sample, seed),
            Self::NoneRight => &options::none_right,
            Self::Blind | Self::Freeze | Self::Reverse | Self::HalfFrames => return Ok(samples),
        };
        let mut changed = 0;
        let mut probed = Vec::with_capacity(samples.len());
        for mut sample in samples {
            match change(&sample)? {
                Some(other) => {
                    changed += 1;
                    sample = other;
                }
                None => sample.flags.push(UNCHANGED.to_owned()),
            }
            probed.push(sample);
        }
        if changed == 0 {
            return Err("no sample has options and a gold option among them".to_owned());
        }
        Ok(probed)
    }

    /// A request for frames as the probe makes it.
    pub fn request(self, mut request: VideoRequest) -> VideoRequest {
        if self == Self::HalfFrames {
            request.sampling = match request.sampling {
                Sampling::NFrames(frames) => Sampling::NFrames(halved(frames)),
                Sampling::Fps { fps, min_frames, max_frames } => {
                    Sampling::Fps { fps: fps / 2.0, min_frames, max_frames: max_frames.map(halved) }
                }
            };
        }
        request
    }
}

fn halved(frames: usize) -> usize {
    (frames / 2).max(2)
}

/// As on the command line: `shuffle:7`.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blind => f.write_str("blind"),
            Self::Shuffle(seed) => write!(f, "shuffle:{seed}"),
            Self::NoneRight => f.write_str("none-right"),
            Self::Freeze => f.write_str("freeze"),
            Self::Reverse => f.write_str("reverse"),
            Self::HalfFrames => f.write_str("half-frames"),
        }
    }
}

impl FromStr for Probe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("shuffle", seed)) => {
                let seed =
                    seed.parse().map_err(|_| format!("shuffle: expected a whole number, got `{seed}`"))?;
                return Ok(Self::Shuffle(seed));
            }
            None if text == "shuffle" => return Err("write it with its seed, e.g. shuffle:1".to_owned()),
            _ => {}
        }
        let others = [Self::Blind, Self::NoneRight, Self::Freeze, Self::Reverse, Self::HalfFrames];
        others.into_iter().find(|probe| probe.to_string() == text).ok_or_else(|| {
            format!(
                "unknown probe `{text}`: use blind, shuffle:SEED, none-right, freeze, reverse or half-frames"
            )
        })
    }
}

impl Serialize for Probe {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn probes_are_written_as_they_are_read() {
        for text in ["blind", "shuffle:7", "none-right", "freeze", "reverse", "half-frames"] {
            assert_eq!(text.parse::<Probe>().unwrap().to_string(), text);
        }
        for (text, words) in [
            ("shuffle", "with its seed"),
            ("shuffle:x", "whole number"),
            ("blinded", "unknown probe `blinded`"),
            ("blind:1", "unknown probe `blind:1`"),
        ] {
            let error = text.parse::<Probe>().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn half_the_frames_are_half_of_a_number_and_half_of_a_rate() {
        let overview = Probe::HalfFrames.request(VideoRequest::overview(64));
        assert_eq!(overview, VideoRequest::overview(32));
        let crop = Probe::HalfFrames.request(VideoRequest::crop(3.0, 9.0, 16));
        let Sampling::Fps { fps, max_frames, .. } = crop.sampling else { panic!("{crop:?}") };
        assert_eq!((fps, max_frames, crop.start, crop.end), (0.5, Some(8), Some(3.0), Some(9.0)));
        assert_eq!(Probe::Freeze.request(VideoRequest::overview(64)), VideoRequest::overview(64));
    }

    #[test]
    fn samples_without_options_are_flagged_and_a_split_of_them_is_refused() {
        let open = Sample { gold: crate::sample::Gold::open("two"), ..fixtures::sample("open") };
        let probed = Probe::NoneRight.samples(vec![fixtures::sample("choice"), open.clone()]).unwrap();
        assert!(probed[0].flags.is_empty());
        assert_eq!(probed[1], Sample { flags: vec![UNCHANGED.to_owned()], ..open.clone() });
        assert!(Probe::Shuffle(1).samples(vec![open.clone()]).is_err());
        assert_eq!(Probe::Blind.samples(vec![open.clone()]).unwrap(), [open]);
    }
}
