//! Number for number what transformers computes, on small models of both families.
#![cfg(feature = "libtorch")]

use paravt_backend_libtorch::TorchOps;
use paravt_qwen_vl::ops::{Device, Precision};
use paravt_qwen_vl::testing::Reference;

#[test]
fn every_stage_equals_transformers() {
    let reference = Reference::record(env!("CARGO_TARGET_TMPDIR"));
    reference.compare(|| TorchOps::new(Device::Cpu, Precision::F32));
    reference.compare_bf16(1.1, || TorchOps::new(Device::Cpu, Precision::Bf16));
}
