//! From final text to score: a pure function of gold, text and switches.
