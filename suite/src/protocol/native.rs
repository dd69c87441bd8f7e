//! The suite's own protocol, `native.toml`: the default where no upstream was imported.

use std::sync::LazyLock;

use super::{Protocol, file};

static NATIVE: LazyLock<Protocol> = LazyLock::new(|| file::built_in(include_str!("native.toml")));

/// The native protocol.
pub fn protocol() -> Protocol {
    NATIVE.clone()
}
