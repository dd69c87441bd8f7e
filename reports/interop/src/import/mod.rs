//! Sample files of other harnesses as rows of one form.
