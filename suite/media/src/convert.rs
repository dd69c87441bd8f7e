//! From decoded pictures to RGB frames of the wanted size, and to JPEG.

use ff::ffi;
use ff::software::scaling;
use ffmpeg_next as ff;

use crate::Frame;
use crate::error::MediaError;
use crate::resize::{Precision, Resizer};

/// Turns pictures of one stream into frames; keeps its scaler and buffers.
pub(crate) struct Converter {
    scaler: Option<(PictureKind, scaling::Context)>,
    resizer: Resizer,
    size: (u32, u32),
    rotation: i32,
    colours: Colours,
    precision: Precision,
}

/// Conversion of YUV to RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    /// By the matrix and range that the stream names.
    OfStream,
    /// BT.601 whatever the stream names (swscale's default).
    Bt601,
}

impl Colours {
    /// How chroma planes that are smaller are enlarged, where swscale has no special routine for a
    /// format (that of 8-bit 4:2:0 heeds neither): torchcodec asks for one way, PyAV for the other.
    fn interpolation(self) -> scaling::Flags {
        match self {
            Self::OfStream => scaling::Flags::BICUBIC,
            Self::Bt601 => scaling::Flags::BILINEAR,
        }
    }
}

/// Input and output formats of a scaler; streams may change them half-way.
#[derive(PartialEq, Eq, Clone, Copy)]
struct PictureKind {
    format: ff::format::Pixel,
    width: u32,
    height: u32,
    space: i32,
    full_range: bool,
}

impl Converter {
    /// `size` is (width, height) of the frames, after rotation.
    pub(crate) fn new(size: (u32, u32), rotation: i32, colours: Colours, precision: Precision) -> Self {
        Self { scaler: None, resizer: Resizer::default(), size, rotation, colours, precision }
    }

    /// One picture as a frame.
    pub(crate) fn frame(
        &mut self,
        picture: &ff::frame::Video,
        index: usize,
        time_us: i64,
    ) -> Result<Frame, MediaError> {
        let error = |message: String| MediaError::Convert { index, message };
        let (width, height, rgb) = self.rgb(picture).map_err(|e| error(format!("no RGB: {e}")))?;
        let (width, height, rgb) = rotate(width, height, rgb, self.rotation);
        let resized = match self.precision {
            Precision::Bytes => self.resizer.resize(rgb, (width, height), self.size),
            Precision::Floats => self.resizer.resize_in_floats(rgb, (width, height), self.size),
        };
        let rgb = resized.map_err(error)?;
        let (width, height) = self.size;
        Ok(Frame { index, time_us, width, height, rgb })
    }

    fn rgb(&mut self, picture: &ff::frame::Video) -> Result<(u32, u32, Vec<u8>), ff::Error> {
        let (width, height) = (picture.width(), picture.height());
        let scaler = self.scaler_for(picture)?;
        let mut rgb = ff::frame::Video::empty();
        scaler.run(picture, &mut rgb)?;
        let (stride, row) = (rgb.stride(0), width as usize * 3);
        let mut packed = Vec::with_capacity(row * height as usize);
        for line in rgb.data(0).chunks(stride).take(height as usize) {
            packed.extend_from_slice(&line[..row]);
        }
        Ok((width, height, packed))
    }

    fn scaler_for(&mut self, picture: &ff::frame::Video) -> Result<&mut scaling::Context, ff::Error> {
        // SAFETY: `picture` owns a valid AVFrame; both are plain fields of it.
        let (space, range) =
            unsafe { ((*picture.as_ptr()).colorspace as i32, (*picture.as_ptr()).color_range) };
        let kind = PictureKind {
            format: picture.format(),
            width: picture.width(),
            height: picture.height(),
            space,
            full_range: range == ffi::AVColorRange::AVCOL_RANGE_JPEG,
        };
        if self.scaler.as_ref().is_none_or(|(made_for, _)| *made_for != kind) {
            let mut scaler = scaling::Context::get(
                kind.format,
                kind.width,
                kind.height,
                ff::format::Pixel::RGB24,
                kind.width,
                kind.height,
                self.colours.interpolation(),
            )?;
            if self.colours == Colours::OfStream {
                set_colours(&mut scaler, kind);
            }
            self.scaler = Some((kind, scaler));
        }
        match &mut self.scaler {
            Some((_, scaler)) => Ok(scaler),
            None => Err(ff::Error::Bug),
        }
    }
}

