//! Kernels on a GPU: compiled by NVRTC when a machine first needs them, 0.1 to 0.4 seconds each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::{CudaDType, WrapErr as _};
use candle_core::{CudaDevice, DType, Error, Result, Storage, Tensor, WithDType};
use cudarc::driver::{CudaModule, CudaSlice, DevicePtr as _, LaunchConfig, PushKernelArg as _};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts, sys};
use half::bf16;

use super::{Arg, KernelCache, Launch, Launcher, MAX_POINTERS, Module, Source};

/// The kernels on one GPU.
pub(crate) struct CudaLauncher {
    device: CudaDevice,
    modules: Mutex<HashMap<Module, Arc<CudaModule>>>,
    cache: KernelCache,
}

/// An argument as a kernel has it.
#[expect(clippy::large_enum_variant, reason = "a launch has a few, for as long as the call takes")]
enum Value {
    Pointer(u64),
    Pointers([u64; MAX_POINTERS]),
    Int(i32),
    Float(f32),
}

impl CudaLauncher {
    /// For tensors of a device; nothing is compiled yet.
    pub(crate) fn new(device: CudaDevice) -> Self {
        Self { device, modules: Mutex::default(), cache: KernelCache::of_user() }
    }

    fn module(&self, module: Module) -> Result<Arc<CudaModule>> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = modules.get(&module) {
            return Ok(Arc::clone(compiled));
        }
        let context = self.device.cuda_stream().context().clone();
        let (text, options) =
            (Module::PTX.to_owned() + &module.text(), Module::options(context.compute_capability().w()?));
        let source = Source { text: &text, options: &options, compiler: nvrtc_version()? };
        let compile = || {
            let options = CompileOptions { options: options.clone(), ..CompileOptions::default() };
            let compiled = compile_ptx_with_opts(&text, options);
            compiled
                .map(|compiled| compiled.to_src())
                .map_err(|error| Error::msg(format!("NVRTC, {module:?}: {error:?}")))
        };
        let ptx = Ptx::from_src(self.cache.get(source, compile)?);
        let compiled = context.load_module(ptx).w()?;
        modules.insert(module, Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Address of a tensor's first value.
    fn pointer(&self, tensor: &Tensor) -> Result<u64> {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            candle_core::bail!("a kernel got a tensor that is not on the GPU")
        };
        let start = match tensor.dtype() {
            DType::BF16 => self.address(storage.as_cuda_slice::<bf16>()?),
            DType::F32 => self.address(storage.as_cuda_slice::<f32>()?),
            DType::F64 => self.address(storage.as_cuda_slice::<f64>()?),
            DType::U32 => self.address(storage.as_cuda_slice::<u32>()?),
            dtype => candle_core::bail!("a kernel got a tensor of {dtype:?}"),
        };
        Ok(start + (layout.start_offset() * tensor.dtype().size_in_bytes()) as u64)
    }

    /// It stays valid: the device has one stream and no events, and memory is freed in the order of that stream.
    fn address<T: CudaDType + WithDType>(&self, slice: &CudaSlice<T>) -> u64 {
        slice.device_ptr(&self.device.cuda_stream()).0
    }

    fn value(&self, arg: &Arg<'_>) -> Result<Value> {
        Ok(match arg {
            Arg::In(tensor) | Arg::Out(tensor) => Value::Pointer(self.pointer(tensor)?),
            Arg::Null => Value::Pointer(0),
            Arg::List(tensors) => {
                let mut pointers = [0; MAX_POINTERS];
                for (pointer, tensor) in pointers.iter_mut().zip(*tensors) {
                    *pointer = self.pointer(tensor)?;
                }
                Value::Pointers(pointers)
            }
            Arg::Int(number) => Value::Int(i32::try_from(*number).map_err(Error::wrap)?),
            Arg::Float(number) => Value::Float(*number as f32),
        })
    }
}

/// Of the library that is loaded.
#[expect(unsafe_code, reason = "a function of NVRTC")]
fn nvrtc_version() -> Result<(i32, i32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: it writes two integers.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }
        .result()
        .map_err(|error| Error::msg(format!("NVRTC: {error:?}")))?;
    Ok((major, minor))
}

impl Launcher for CudaLauncher {
    #[expect(unsafe_code, reason = "a kernel does what its text says")]
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let function = self.module(launch.module)?.load_function(launch.kernel).w()?;
        let values = launch.args.iter().map(|arg| self.value(arg)).collect::<Result<Vec<_>>>()?;
        let stream = self.device.cuda_stream();
        let mut call = stream.launch_builder(&function);
        for value in &values {
            match value {
                Value::Pointer(pointer) => call.arg(pointer),
                Value::Pointers(pointers) => call.arg(pointers),
                Value::Int(number) => call.arg(number),
                Value::Float(number) => call.arg(number),
            };
        }
        let [x, y, z] = launch.grid.map(|blocks| u32::try_from(blocks).map_err(Error::wrap));
        let threads = u32::try_from(launch.threads).map_err(Error::wrap)?;
        let config = LaunchConfig { grid_dim: (x?, y?, z?), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the launches beside the kernels' texts give them the arguments that they take, in number, order and size,
        // and tensors as large as they reach: the tests run the same launches where a wrong one is seen.
        unsafe { call.launch(config) }.w()?;
        Ok(())
    }
}
