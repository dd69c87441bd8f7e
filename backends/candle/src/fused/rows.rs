//! Launches of `rows.cu`.

use candle_core::{Result, Tensor};

use super::{Arg, Fused, Launch, Module, aligned_rows, room, stride};

/// Threads of a block, but of one that has a row.
const THREADS: usize = 256;

impl Fused {
    fn rows(&self, kernel: &'static str, blocks: usize, args: &[Arg<'_>]) -> Result<()> {
        self.0.launch(&Launch { module: Module::Rows, kernel, grid: [blocks, 1, 1], threads: THREADS, args })
    }

    /// x + y (n, width) and its RMS norm.
    ///
    /// # Errors
    /// Shapes that differ, a width that eight does not divide, the launch.
    pub fn add_norm(&self, x: &Tensor, y: &Tensor, weight: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
        let (n, width) = x.dims2()?;
        if y.dims() != x.dims() || weight.dims() != [width] {
            candle_core::bail!("add_norm: {:?}, {:?}, weight {:?}", x.dims(), y.dims(), weight.dims());
        }
        let (x, y) = (aligned_rows(&x.contiguous()?)?, aligned_rows(&y.contiguous()?)?);
        let (sum, normed) =
            (room((n, width), x.dtype(), x.device())?, room((n, width), x.dtype(), x.device())?);
        let weight = aligned_rows(&weight.unsqueeze(0)?)?;
        let tensors = [Arg::In(&x), Arg::In(&y), Arg::In(&weight), Arg::Out(&sum), Arg::Out(&normed)];
        let args: Vec<_> = tensors.into_iter().chain([Arg::Int(width), Arg::Float(eps)]).collect();
        self.rows("add_norm", n, &args)?;
        Ok((sum, normed))
    }

    /// Heads x (n, heads, dim), normed where there are a weight and an epsilon, turned by cosines and sines (n, dim / 2).
    ///
    /// # Errors
    /// Shapes that do not belong together, the launch.
    pub fn norm_rotate(
        &self,
        x: &Tensor,
        norm: Option<(&Tensor, f64)>,
        cos: &Tensor,
        sin: &Tensor,
    ) -> Result<Tensor> {
        let (n, heads, dim) = x.dims3()?;
        if [cos.dims(), sin.dims()] != [[n, dim / 2]; 2] || norm.is_some_and(|norm| norm.0.dims() != [dim]) {
            candle_core::bail!("norm_rotate: {:?} with tables {:?}, {:?}", x.dims(), cos.dims(), sin.dims());
        }
        let x = aligned_rows(x)?;
        let out = room((n, heads, dim), x.dtype(), x.device())?;
        let args = [
            Arg::In(&x),
            norm.map_or(Arg::Null, |norm| Arg::In(norm.0)),
            Arg::In(cos),
            Arg::In(sin),
            Arg::Out(&out),
            Arg::Int(n * heads),
            Arg::Int(heads),
            Arg::Int(dim),
            stride(&x),
            Arg::Int(usize::from(norm.is_some())),
            Arg::Float(norm.map_or(0.0, |norm| norm.1)),
        ];
        self.rows("norm_rotate", (n * heads).div_ceil(THREADS / 32), &args)?;
        Ok(out)
    }

    /// silu(gate) * up, both (n, width).
    ///
    /// # Errors
    /// Shapes that differ, a width that eight does not divide, the launch.
    pub fn gated(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        let (n, width) = gate.dims2()?;
        if up.dims() != gate.dims() {
            candle_core::bail!("gated: {:?} and {:?}", gate.dims(), up.dims());
        }
        let (gate, up) = (aligned_rows(gate)?, aligned_rows(up)?);
        let out = room((n, width), gate.dtype(), gate.device())?;
        let args = [Arg::In(&gate), Arg::In(&up), Arg::Out(&out), Arg::Int(n), Arg::Int(width)];
        let args: Vec<_> = args.into_iter().chain([stride(&gate), stride(&up)]).collect();
        self.rows("gated", (n * width / 8).div_ceil(THREADS), &args)?;
        Ok(out)
    }

    /// x (n, width) with a bias added to each row.
    ///
    /// # Errors
    /// Shapes that do not belong together, a width that eight does not divide, the launch.
    pub fn add_bias(&self, x: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let (n, width) = x.dims2()?;
        if bias.dims() != [width] {
            candle_core::bail!("add_bias: {:?} and {:?}", x.dims(), bias.dims());
        }
        let (x, bias) = (aligned_rows(x)?, aligned_rows(&bias.unsqueeze(0)?)?);
        let out = room((n, width), x.dtype(), x.device())?;
        let args = [Arg::In(&x), Arg::In(&bias), Arg::Out(&out), Arg::Int(n), Arg::Int(width), stride(&x)];
        self.rows("add_bias", (n * width / 8).div_ceil(THREADS), &args)?;
        Ok(out)
    }
}
