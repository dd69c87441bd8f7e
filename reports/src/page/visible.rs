//! Untrusted text on the page.

/// Text in which nothing is invisible; see [`paravt_suite::printable`].
pub(super) fn visible(text: &str) -> String {
    paravt_suite::printable::printable(text).into_owned()
}
