//! A kernel of inference and its gradient as one operation of candle's tape.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use crate::storage::{host, values};

/// Gradients of the inputs; `None` of one that wants none.
type Gradients<const N: usize> = [Option<Vec<f32>>; N];

type Forward<const N: usize> = dyn Fn([&[f32]; N]) -> Vec<f32> + Send + Sync;
type Backward<const N: usize> = dyn Fn([&[f32]; N], &[f32]) -> Gradients<N> + Send + Sync;

/// An operation on the f32 values of N contiguous tensors on the CPU.
pub(super) struct Fused<const N: usize> {
    name: &'static str,
    shape: Shape,
    forward: Box<Forward<N>>,
    backward: Box<Backward<N>>,
}

impl<const N: usize> Fused<N> {
    /// `shape` is the output's; `backward` gets the inputs and the gradient of the output.
    pub(super) fn new(
        name: &'static str,
        shape: impl Into<Shape>,
        forward: impl Fn([&[f32]; N]) -> Vec<f32> + Send + Sync + 'static,
        backward: impl Fn([&[f32]; N], &[f32]) -> Gradients<N> + Send + Sync + 'static,
    ) -> Self {
        Self { name, shape: shape.into(), forward: Box::new(forward), backward: Box::new(backward) }
    }

    fn cpu_fwd(&self, inputs: [(&CpuStorage, &Layout); N]) -> Result<(CpuStorage, Shape)> {
        let mut slices: [&[f32]; N] = [&[]; N];
        for (slice, (storage, layout)) in slices.iter_mut().zip(inputs) {
            *slice = values(storage, layout)?;
        }
        Ok((CpuStorage::F32((self.forward)(slices)), self.shape.clone()))
    }

    fn bwd(&self, inputs: [&Tensor; N], grad: &Tensor) -> Result<[Option<Tensor>; N]> {
        let grad = grad.contiguous()?;
        let held = inputs.map(Tensor::storage_and_layout);
        let mut slices: [&[f32]; N] = [&[]; N];
        for (slice, (storage, layout)) in slices.iter_mut().zip(&held) {
            *slice = host(storage, layout)?;
        }
        let (storage, layout) = grad.storage_and_layout();
        let found = (self.backward)(slices, host(&storage, layout)?);
        let mut gradients = [const { None }; N];
        for ((gradient, values), input) in gradients.iter_mut().zip(found).zip(inputs) {
            *gradient =
                values.map(|values| Tensor::from_vec(values, input.shape(), input.device())).transpose()?;
        }
        Ok(gradients)
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

impl CustomOp1 for Fused<1> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, x: &CpuStorage, lx: &Layout) -> Result<(CpuStorage, Shape)> {
        self.cpu_fwd([(x, lx)])
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let [to_x] = self.bwd([x], grad)?;
        Ok(to_x)
    }
}

impl CustomOp2 for Fused<2> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        y: &CpuStorage,
        ly: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.cpu_fwd([(x, lx), (y, ly)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok(self.bwd([x, y], grad)?.into())
    }
}

impl CustomOp3 for Fused<3> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        y: &CpuStorage,
        ly: &Layout,
        z: &CpuStorage,
        lz: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.cpu_fwd([(x, lx), (y, ly), (z, lz)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        z: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok(self.bwd([x, y, z], grad)?.into())
    }
}
