//! Tests of the command from end to end, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod ask;
mod common;
mod conformance;
mod documents;
mod engines;
mod faults;
mod fetch;
mod frames;
mod full_disk;
mod gate;
mod generate;
mod hub;
mod import;
mod interrupt;
mod kill;
mod logs;
mod merge;
mod plans;
mod preflight;
mod promises;
mod protocol_file;
mod reproduce;
mod reproduce_kill;
mod reproduce_served;
mod reproduce_stops;
mod rows;
mod runs;
mod served;
mod slurm;
mod task_file;
mod terminal;
mod transformers_serve;
mod wire;
mod world;
