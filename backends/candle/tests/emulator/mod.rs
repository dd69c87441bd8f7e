//! Runs kernels on the CPU: their text is compiled by the C++ compiler of the machine, see `emulator.h`.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor};
use half::bf16;
use paravt_backend_candle::fused::{Arg, Fused, Launch, Launcher, MAX_POINTERS, Module};

/// A process per module.
#[derive(Default)]
pub(crate) struct Emulator {
    processes: Mutex<HashMap<Module, Child>>,
    /// Kernels so far.
    pub(crate) launches: AtomicUsize,
}

impl Emulator {
    pub(crate) fn start() -> (Arc<Self>, Fused) {
        let emulator = Arc::new(Self::default());
        (Arc::clone(&emulator), Fused::new(emulator))
    }
}

/// Compiles a module; out-of-bounds indices of arrays trap.
fn compile(module: Module) -> Child {
    let kernels = match module {
        Module::Rows => &["add_norm", "norm_rotate", "gated", "add_bias"][..],
        Module::Attention(_) => &["attention", "combine"],
        Module::Sampling => &["sample"],
    };
    let entries: Vec<String> = kernels.iter().map(|name| format!("{{\"{name}\", entry({name})}}")).collect();
    let source = format!(
        "#include \"emulator.h\"\n{}\nint main() {{ return serve({{{}}}); }}\n",
        module.text(),
        entries.join(", ")
    );
    let folder = tempfile::tempdir().unwrap();
    let (text, program) = (folder.path().join("kernels.cpp"), folder.path().join("kernels"));
    std::fs::write(&text, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator");
    let flags = "-std=c++17 -O3 -march=native -Wno-unknown-pragmas \
                 -fsanitize=bounds,shift -fsanitize-undefined-trap-on-error";
    let mut compiler = Command::new("c++");
    compiler.args(flags.split(' ')).arg("-I").arg(include).arg(&text).arg("-o").arg(&program);
    let made = compiler.output().expect("c++ runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

impl Drop for Emulator {
    fn drop(&mut self) {
        for process in self.processes.get_mut().unwrap().values_mut() {
            drop(process.stdin.take());
            process.wait().unwrap();
        }
    }
}

/// The values from a tensor's first to its last as the device has them.
fn bytes(tensor: &Tensor) -> Vec<u8> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(values) = &*storage else { panic!("not on the CPU") };
    let steps = layout.dims().iter().zip(layout.stride());
    let start = layout.start_offset();
    let range = start..start + 1 + steps.map(|(size, stride)| (size - 1) * stride).sum::<usize>();
    match values {
        CpuStorage::BF16(values) => values[range].iter().flat_map(|x| x.to_le_bytes()).collect(),
        CpuStorage::F32(values) => values[range].iter().flat_map(|x| x.to_le_bytes()).collect(),
        CpuStorage::F64(values) => values[range].iter().flat_map(|x| x.to_le_bytes()).collect(),
        CpuStorage::U32(values) => values[range].iter().flat_map(|x| x.to_le_bytes()).collect(),
        other => panic!("values of {:?}", other),
    }
}

/// Bytes that a kernel has written, as a tensor's values.
struct Written(Vec<u8>);

impl InplaceOp1 for Written {
    fn name(&self) -> &'static str {
        "written"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        assert!(layout.is_contiguous() && layout.start_offset() == 0);
        match storage {
            CpuStorage::BF16(values) => {
                let each = self.0.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]));
                values.iter_mut().zip(each).for_each(|(to, x)| *to = x);
            }
            CpuStorage::F32(values) => {
                let each = self.0.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                values.iter_mut().zip(each).for_each(|(to, x)| *to = x);
            }
            CpuStorage::U32(values) => {
                let each = self.0.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                values.iter_mut().zip(each).for_each(|(to, x)| *to = x);
            }
            other => panic!("values of {:?}", other),
        }
        Ok(())
    }
}

fn push_bytes(message: &mut Vec<u8>, tensor: &Tensor) {
    let bytes = bytes(tensor);
    message.extend((bytes.len() as u64).to_le_bytes());
    message.extend(bytes);
}

fn push_value(message: &mut Vec<u8>, value: &[u8]) {
    message.push(0);
    message.extend((value.len() as u32).to_le_bytes());
    message.extend(value);
}

fn message(launch: &Launch<'_>) -> Vec<u8> {
    let number = |x: usize| u32::try_from(x).unwrap().to_le_bytes();
    let mut message = number(launch.kernel.len()).to_vec();
    message.extend(launch.kernel.as_bytes());
    message.extend(launch.grid.into_iter().flat_map(number));
    message.extend(number(launch.threads));
    message.extend(number(launch.args.len()));
    for arg in launch.args {
        match arg {
            Arg::Int(x) => push_value(&mut message, &i32::try_from(*x).unwrap().to_le_bytes()),
            Arg::Float(x) => push_value(&mut message, &(*x as f32).to_le_bytes()),
            Arg::Null => push_value(&mut message, &0u64.to_le_bytes()),
            Arg::In(tensor) => {
                message.push(1);
                push_bytes(&mut message, tensor);
            }
            Arg::Out(tensor) => {
                message.push(2);
                push_bytes(&mut message, tensor);
            }
            Arg::List(tensors) => {
                message.push(3);
                message.extend(number(MAX_POINTERS));
                message.extend(number(tensors.len()));
                tensors.iter().for_each(|tensor| push_bytes(&mut message, tensor));
            }
        }
    }
    message
}

impl Launcher for Emulator {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.launches.fetch_add(1, Ordering::SeqCst);
        let mut processes = self.processes.lock().unwrap();
        let process = processes.entry(launch.module).or_insert_with(|| compile(launch.module));
        let input = process.stdin.as_mut().unwrap();
        input.write_all(&message(launch)).and_then(|()| input.flush()).expect("the kernel's process lives");
        for arg in launch.args {
            if let Arg::Out(tensor) = arg {
                let mut written = vec![0; bytes(tensor).len()];
                let read = process.stdout.as_mut().unwrap().read_exact(&mut written);
                read.unwrap_or_else(|error| panic!("{}: {error}", launch.kernel));
                tensor.inplace_op1(&Written(written))?;
            }
        }
        Ok(())
    }
}
