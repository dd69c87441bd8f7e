//! Number for number what transformers computes, on small models of both families.

use paravt_backend_candle::{ComposedOps, CpuOps, Isa, set_isa};
use paravt_qwen_vl::ops::Precision;
use paravt_qwen_vl::testing::Reference;

#[test]
#[ignore = "needs Python: run by ci/test"]
fn every_stage_equals_transformers_under_every_isa() {
    let reference = Reference::record();
    // The detected one last: it is used from then on.
    let isas: Vec<Isa> = Isa::supported().collect();
    for isa in isas.into_iter().rev() {
        set_isa(isa).expect("supported");
        println!("instruction set {isa}");
        reference.compare(|| CpuOps::new(Precision::F32));
    }
    reference.compare_bf16(1.1, || CpuOps::new(Precision::Bf16));
    // What a GPU computes, with the scores of some queries at a time. In bf16 they are rounded before the softmax.
    let composed = |precision| ComposedOps::new(candle_core::Device::Cpu, precision).with_scores(1 << 12);
    reference.compare(move || composed(Precision::F32));
    reference.compare_bf16(1.2, || composed(Precision::Bf16));
}
