//! The training stages against stand-ins and against the release itself.
#![allow(clippy::unwrap_used)]

mod faults;
mod released_code;
