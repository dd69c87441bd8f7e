//! The three upstream tool-call parsers (spec/benchmarks.md §4).
