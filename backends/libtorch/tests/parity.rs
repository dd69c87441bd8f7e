//! Number for number what transformers computes, on six small models of both families.
#![cfg(feature = "libtorch")]

use paravt_backend_libtorch::{Device, TorchOps};
use paravt_qwen_vl::ops::Precision;
use paravt_qwen_vl::testing::Reference;

#[test]
fn every_stage_equals_transformers() {
    Reference::record().compare(|| TorchOps::new(Device::Cpu, Precision::F32));
}
