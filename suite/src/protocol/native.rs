//! The suite's own protocols: `native.toml` for questions about videos, `images.toml` for those about images.

use std::sync::LazyLock;

use super::{Protocol, file};

static NATIVE: LazyLock<Protocol> = LazyLock::new(|| file::built_in(include_str!("native.toml")));
static IMAGES: LazyLock<Protocol> = LazyLock::new(|| file::built_in(include_str!("images.toml")));

/// The native protocol, about a video.
pub fn protocol() -> Protocol {
    NATIVE.clone()
}

/// The same about images.
pub fn images() -> Protocol {
    IMAGES.clone()
}
