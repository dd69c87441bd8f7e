//! Bicubic resizing as torchvision does it: to the bit on 8-bit images, and by way of floats.

use fast_image_resize as fir;
// Typed: an image whose type is known at run time alone compiles the filters of all of them.
use fir::images::{TypedImage, TypedImageRef};
use fir::pixels::{F32x3, U8x3};

/// Numbers that a bicubic filter computes in between its two passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// Levels of 8 bits, as the image and video processors of transformers have them.
    Bytes,
    /// Floats, as `fetch_video` of qwen-vl-utils has them.
    Floats,
}

/// Resizes 8-bit RGB images; keeps its buffers.
#[derive(Default)]
pub struct Resizer {
    inner: fir::Resizer,
}

impl Resizer {
    /// Cubic with a = -0.5 and antialiasing of (height, width, 3) values between two (width, height).
    ///
    /// Rows first, then columns, with 8 bits between: the order shows where the first pass overshoots
    /// and is cut off, by tens of levels at sharp edges.
    ///
    /// # Errors
    /// Sizes that do not fit the values.
    pub fn resize(&mut self, rgb: Vec<u8>, from: (u32, u32), to: (u32, u32)) -> Result<Vec<u8>, String> {
        let between = (to.0, from.1);
        let rows = if between == from { rgb } else { self.pass(&rgb, from, between)? };
        if between == to { Ok(rows) } else { self.pass(&rows, between, to) }
    }

    /// The same filter as `torchvision.transforms.functional.resize` has it, which `fetch_video` calls:
    /// in floats, cut off and rounded (ties to even) once, at the end.
    ///
    /// # Errors
    /// Sizes that do not fit the values.
    pub fn resize_in_floats(
        &mut self,
        rgb: Vec<u8>,
        from: (u32, u32),
        to: (u32, u32),
    ) -> Result<Vec<u8>, String> {
        if from == to {
            return Ok(rgb);
        }
        let (pixels, _) = rgb.as_chunks::<3>();
        let pixels = pixels.iter().map(|levels| F32x3::new(levels.map(f32::from))).collect();
        let source = TypedImage::from_pixels(from.0, from.1, pixels).map_err(|error| error.to_string())?;
        let mut target = TypedImage::<F32x3>::new(to.0, to.1);
        self.inner.resize_typed(&source, &mut target, Some(&options())).map_err(|error| error.to_string())?;
        // The cast to an integer cuts off at its bounds.
        let level = |value: f32| value.round_ties_even() as u8;
        Ok(target.pixels().iter().flat_map(|pixel| pixel.0.map(level)).collect())
    }

    fn pass(&mut self, rgb: &[u8], from: (u32, u32), to: (u32, u32)) -> Result<Vec<u8>, String> {
        let source = TypedImageRef::from_buffer(from.0, from.1, rgb).map_err(|error| error.to_string())?;
        let mut resized = vec![0; 3 * to.0 as usize * to.1 as usize];
        let mut target =
            TypedImage::<U8x3>::from_buffer(to.0, to.1, &mut resized).map_err(|error| error.to_string())?;
        self.inner.resize_typed(&source, &mut target, Some(&options())).map_err(|error| error.to_string())?;
        drop(target);
        Ok(resized)
    }
}

/// Catmull-Rom is the cubic with a = -0.5.
fn options() -> fir::ResizeOptions {
    fir::ResizeOptions::new().resize_alg(fir::ResizeAlg::Convolution(fir::FilterType::CatmullRom))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// torchvision 0.25.0: hard edges in both directions, enlarged and reduced. Between two passes in 8
    /// bits the overshoot of the first would be cut off.
    #[test]
    fn floats_overshoot_between_passes_as_in_torchvision() {
        let mut rgb = Vec::new();
        for (y, x) in (0..4).flat_map(|y| (0..5).map(move |x| (y, x))) {
            for c in 0..3 {
                let bright = (x * 2 + y * 3 + c) % 4 < 2;
                rgb.push(if bright { 255 } else { ((x * 37 + y * 11 + c * 5) % 60) as u8 });
            }
        }
        let resized = |to| Resizer::default().resize_in_floats(rgb.clone(), (5, 4), to).unwrap();
        let reduced = [
            169, 212, 103, 134, 130, 157, 142, 128, 146, 177, 209, 117, 64, 144, 210, 166, 153, 123, 164,
            135, 111, 88, 151, 206, 167, 80, 118, 124, 172, 156, 131, 174, 162, 175, 68, 100,
        ];
        assert_eq!(resized((4, 3)), reduced);
        let first_row = [
            255, 255, 0, 195, 189, 77, 28, 48, 255, 125, 129, 161, 255, 255, 6, 135, 142, 161, 43, 67, 255,
            198, 194, 100, 255, 255, 0,
        ];
        let fourth_row = [
            185, 255, 94, 143, 128, 143, 115, 40, 179, 166, 191, 128, 196, 255, 97, 4, 255, 255, 91, 195, 189,
        ];
        let enlarged = resized((9, 7));
        assert_eq!(enlarged[..27], first_row);
        assert!(enlarged.windows(fourth_row.len()).any(|window| window == fourth_row));
        assert_ne!(Resizer::default().resize(rgb.clone(), (5, 4), (9, 7)).unwrap(), enlarged);
    }
}
