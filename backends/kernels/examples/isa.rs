//! The instruction sets that the kernels can use here, best first: cargo run -p paravt-kernels --example isa

fn main() {
    for isa in paravt_kernels::Isa::supported() {
        println!("{isa}");
    }
}
