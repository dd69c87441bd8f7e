//! Tests of downloads, archives and materialized rows, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod archives;
mod common;
mod hub;
mod interrupted;
mod materialize;
