//! The training stages against stand-ins and against the release itself.
#![allow(clippy::unwrap_used)]

mod faults;
#[path = "../standin/model.rs"]
mod model;
mod released_code;
#[path = "../standin/mod.rs"]
mod standin;
