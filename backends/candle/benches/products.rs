//! Products, their gradients and attention beside the `gemm` crate, candle's own operations, and torch (MKL, oneDNN):
//! cargo bench -p paravt-backend-candle --bench products
//!
//! All on one thread, by time on the CPU, in turns: another process on the machine distorts that little. A column is
//! the median over rounds of a library's time over ours in the same round; over 1.0 ours is faster. `blocks` is our
//! kernels without AVX-512: products by the micro-kernels of the `gemm` crate, block by block. `gemm` is that crate over
//! whole matrices, by the best instruction set it finds. `candle` is the product of two of its tensors, and its flash
//! attention of packed sequences. Of `bf16` the weight is bf16, of `pairs` both sides. Without PARAVT_PYTHON, torch is left out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use candle_core::{DType, Device, Tensor};
use candle_nn::attention::flash_attn_varlen_cpu;
use half::bf16;
use paravt_kernels::{
    GEMV_MAX_M, Heads, Isa, SeqLens, Strided, Weight, attention, backward, gemm_bf16, linear, set_isa,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const ROUNDS: usize = 15;

/// One operation and its sizes: x (m, k) by the transpose of w (n, k), or attention of m tokens, n heads of width k.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    kind: &'static str,
    m: usize,
    k: usize,
    n: usize,
}

const fn case(name: &'static str, kind: &'static str, [m, k, n]: [usize; 3]) -> Case {
    Case { name, kind, m, k, n }
}

/// Shapes of Qwen3-VL-2B (text 2048 x 6144, vision 1152 x 4304) and of the miniature that is trained (192 x 512).
const CASES: [Case; 15] = [
    case("prefill, attention output", "bf16", [640, 2048, 2048]),
    case("prefill, MLP up", "bf16", [640, 2048, 6144]),
    case("prefill, MLP down", "bf16", [640, 6144, 2048]),
    case("prefill of 40 rows, MLP up", "bf16", [40, 2048, 6144]),
    case("vision, MLP", "bf16", [1024, 1152, 4304]),
    case("prefill, MLP up", "pairs", [640, 2048, 6144]),
    case("prefill, MLP down", "pairs", [640, 6144, 2048]),
    case("prefill, MLP up", "f32", [640, 2048, 6144]),
    case("decode of 1, MLP up", "bf16", [1, 2048, 6144]),
    case("decode of 8, MLP up", "bf16", [8, 2048, 6144]),
    case("decode of 1, MLP up", "f32", [1, 2048, 6144]),
    case("training, forward", "f32", [2048, 192, 512]),
    case("training, gradients", "grad", [2048, 192, 512]),
    case("vision attention", "attention", [256, 72, 16]),
    case("causal attention", "attention", [2048, 128, 4]),
];

/// Seconds that the calling thread has run.
#[expect(unsafe_code, reason = "the standard library has no clock of a thread")]
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(code, 0, "Unix has this clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn seconds(mut run: impl FnMut()) -> f64 {
    let start = cpu_time();
    run();
    cpu_time() - start
}

/// torch in a process of its own, one operation at a time.
struct Torch {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Torch {
    fn start() -> Option<Self> {
        let python = std::env::var_os("PARAVT_PYTHON")?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/products.py");
        let mut command = Command::new(python);
        let command = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("PARAVT_PYTHON runs");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Some(Self { child, input, output })
    }

