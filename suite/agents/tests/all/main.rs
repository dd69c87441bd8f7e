//! Loops of other authors' agents, with texts of a stand-in of the same structure as the authors' files.
#![allow(clippy::unwrap_used)]

mod framethinker;
mod longvt;
mod loops;
mod video_o3;
