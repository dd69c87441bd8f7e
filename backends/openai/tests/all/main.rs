//! The client against servers that a test starts, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod common;
mod replies;
mod servers;
