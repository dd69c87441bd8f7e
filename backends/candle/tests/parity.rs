//! Number for number what transformers computes, on small models of both families.

use paravt_backend_candle::{CpuOps, Isa, set_isa};
use paravt_qwen_vl::ops::Precision;
use paravt_qwen_vl::testing::Reference;

#[test]
#[ignore = "needs Python: run by ci/test"]
fn every_stage_equals_transformers_under_every_isa() {
    let reference = Reference::record(env!("CARGO_TARGET_TMPDIR"));
    // The detected one last: it is used from then on.
    let isas: Vec<Isa> = Isa::supported().collect();
    for isa in isas.into_iter().rev() {
        set_isa(isa).expect("supported");
        println!("instruction set {isa}");
        reference.compare_arithmetic(|| CpuOps::new(Precision::F32));
    }
    reference.compare_orders(|| CpuOps::new(Precision::F32));
    reference.compare_bf16(1.1, || CpuOps::new(Precision::Bf16));
}
