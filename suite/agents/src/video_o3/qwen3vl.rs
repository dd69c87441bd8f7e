//! Video-o3's model on Qwen3-VL (`is_qwen3vl` of `Eval/vlmeval/vlm/video_o3/model.py`): the same conversation, frames of whole
//! tokens of 32 pixels that its processor does not resize, and clips at their own times.
//!
//! The first video's frames follow on each other at two a second from 0 on, those of a call are where the video has them. A
//! request of vLLM has one set of positions for all its videos, so that it is refused; the engine in process takes them.

use paravt_upstream::import::{Pinned, Release};

use super::{Model, files, make};

const QWEN3VL: Model = Model { name: "video-o3-qwen3vl", side: 32, is_given_positions: true };

/// The release with this model.
pub static RELEASE: Release = Release {
    name: QWEN3VL.name,
    files: &files(Pinned::new(
        "Eval/vlmeval/vlm/video_o3/vision_process_qwen3vl.py",
        "e3621d63e09af3ac143ac1842812f641e31ffd939aa655d0beb5bdc7ce268871",
    )),
    make: |texts, source| make(texts, source, &QWEN3VL),
    ..super::RELEASE
};
