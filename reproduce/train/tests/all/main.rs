//! Tests of the trainer, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod areal;
mod common;
mod documents;
mod objective_laws;
mod objectives;
mod optimizer;
mod resume;
mod rollouts;
mod training;
