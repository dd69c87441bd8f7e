//! Resizing as other agents' code does it: Pillow's, OpenCV's and torchvision's filters on 8-bit RGB, and a JPEG file in
//! between.

mod jpeg;
mod opencv;
mod pillow;

pub use jpeg::round_trip;
use serde::{Deserialize, Serialize};

use crate::Resizer;

/// A filter of Pillow, OpenCV or torchvision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resampler {
    /// `Image.resize(size, Image.LANCZOS)` of Pillow 13.0.
    Lanczos,
    /// `Image.resize(size)` of Pillow 13.0: its bicubic filter.
    PillowBicubic,
    /// `cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)` of the packages of OpenCV for x86: a = -0.75, four pixels
    /// a side at any scale. Some five values in a million of a photograph or of noise differ by one level; so does one
    /// in five hundred where many lie exactly between two levels. OpenCV's own code, which runs where Intel's library
    /// is absent, differs from both by one level in one value of twenty.
    Cubic,
    /// `cv2.resize(image, size, interpolation=cv2.INTER_AREA)` of OpenCV, to smaller or equal sides.
    Area,
    /// `resize(video, size, InterpolationMode.BICUBIC, antialias=True)` of torchvision, as `fetch_video` of qwen-vl-utils
    /// calls it: see [`Resizer::resize_in_floats`].
    Bicubic,
}

impl Resampler {
    /// (height, width, 3) values from one (width, height) to another.
    ///
    /// # Errors
    /// Sizes that do not fit the values, or that are zero; larger sides for [`Area`](Self::Area), which OpenCV gives
    /// another filter.
    pub fn resize(self, rgb: &[u8], from: (u32, u32), to: (u32, u32)) -> Result<Vec<u8>, String> {
        let sizes = (from, to);
        let wide = |(width, height): (u32, u32)| (width as usize, height as usize);
        let (from, to) = (wide(from), wide(to));
        if rgb.len() != from.0 * from.1 * 3 || rgb.is_empty() || to.0 == 0 || to.1 == 0 {
            return Err(format!("{} values of {from:?} pixels cannot be resized to {to:?}", rgb.len()));
        }
        if from == to {
            return Ok(rgb.to_vec());
        }
        match self {
            Self::Lanczos => Ok(pillow::LANCZOS.resize(rgb, from, to)),
            Self::PillowBicubic => Ok(pillow::BICUBIC.resize(rgb, from, to)),
            Self::Cubic => Ok(opencv::cubic(rgb, from, to)),
            Self::Area if to.0 > from.0 || to.1 > from.1 => {
                Err(format!("{from:?} pixels cannot be enlarged to {to:?} by area"))
            }
            Self::Area => Ok(opencv::area(rgb, from, to)),
            Self::Bicubic => Resizer::default().resize_in_floats(rgb.to_vec(), sizes.0, sizes.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pillow 13.0 on the same values.
    #[test]
    fn pillows_bicubic_filter_reduces() {
        let rgb: Vec<u8> = (0..90_u32).map(|i| ((i * i * 7 + i * 13) % 256) as u8).collect();
        let theirs = [97, 131, 145, 131, 136, 144, 133, 131, 136, 134, 174, 71, 133, 128, 117, 124, 95, 155];
        assert_eq!(Resampler::PillowBicubic.resize(&rgb, (6, 5), (3, 2)), Ok(theirs.to_vec()));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for resampler in [
            Resampler::Lanczos,
            Resampler::PillowBicubic,
            Resampler::Cubic,
            Resampler::Area,
            Resampler::Bicubic,
        ] {
            assert!(resampler.resize(&[0; 12], (2, 2), (0, 1)).is_err());
            assert!(resampler.resize(&[0; 11], (2, 2), (1, 1)).is_err());
            assert_eq!(resampler.resize(&[7; 48], (4, 4), (3, 3)), Ok(vec![7; 27]), "a plane stays one");
        }
        assert!(Resampler::Area.resize(&[0; 12], (2, 2), (3, 2)).is_err());
    }
}
