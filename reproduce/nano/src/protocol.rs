//! The world's own protocol, `nano.toml`.

use std::sync::LazyLock;

use paravt_suite::protocol::{PromptMode, Protocol, file};

static NANO: LazyLock<Protocol> = LazyLock::new(|| file::built_in(include_str!("nano.toml")));

/// One call, the answer alone.
pub(crate) fn direct() -> PromptMode {
    PromptMode::named("direct")
}

/// One call, thoughts before the answer.
pub(crate) fn reasoning() -> PromptMode {
    PromptMode::named("reasoning")
}

/// The protocol `nano`.
pub fn protocol() -> Protocol {
    NANO.clone()
}
