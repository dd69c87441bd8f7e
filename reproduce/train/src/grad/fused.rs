//! An operation of candle's tape whose gradients are ours: a kernel of inference, or what was computed beside the tape.

use std::sync::{Mutex, PoisonError};

use candle_core::backend::BackendStorage as _;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Storage, Tensor, bail,
};

use crate::storage::{host, values};

/// Gradients of the inputs; `None` of one that wants none.
pub(super) type Gradients<const N: usize, T> = [Option<T>; N];

type Kernel<const N: usize> = dyn Fn([&[f32]; N]) -> Vec<f32> + Send + Sync;
type Backward<const N: usize> = dyn Fn([&Tensor; N], &Tensor) -> Result<Gradients<N, Tensor>> + Send + Sync;

enum Forward<const N: usize> {
    /// Of f32 values on the CPU, to values of that shape.
    Kernel(Shape, Box<Kernel<N>>),
    /// The value, until the tape has it.
    Given(Mutex<Option<Tensor>>),
}

/// An operation on N contiguous tensors.
pub(super) struct Fused<const N: usize> {
    name: &'static str,
    forward: Forward<N>,
    backward: Box<Backward<N>>,
}

impl<const N: usize> Fused<N> {
    /// On f32 values on the CPU. `shape` is the output's; `backward` gets the inputs and the gradient of the output.
    pub(super) fn new(
        name: &'static str,
        shape: impl Into<Shape>,
        forward: impl Fn([&[f32]; N]) -> Vec<f32> + Send + Sync + 'static,
        backward: impl Fn([&[f32]; N], &[f32]) -> Gradients<N, Vec<f32>> + Send + Sync + 'static,
    ) -> Self {
        let backward = move |inputs: [&Tensor; N], grad: &Tensor| {
            let held = inputs.map(Tensor::storage_and_layout);
            let mut slices: [&[f32]; N] = [&[]; N];
            for (slice, (storage, layout)) in slices.iter_mut().zip(&held) {
                *slice = host(storage, layout)?;
            }
            let (storage, layout) = grad.storage_and_layout();
            let found = backward(slices, host(&storage, layout)?);
            let mut gradients = [const { None }; N];
            for ((gradient, values), input) in gradients.iter_mut().zip(found).zip(inputs) {
                *gradient = values
                    .map(|values| Tensor::from_vec(values, input.shape(), input.device()))
                    .transpose()?;
            }
            Ok(gradients)
        };
        let forward = Forward::Kernel(shape.into(), Box::new(forward));
        Self { name, forward, backward: Box::new(backward) }
    }

    /// Of a value that was computed beside the tape, on any device. `backward` gets the inputs and the gradient of the
    /// value.
    pub(super) fn given(
        name: &'static str,
        value: &Tensor,
        backward: impl Fn([&Tensor; N], &Tensor) -> Result<Gradients<N, Tensor>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let (value, whole) = (value.detach(), value.is_contiguous() && value.layout().start_offset() == 0);
        let value = if whole { value } else { value.force_contiguous()? };
        Ok(Self { name, forward: Forward::Given(Mutex::new(Some(value))), backward: Box::new(backward) })
    }

    fn cpu_fwd(&self, inputs: [(&CpuStorage, &Layout); N]) -> Result<(CpuStorage, Shape)> {
        let Forward::Kernel(shape, kernel) = &self.forward else {
            return self.taken(|storage, _| match storage {
                Storage::Cpu(storage) => Ok(storage.clone()),
                _ => bail!("{}: a value is not on the CPU", self.name),
            });
        };
        let mut slices: [&[f32]; N] = [&[]; N];
        for (slice, (storage, layout)) in slices.iter_mut().zip(inputs) {
            *slice = values(storage, layout)?;
        }
        Ok((CpuStorage::F32(kernel(slices)), shape.clone()))
    }

    fn cuda_fwd(&self) -> Result<(CudaStorage, Shape)> {
        self.taken(|storage, layout| match storage {
            Storage::Cuda(storage) => storage.try_clone(layout),
            _ => bail!("{}: a value is not on the GPU", self.name),
        })
    }

    /// A copy of the given value, which is dropped.
    fn taken<S>(&self, copy: impl FnOnce(&Storage, &Layout) -> Result<S>) -> Result<(S, Shape)> {
        let Forward::Given(value) = &self.forward else { bail!("{}: a kernel of the CPU", self.name) };
        let Some(value) = value.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            bail!("{}: a value was taken twice", self.name)
        };
        let (storage, layout) = value.storage_and_layout();
        Ok((copy(&storage, layout)?, value.shape().clone()))
    }

    fn bwd(&self, inputs: [&Tensor; N], grad: &Tensor) -> Result<Gradients<N, Tensor>> {
        (self.backward)(inputs, &grad.contiguous()?)
    }
}

impl Fused<1> {
    pub(super) fn of(self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()?.apply_op1(self)
    }
}

impl Fused<2> {
    pub(super) fn of(self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.contiguous()?.apply_op2(&y.contiguous()?, self)
    }
}

impl Fused<3> {
    pub(super) fn of(self, x: &Tensor, y: &Tensor, z: &Tensor) -> Result<Tensor> {
        x.contiguous()?.apply_op3(&y.contiguous()?, &z.contiguous()?, self)
    }
}

/// One of candle's traits, which differ in how many inputs their methods take.
macro_rules! operation {
    ($operation:ident for $fused:ty: $($input:ident $layout:ident),+ -> $gradients:ty) => {
        impl $operation for $fused {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(&self, $($input: &CpuStorage, $layout: &Layout),+) -> Result<(CpuStorage, Shape)> {
                self.cpu_fwd([$(($input, $layout)),+])
            }

            fn cuda_fwd(&self, $($input: &CudaStorage, $layout: &Layout),+) -> Result<(CudaStorage, Shape)> {
                let _ = [$(($input, $layout)),+];
                self.cuda_fwd()
            }

            fn bwd(&self, $($input: &Tensor,)+ _: &Tensor, grad: &Tensor) -> Result<$gradients> {
                let [$($input),+] = self.bwd([$($input),+], grad)?;
                Ok(($($input),+))
            }
        }
    };
}

operation!(CustomOp1 for Fused<1>: x x_layout -> Option<Tensor>);
operation!(CustomOp2 for Fused<2>: x x_layout, y y_layout -> (Option<Tensor>, Option<Tensor>));
operation!(
    CustomOp3 for Fused<3>: x x_layout, y y_layout, z z_layout -> (Option<Tensor>, Option<Tensor>, Option<Tensor>)
);
