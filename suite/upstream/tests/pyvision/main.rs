//! PyVision-Video beside its release, and a whole episode in the jail.
#![allow(clippy::unwrap_used)]

mod episode;
mod released_code;