    fn seconds(&mut self, case: Case) -> f64 {
        let Case { kind, m, k, n, .. } = case;
        writeln!(self.input, "{kind} {m} {k} {n}").expect("torch reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("torch answers");
        line.trim().parse().expect("seconds")
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Inputs of one case, as each library takes them.
struct Inputs {
    case: Case,
    x: Vec<f32>,
    w: Vec<f32>,
    narrow: [Vec<bf16>; 2],
    grad: Vec<f32>,
    /// The same as candle's tensors: x, w (both bf16 of a case of pairs, w alone of one of bf16) and the gradient, or q, k and v.
    tensors: [Tensor; 3],
}

impl Inputs {
    fn new(case: Case) -> Self {
        let Case { kind, m, k, n, .. } = case;
        let mut rng = StdRng::seed_from_u64(1);
        let mut random = |count| -> Vec<f32> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let (x, w, grad) = if kind == "attention" {
            (random(m * k * n), random(m * k * n), random(m * k * n))
        } else {
            (random(m * k), random(n * k), random(m * n))
        };
        let narrow = [&x, &w].map(|side| side.iter().map(|&value| bf16::from_f32(value)).collect());
        let shapes: [Vec<usize>; 3] = if kind == "attention" {
            std::array::from_fn(|_| vec![m, n, k])
        } else {
            [vec![m, k], vec![n, k], vec![m, n]]
        };
        let tensor = |values: &[f32], shape: &[usize]| Tensor::from_slice(values, shape, &Device::Cpu);
        let mut tensors = [(&x, &shapes[0]), (&w, &shapes[1]), (&grad, &shapes[2])]
            .map(|(values, shape)| tensor(values, shape).expect("as many values as the shape says"));
        let narrowed: &[usize] = match kind {
            "bf16" => &[1],
            "pairs" => &[0, 1],
            _ => &[],
        };
        for &side in narrowed {
            tensors[side] = tensors[side].to_dtype(DType::BF16).expect("a type that candle has");
        }
        Self { case, x, w, narrow, grad, tensors }
    }

    /// candle's own operations on the same values.
    fn candle(&self) -> candle_core::Result<()> {
        let Case { kind, m, k, .. } = self.case;
        let [x, w, grad] = &self.tensors;
        match kind {
            "bf16" | "pairs" => drop(x.to_dtype(DType::F32)?.matmul(&w.to_dtype(DType::F32)?.t()?)?),
            "f32" => drop(x.matmul(&w.t()?)?),
            "grad" => drop((grad.matmul(w)?, grad.t()?.matmul(x)?)),
            _ => {
                let lens = Tensor::new(&[m as u32], &Device::Cpu)?;
                let scale = (k as f32).powf(-0.5);
                drop(flash_attn_varlen_cpu(x, w, grad, None, &lens, &lens, m, m, scale, true, None, None)?);
            }
        }
        Ok(())
    }

    /// Our kernels under the instruction set in use.
    fn ours(&self) {
        let Case { kind, m, k, n, .. } = self.case;
        match kind {
            "bf16" => drop(linear(&self.x, Weight::Bf16(&self.narrow[1]), k, n, GEMV_MAX_M)),
            "pairs" => {
                let [x, w] = &self.narrow;
                let wide = || x.iter().map(|value| value.to_f32()).collect::<Vec<_>>();
                let widened = || linear(&wide(), Weight::Bf16(w), k, n, GEMV_MAX_M);
                drop(gemm_bf16(x, w, k, n).unwrap_or_else(widened));
            }
            "f32" => drop(linear(&self.x, Weight::F32(&self.w), k, n, GEMV_MAX_M)),
            "grad" => drop(backward::linear(&self.x, &self.w, &self.grad, (n, k), true)),
            _ => {
                let rows = |values| Strided { values, row_stride: n * k };
                let seqs = [SeqLens { queries: m, keys: m }];
                let heads = Heads { query: n, kv: n, dim: k };
                drop(attention([rows(&self.x), rows(&self.w), rows(&self.grad)], heads, &seqs, true));
            }
        }
    }

    /// A product by the `gemm` crate over whole matrices. A bf16 weight is widened first.
    fn whole(&self) {
        let Case { kind, m, k, n, .. } = self.case;
        let row_major = |stride: usize| [1, stride as isize];
        let turned = |stride: usize| [stride as isize, 1];
        match kind {
            "bf16" | "pairs" => {
                let wide: Vec<f32> = self.narrow[1].iter().map(|value| value.to_f32()).collect();
                drop(whole([m, k, n], (&self.x, row_major(k)), (&wide, turned(k))));
            }
            "f32" => drop(whole([m, k, n], (&self.x, row_major(k)), (&self.w, turned(k)))),
            _ => {
                drop(whole([m, n, k], (&self.grad, row_major(n)), (&self.w, row_major(k))));
                drop(whole([n, m, k], (&self.grad, turned(n)), (&self.x, row_major(k))));
            }
        }
    }
}

/// A (m, k) by B (k, n) by the `gemm` crate; each side with its column and row stride.
#[expect(unsafe_code, reason = "the crate's only function")]
fn whole([m, k, n]: [usize; 3], a: (&[f32], [isize; 2]), b: (&[f32], [isize; 2])) -> Vec<f32> {
    assert!(a.0.len() == m * k && b.0.len() == k * n);
    let mut c = vec![0.0f32; m * n];
    let (a, [a_col, a_row], b, [b_col, b_row]) = (a.0.as_ptr(), a.1, b.0.as_ptr(), b.1);
    // SAFETY: the sides hold as many values as their sizes say (asserted), and so does C.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a,
            a_col,
            a_row,
            b,
            b_col,
            b_row,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
    c
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // The calling thread becomes the only one of a pool.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    let _pool = pool.expect("no other pool yet");
    let best = Isa::supported().next().unwrap_or(Isa::Baseline);
    let mut torch = Torch::start();
    println!("{best}; a library's CPU time over ours, one thread, median of {ROUNDS} rounds\n");
    println!(
        "{:<28}{:<10}{:>18}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "weights", "m, k, n", "ms", "blocks", "gemm", "candle", "torch"
    );
    for case in CASES {
        let inputs = Inputs::new(case);
        let mut times = [const { Vec::new() }; 5];
        for round in 0..=ROUNDS {
            set_isa(best).expect("supported");
            let ours = seconds(|| inputs.ours());
            // Every set but AVX-512 computes products by the micro-kernels of the `gemm` crate.
            set_isa(if matches!(best, Isa::Avx512Bf16 | Isa::Avx512) { Isa::Avx2 } else { best })
                .expect("supported");
            let others = [
                ours,
                seconds(|| inputs.ours()) / ours,
                if case.kind == "attention" { f64::NAN } else { seconds(|| inputs.whole()) / ours },
                seconds(|| inputs.candle().expect("shapes that fit")) / ours,
                torch.as_mut().map_or(f64::NAN, |torch| torch.seconds(case)) / ours,
            ];
            // The first round warms caches and buffers up.
            if round > 0 {
                times.iter_mut().zip(others).for_each(|(times, other)| times.push(other));
            }
        }
        let [ours, blocks, gemm, candle, torch] = times.map(median);
        let Case { name, kind, m, k, n } = case;
        let size = format!("{m}, {k}, {n}");
        print!("{name:<28}{kind:<10}{size:>18}{:>10.2}", ours * 1e3);
        println!("{blocks:>10.2}{gemm:>10.2}{candle:>10.2}{torch:>10.2}");
    }
}
