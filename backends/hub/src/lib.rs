#![forbid(unsafe_code)]
//! What hubs give out and how it is asked for: model folders, and the one HTTP client.

pub mod checkpoint;
pub mod http;
