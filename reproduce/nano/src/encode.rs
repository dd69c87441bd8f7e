//! H.264 files out of RGB frames.

use std::path::{Path, PathBuf};

use ff::software::scaling;
use ffmpeg_next as ff;
use rayon::prelude::*;

use crate::scene::{FPS, HEIGHT, Scene, WIDTH};
use crate::{WorldError, tables};

/// Why a video could not be encoded.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot be encoded: {message}", path = .path.display())]
pub struct EncodeError {
    pub path: PathBuf,
    /// FFmpeg's word.
    pub message: String,
}

/// Key frames come this often, in frames: long groups, as in videos from the web.
const GROUP: u32 = 80;

/// Writes all videos, folders included, on all cores.
pub(crate) fn all(videos: &[(PathBuf, Scene)]) -> Result<(), WorldError> {
    videos.par_iter().try_for_each(|(path, scene)| {
        tables::make_parent(path)?;
        Ok(video(path, scene)?)
    })
}

/// Writes a scene as an H.264 mp4.
fn video(path: &Path, scene: &Scene) -> Result<(), EncodeError> {
    let fail = |message: String| EncodeError { path: path.to_owned(), message };
    paravt_media::load_ffmpeg().map_err(fail)?;
    encode(path, scene).map_err(|error| fail(error.to_string()))
}

fn encode(path: &Path, scene: &Scene) -> Result<(), ff::Error> {
    let mut output = ff::format::output(path)?;
    let codec = ff::encoder::find(ff::codec::Id::H264).ok_or(ff::Error::EncoderNotFound)?;
    let time_base = ff::Rational::new(1, FPS as i32);
    let mut encoder = ff::codec::context::Context::new_with_codec(codec).encoder().video()?;
    encoder.set_width(WIDTH as u32);
    encoder.set_height(HEIGHT as u32);
    encoder.set_format(ff::format::Pixel::YUV420P);
    encoder.set_time_base(time_base);
    encoder.set_frame_rate(Some(ff::Rational::new(FPS as i32, 1)));
    encoder.set_gop(GROUP);
    if output.format().flags().contains(ff::format::Flags::GLOBAL_HEADER) {
        encoder.set_flags(ff::codec::Flags::GLOBAL_HEADER);
    }
    let mut options = ff::Dictionary::new();
    // One thread and no wall-clock: the same scene gives the same file.
    for (key, value) in [("preset", "ultrafast"), ("crf", "23"), ("threads", "1")] {
        options.set(key, value);
    }
    let mut encoder = encoder.open_with(options)?;
    let stream = {
        let mut stream = output.add_stream(codec)?;
        stream.set_time_base(time_base);
        stream.set_parameters(&encoder);
        stream.index()
    };
    output.write_header()?;
    let stream_base = output.stream(stream).map_or(time_base, |stream| stream.time_base());

    let (width, height) = (WIDTH as u32, HEIGHT as u32);
    let mut scaler = scaling::Context::get(
        ff::format::Pixel::RGB24,
        width,
        height,
        ff::format::Pixel::YUV420P,
        width,
        height,
        scaling::Flags::BILINEAR,
    )?;
    let mut rgb = ff::frame::Video::new(ff::format::Pixel::RGB24, width, height);
    let mut shown = None;
    for number in 0..scene.frames() {
        // Equal frames are drawn once.
        let look = Some(scene.look(number));
        if shown != look {
            fill(&mut rgb, &scene.frame(number));
            shown = look;
        }
        let mut yuv = ff::frame::Video::empty();
        scaler.run(&rgb, &mut yuv)?;
        yuv.set_pts(Some(number as i64));
        encoder.send_frame(&yuv)?;
        write_packets(&mut encoder, &mut output, stream, time_base, stream_base)?;
    }
    encoder.send_eof()?;
    write_packets(&mut encoder, &mut output, stream, time_base, stream_base)?;
    output.write_trailer()
}

fn fill(frame: &mut ff::frame::Video, pixels: &[u8]) {
    let stride = frame.stride(0);
    for (line, row) in frame.data_mut(0).chunks_mut(stride).zip(pixels.chunks(WIDTH * 3)) {
        line[..row.len()].copy_from_slice(row);
    }
}

fn write_packets(
    encoder: &mut ff::encoder::Video,
    output: &mut ff::format::context::Output,
    stream: usize,
    from: ff::Rational,
    to: ff::Rational,
) -> Result<(), ff::Error> {
    let mut packet = ff::Packet::empty();
    while encoder.receive_packet(&mut packet).is_ok() {
        packet.set_stream(stream);
        packet.set_duration(1);
        packet.rescale_ts(from, to);
        packet.write_interleaved(output)?;
    }
    Ok(())
}
