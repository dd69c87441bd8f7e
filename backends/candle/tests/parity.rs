//! Number for number what transformers computes, on six small models of both families.

use candle_core::Device;
use paravt_backend_candle::CandleOps;
use paravt_qwen_vl::ops::Precision;
use paravt_qwen_vl::testing::Reference;

#[test]
fn every_stage_equals_transformers() {
    Reference::record().compare(|| CandleOps::new(Device::Cpu, Precision::F32));
}