/// Uses the stream's own colour matrix and range; swscale's default is BT.601 for everything.
fn set_colours(scaler: &mut scaling::Context, kind: PictureKind) {
    const ONE: i32 = 1 << 16;
    // SAFETY: the coefficients are static tables of FFmpeg; the context is alive and ours alone;
    // a format that has no matrix makes the call return -1 and change nothing.
    unsafe {
        let table = ffi::sws_getCoefficients(kind.space);
        let range = i32::from(kind.full_range);
        ffi::sws_setColorspaceDetails(scaler.as_mut_ptr(), table, range, table, 1, 0, ONE, ONE);
    }
}

/// Turns a picture counter-clockwise by a multiple of 90 degrees.
fn rotate(width: u32, height: u32, rgb: Vec<u8>, degrees: i32) -> (u32, u32, Vec<u8>) {
    let (w, h) = (width as usize, height as usize);
    let source: Box<dyn Fn(usize, usize) -> (usize, usize)> = match degrees.rem_euclid(360) {
        90 => Box::new(move |x, y| (w - 1 - y, x)),
        180 => Box::new(move |x, y| (w - 1 - x, h - 1 - y)),
        270 => Box::new(move |x, y| (y, h - 1 - x)),
        _ => return (width, height, rgb),
    };
    let (to_w, to_h) = if degrees.rem_euclid(180) == 90 { (h, w) } else { (w, h) };
    let mut out = Vec::with_capacity(rgb.len());
    for y in 0..to_h {
        for x in 0..to_w {
            let (from_x, from_y) = source(x, y);
            let at = (from_y * w + from_x) * 3;
            out.extend_from_slice(&rgb[at..at + 3]);
        }
    }
    (to_w as u32, to_h as u32, out)
}

/// JPEG as Pillow writes it: the standard tables at this quality, chroma averaged over 2 by 2 pixels. Coefficients
/// half-way between two steps may fall to the other side: the encoder divides by 15-bit reciprocals.
///
/// # Errors
/// A frame larger than the format allows.
pub fn encode_jpeg(frame: &Frame, quality: u8) -> Result<Vec<u8>, MediaError> {
    let error = |message: String| MediaError::Convert { index: frame.index, message };
    let side =
        |side: u32| u16::try_from(side).map_err(|_| error(format!("{side} pixels are too many for JPEG")));
    let mut out = Vec::with_capacity(frame.rgb.len() / 8);
    let mut encoder = jpeg_encoder::Encoder::new(&mut out, quality);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    encoder.set_chroma_subsampling_method(jpeg_encoder::ChromaSubsamplingMethod::Average);
    encoder
        .encode(&frame.rgb, side(frame.width)?, side(frame.height)?, jpeg_encoder::ColorType::Rgb)
        .map_err(|e| error(e.to_string()))?;
    Ok(out)
}

/// PNG: the pixels themselves.
///
/// # Errors
/// A frame without pixels.
pub fn encode_png(frame: &Frame) -> Result<Vec<u8>, MediaError> {
    let mut out = Vec::with_capacity(frame.rgb.len() / 2);
    let mut encoder = png::Encoder::new(&mut out, frame.width, frame.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&frame.rgb));
    written.map_err(|error| MediaError::Convert { index: frame.index, message: error.to_string() })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_is_counter_clockwise() {
        // 2 by 1: red, green.
        let rgb = vec![255, 0, 0, 0, 255, 0];
        assert_eq!(rotate(2, 1, rgb.clone(), 90), (1, 2, vec![0, 255, 0, 255, 0, 0]));
        assert_eq!(rotate(2, 1, rgb.clone(), 270), (1, 2, rgb.clone()));
        assert_eq!(rotate(2, 1, rgb.clone(), 180), (2, 1, vec![0, 255, 0, 255, 0, 0]));
    }
}
