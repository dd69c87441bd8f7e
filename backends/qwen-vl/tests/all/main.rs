//! Tests of model folders and chat templates, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod chat;
mod folders;
mod hostile;
mod prompts;
