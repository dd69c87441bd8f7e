//! Tests of frames and JPEG files, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod edit_lists;
mod files;
mod jpeg;
mod other_files;
mod patterns;
mod pinned;
mod qwen_vl_utils;
mod resample;
mod streams;
