//! Number for number what transformers computes, on small models of both families.

use paravt_backend_candle::CpuOps;
use paravt_qwen_vl::ops::Precision;
use paravt_qwen_vl::testing::Reference;

#[test]
fn every_stage_equals_transformers() {
    let reference = Reference::record();
    reference.compare(|| CpuOps::new(Precision::F32));
    reference.compare_bf16(|| CpuOps::new(Precision::Bf16));
}
