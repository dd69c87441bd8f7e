//! The texts that a model sees for one sample: a pure function of protocol, mode, switches and sample.
