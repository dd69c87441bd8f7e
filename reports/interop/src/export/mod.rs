//! Runs of this suite as files of other harnesses, one module per format.
