//! Number for number what transformers computes, on small models of both families.

use candle_core::Device;
use paravt_backend_candle::CandleOps;
use paravt_qwen_vl::ops::Precision;
use paravt_qwen_vl::testing::Reference;

#[test]
fn every_stage_equals_transformers() {
    let reference = Reference::record();
    reference.compare(|| CandleOps::new(Device::Cpu, Precision::F32));
    reference.compare_bf16(|| CandleOps::new(Device::Cpu, Precision::Bf16));
}
