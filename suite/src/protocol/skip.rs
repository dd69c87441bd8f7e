//! Fields that a file leaves out.

/// Whether a value is the one that a missing field stands for.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
