//! The embedded world.
