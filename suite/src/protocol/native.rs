//! The suite's own protocol, in our own words.
