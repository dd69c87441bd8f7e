//! Takes the upstream texts out of pinned Python files.
