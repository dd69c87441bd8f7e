//! The models' arithmetic on libtorch tensors.

use std::cell::RefCell;

use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{self, Activation, KvSource, Linear, Ops, PassLimits, Precision, Segment};
use paravt_qwen_vl::weights::{Dtype, TensorView};
use tch::{Device, Kind, TchError, Tensor};

/// Of passes on a GPU: enough rows for its matrix units. The fused kernels hold no scores.
pub(crate) const LIMITS: PassLimits = PassLimits { tokens: 8192, patches: 8192, scores: 0 };

/// libtorch on one device.
pub struct TorchOps {
    device: Device,
    kind: Kind,
    /// On the CPU in f32: room for a part of a matrix that is stored in 16 bits, grown to the largest one met and
    /// kept.
    room: Option<RefCell<Tensor>>,
    /// Nothing is differentiated while this lives.
    _no_grad: tch::NoGradGuard,
}

/// A tensor that is cheap to hand on: the handle is copied, not the values.
pub struct Handle(Tensor);

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self(self.0.shallow_clone())
    }
}

type Result<T> = std::result::Result<T, Error>;
type TchResult = std::result::Result<Tensor, TchError>;

/// Rows up to which a product is bound by reading the matrix.
const FEW: i64 = 16;
/// Elements of a matrix that are widened at once for few rows: they stay in the caches until they are used.
const PART: i64 = 1 << 20;
/// And for many rows, where only memory counts: 256 MiB.
const LARGE_PART: i64 = 1 << 26;

/// x (n, k) by a matrix (out, k) on the CPU in f32. A matrix that is stored in 16 bits is widened part by part.
fn product(room: &RefCell<Tensor>, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> TchResult {
    let ((n, k), out) = (x.size2()?, w.size()[0]);
    let times = if n <= FEW { by_few } else { by_many };
    let product = if w.kind() == Kind::Float {
        times(x, w)?
    } else {
        let part = if n <= FEW { PART } else { LARGE_PART };
        let rows = (part / k).clamp(1, out);
        let mut room = room.borrow_mut();
        if room.size()[0] < rows * k {
            // The smaller buffer is freed before the larger one is allocated.
            *room = Tensor::f_empty([0], (Kind::Float, Device::Cpu))?;
            *room = Tensor::f_empty([rows * k], (Kind::Float, Device::Cpu))?;
        }
        let mut parts = Vec::new();
        for start in (0..out).step_by(rows as usize) {
            let count = rows.min(out - start);
            let mut wide = room.f_narrow(0, 0, count * k)?.f_view([count, k])?;
            wide.f_copy_(&w.f_narrow(0, start, count)?)?;
            parts.push(times(x, &wide)?);
        }
        if parts.len() == 1 { parts.remove(0) } else { Tensor::f_cat(&parts, 1)? }
    };
    match bias {
        Some(bias) => { product }.f_add_(bias),
        None => Ok(product),
    }
}

/// One row by a matrix is a matrix by a vector: libtorch has a kernel that is better at it.
fn by_few(x: &Tensor, w: &Tensor) -> TchResult {
    if x.size()[0] == 1 {
        w.f_mv(&x.f_squeeze_dim(0)?)?.f_unsqueeze(0)
    } else {
        x.f_linear(w, None::<Tensor>)
    }
}

/// libtorch leaves a product to MKL and a convolution of one pixel, which is the same, to oneDNN, whose kernels
/// are faster.
fn by_many(x: &Tensor, w: &Tensor) -> TchResult {
    if !tch::utils::has_mkldnn() {
        return x.f_linear(w, None::<Tensor>);
    }
    let ((n, k), out) = (x.size2()?, w.size()[0]);
    let (x, w) = (x.f_reshape([1, n, 1, k])?.f_permute([0, 3, 1, 2])?, w.f_reshape([out, k, 1, 1])?);
    let product = x.f_mkldnn_convolution(&w, None::<Tensor>, [0, 0], [1, 1], [1, 1], 1)?;
    product.f_permute([0, 2, 3, 1])?.f_reshape([n, out])
}

/// Attention of q (1, heads, queries, dim) to k and v (1, key heads, keys, dim): (1, heads, queries, dim). With a causal mask
/// the last query sees all keys.
///
/// libtorch's own causal mask counts from the first key, and its fused kernels take no other. Queries after a past therefore
/// attend to it and to their own keys apart.
fn attend([q, k, v]: [&Tensor; 3], causal: bool) -> TchResult {
    let (queries, keys) = (q.size()[2], k.size()[2]);
    let is_causal = causal && queries > 1;
    if !is_causal || queries == keys {
        let shared = q.size()[1] != k.size()[1];
        return Tensor::f_scaled_dot_product_attention(q, k, v, None::<Tensor>, 0.0, is_causal, None, shared);
    }
    let past = keys - queries;
    let part = |start, length, is_causal| {
        attend_with_sums([q, &k.f_narrow(2, start, length)?, &v.f_narrow(2, start, length)?], is_causal)
    };
    let ((before, before_sum), (own, own_sum)) = (part(0, past, false)?, part(past, queries, true)?);
    // Each part is divided by its own sum of e to the scores, whose logarithm is known.
    let share = before_sum.f_sub(&own_sum)?.f_sigmoid()?.f_unsqueeze(3)?;
    own.f_to_kind(Kind::Float)?.f_lerp_tensor(&before.f_to_kind(Kind::Float)?, &share)?.f_to_kind(q.kind())
}

/// As [`attend`] by libtorch's own causal mask, with the logarithm of the sum of e to the scores of each query
/// (1, heads, queries) in f32.
fn attend_with_sums(
    [q, k, v]: [&Tensor; 3],
    is_causal: bool,
) -> std::result::Result<(Tensor, Tensor), TchError> {
    if q.device() == Device::Cpu {
        return Tensor::f_internal_scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, is_causal, None::<Tensor>, None,
        );
    }
    // Its heads do not share keys: each key head is a sequence of its own, seen by the heads of a group.
    let (size, key_heads) = (q.size(), k.size()[1]);
    let group = size[1] / key_heads;
    let grouped = q.f_view([key_heads, group, size[2], size[3]])?;
    let shared = |x: &Tensor| x.f_transpose(0, 1)?.f_expand([-1, group, -1, -1], false);
    let (output, sums, _, _) = Tensor::f_internal_scaled_dot_product_efficient_attention(
        &grouped,
        &shared(k)?,
        &shared(v)?,
        None::<Tensor>,
        true,
        0.0,
        is_causal,
        None,
    )?;
    // Padded to whole tiles.
    let sums = sums.f_narrow(2, 0, size[2])?.f_reshape([1, size[1], size[2]])?;
    Ok((output.f_reshape(size)?, sums))
}

/// libtorch's own error texts name shapes and types; what follows is a C++ stack.
fn fail(error: TchError) -> Error {
    let text = error.to_string();
    let first = text.split("Exception raised from").next().unwrap_or_default();
    Error::compute(format!("libtorch: {}", first.trim()))
}

fn wrap(result: std::result::Result<Tensor, TchError>) -> Result<Handle> {
    result.map(Handle).map_err(fail)
}

/// A tensor that may be written over while `other` is read: a copy where both are the same elements. libtorch itself
/// refuses those that overlap in part.
fn apart(x: Handle, other: &Handle) -> Result<Handle> {
    if !x.0.f_is_set_to(&other.0).map_err(fail)? {
        return Ok(x);
    }
    let mut copy = x.0.f_zeros_like().map_err(fail)?;
    copy.f_copy_(&x.0).map_err(fail)?;
    Ok(Handle(copy))
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

impl TorchOps {
    /// Arithmetic in a precision on a device; to be made on the thread that uses it.
    pub fn new(device: ops::Device, precision: Precision) -> Self {
        let device = match device {
            ops::Device::Cpu => Device::Cpu,
            ops::Device::Cuda(ordinal) => Device::Cuda(ordinal),
        };
        let kind = match precision {
            Precision::F32 => Kind::Float,
            Precision::Bf16 => Kind::BFloat16,
            Precision::F16 => Kind::Half,
        };
        let widens = device == Device::Cpu && kind == Kind::Float;
        let room = widens.then(|| RefCell::new(Tensor::empty([0], (Kind::Float, device))));
        Self { device, kind, room, _no_grad: tch::no_grad_guard() }
    }

    fn ids(&self, ids: &[u32]) -> Result<Tensor> {
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        Tensor::f_from_slice(&ids).and_then(|ids| ids.f_to(self.device)).map_err(fail)
    }
}

impl Ops for TorchOps {
    type Tensor = Handle;
    /// The segments, and whether a causal mask hides keys.
    type Plan = (Vec<Segment>, bool);
    /// Cosines, sines and their negatives (n, 1, dim / 2).
    type Rotary = [Handle; 3];

    fn weight(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Handle> {
        let kind = match view.dtype {
            Dtype::BF16 => Kind::BFloat16,
            Dtype::F16 => Kind::Half,
            _ => Kind::Float,
        };
        let tensor = Tensor::f_from_data_size(view.data, &sizes(shape), kind).map_err(fail)?;
        let tensor = tensor.f_to_device(self.device).map_err(fail)?;
        // Matrices stay as published where they are widened part by part: half the memory, and half the time
        // to read them for one token.
        let stays = self.room.is_some() && shape.len() > 1;
        if stays { Ok(Handle(tensor)) } else { wrap(tensor.f_to_kind(self.kind)) }
    }

    fn upload(&self, values: Vec<f32>, shape: &[usize]) -> Result<Handle> {
        let tensor = Tensor::f_from_slice(&values).and_then(|tensor| tensor.f_reshape(sizes(shape)));
        wrap(tensor.and_then(|tensor| tensor.f_to(self.device)?.f_to_kind(self.kind)))
    }

    fn download(&self, x: &Handle) -> Result<Vec<f32>> {
        let flat =
            x.0.f_to_kind(Kind::Float).and_then(|x| x.f_to(Device::Cpu)).and_then(|x| x.f_flatten(0, -1));
        flat.and_then(Vec::<f32>::try_from).map_err(fail)
    }

    fn shape(&self, x: &Handle) -> Vec<usize> {
        x.0.size().into_iter().map(|size| size as usize).collect()
    }

    fn gather(&self, table: &Handle, ids: &[u32]) -> Result<Handle> {
        wrap(table.0.f_index_select(0, &self.ids(ids)?).and_then(|rows| rows.f_to_kind(self.kind)))
    }

    fn linear(&self, x: &Handle, linear: &Linear<Handle>) -> Result<Handle> {
        let bias = linear.bias.as_ref().map(|bias| &bias.0);
        if let Some(room) = &self.room {
            return wrap(product(room, &x.0, &linear.weight.0, bias));
        }
        wrap(x.0.f_linear(&linear.weight.0, bias))
    }

    fn rms_norm(&self, x: &Handle, weight: &Handle, eps: f64) -> Result<Handle> {
        // Its own sum of squares in f32, as the models' norms do whatever the precision.
        let normed =
            x.0.f_to_kind(Kind::Float)
                .and_then(|x| x.f_internal_fused_rms_norm(weight.0.size(), None::<Tensor>, eps));
        let normed = normed.and_then(|(normed, _)| normed.f_to_kind(self.kind)).map_err(fail)?;
        wrap(normed.f_mul(&weight.0))
    }

    fn layer_norm(&self, x: &Handle, weight: &Handle, bias: &Handle, eps: f64) -> Result<Handle> {
        wrap(x.0.f_layer_norm(weight.0.size(), Some(&weight.0), Some(&bias.0), eps, true))
    }

    fn activate(&self, mut x: Handle, activation: Activation) -> Result<Handle> {
        wrap(match activation {
            Activation::Silu => x.0.f_silu_(),
            Activation::Gelu => x.0.f_gelu_("none"),
            Activation::GeluTanh => x.0.f_gelu_("tanh"),
        })
    }

    fn gated(&self, gate: Handle, up: &Handle) -> Result<Handle> {
        let mut gate = apart(gate, up)?;
        wrap(gate.0.f_silu_().and_then(|mut gate| gate.f_mul_(&up.0)))
    }

    fn add(&self, x: Handle, y: &Handle) -> Result<Handle> {
        let mut x = apart(x, y)?;
        wrap(x.0.f_add_(&y.0))
    }

    fn index_add(&self, x: Handle, places: &[u32], values: &Handle) -> Result<Handle> {
        let mut x = apart(x, values)?;
        wrap(x.0.f_index_add_(0, &self.ids(places)?, &values.0))
    }

    fn embedding_bag(&self, table: &Handle, ids: &[u32], weights: &[f32], taps: usize) -> Result<Handle> {
        let (count, taps) = ((ids.len() / taps) as i64, taps as i64);
        let sum = || {
            let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
            let ids = Tensor::f_from_slice(&ids)?.f_to(self.device)?;
            let weights = Tensor::f_from_slice(weights)?.f_to(self.device)?.f_reshape([count, taps, 1])?;
            let rows =
                table.0.f_index_select(0, &ids)?.f_to_kind(Kind::Float)?.f_reshape([count, taps, -1])?;
            rows.f_mul(&weights)?.f_sum_dim_intlist([1].as_slice(), false, Kind::Float)?.f_to_kind(self.kind)
        };
        wrap(sum())
    }

    fn rotary(&self, cos: Vec<f32>, sin: Vec<f32>, dim: usize) -> Result<[Handle; 3]> {
        let table = |values: &[f32]| {
            let (rows, dim) = ((values.len() / dim) as i64, dim as i64);
            let table = Tensor::f_from_slice(values)?.f_to(self.device)?.f_reshape([rows, dim])?;
            // Both halves of a table are equal.
            table.f_narrow(1, 0, dim / 2)?.f_unsqueeze(1)
        };
        let (cos, sin) = (table(&cos).map_err(fail)?, table(&sin).map_err(fail)?);
        let back = sin.f_neg().map_err(fail)?;
        Ok([cos, sin, back].map(Handle))
    }

    fn rotate(&self, x: Handle, [cos, sin, back]: &[Handle; 3]) -> Result<Handle> {
        let rotate = || {
            let half = x.0.size()[2] / 2;
            let x = x.0.f_to_kind(Kind::Float)?;
            let (mut left, mut right) = (x.f_narrow(2, 0, half)?, x.f_narrow(2, half, half)?);
            let turned = left.f_mul(&sin.0)?;
            let _ = left.f_mul_(&cos.0)?.f_addcmul_(&right, &back.0)?;
            let _ = right.f_mul_(&cos.0)?.f_add_(&turned)?;
            x.f_to_kind(self.kind)
        };
        wrap(rotate())
    }

    fn plan(&self, segments: &[Segment], causal: bool) -> Result<(Vec<Segment>, bool)> {
        Ok((segments.to_vec(), causal))
    }

    fn attention(
        &self,
        q: &Handle,
        keys: KvSource<'_, Handle>,
        (segments, causal): &(Vec<Segment>, bool),
    ) -> Result<Handle> {
        let attention = || {
            let (mut outputs, mut q_start, mut k_start) = (Vec::with_capacity(segments.len()), 0, 0);
            for (number, segment) in segments.iter().enumerate() {
                // (1, heads, rows, dim).
                let heads_first = |x: &Tensor| x.f_transpose(0, 1)?.f_unsqueeze(0);
                let (queries, length) = (segment.queries as i64, segment.keys as i64);
                let q = heads_first(&q.0.f_narrow(0, q_start, queries)?)?;
                let (k, v) = match keys {
                    KvSource::Packed(k, v) => {
                        let rows = |x: &Handle| heads_first(&x.0.f_narrow(0, k_start, length)?);
                        (rows(k)?, rows(v)?)
                    }
                    KvSource::Cached(sides) => {
                        (heads_first(&sides[number].0.0)?, heads_first(&sides[number].1.0)?)
                    }
                };
                let output = attend([&q, &k, &v], *causal)?;
                outputs.push(output.f_squeeze_dim(0)?.f_transpose(0, 1)?);
                (q_start, k_start) = (q_start + queries, k_start + length);
            }
            if outputs.len() == 1 { Ok(outputs.remove(0)) } else { Tensor::f_cat(&outputs, 0) }
        };
        wrap(attention())
    }

    fn reshape(&self, x: &Handle, shape: &[usize]) -> Result<Handle> {
        wrap(x.0.f_reshape(sizes(shape)))
    }

    fn narrow(&self, x: &Handle, axis: usize, start: usize, length: usize) -> Result<Handle> {
        wrap(x.0.f_narrow(axis as i64, start as i64, length as i64))
    }

    fn cat(&self, parts: &[Handle]) -> Result<Handle> {
        let parts: Vec<&Tensor> = parts.iter().map(|part| &part.0).collect();
        wrap(Tensor::f_cat(&parts, 0))
    }

    fn buffer(&self, shape: [usize; 3]) -> Result<Handle> {
        wrap(Tensor::f_zeros(sizes(&shape), (self.kind, self.device)))
    }

    fn write(&self, buffer: &Handle, at: usize, rows: &Handle) -> Result<()> {
        let place = buffer.0.f_narrow(0, at as i64, rows.0.size()[0]);
        place.and_then(|mut place| place.f_copy_(&rows.0)).map_err(fail)
    }

    /// The bindings do not have libtorch's own count of a GPU's memory.
    fn peak_memory(&self) -> Option<u64> {
        (self.device == Device::Cpu).then(paravt_devices::peak_memory).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SDPBackend::flash_attention` of `aten/src/ATen/native/transformers/sdp_utils_cpp.h`.
    const FLASH: i64 = 1;

    /// Sides (1, heads, rows, 64), with four heads to a key head.
    fn sides(queries: usize, keys: usize) -> [Tensor; 3] {
        [(8, queries), (2, keys), (2, keys)]
            .map(|(heads, rows)| Tensor::randn([1, heads, rows as i64, 64], (Kind::Float, Device::Cpu)))
    }

    #[test]
    fn a_whole_prompt_and_a_decoded_token_are_attended_to_by_the_fused_kernel() {
        for (queries, keys) in [(300, 300), (1, 300)] {
            let ([q, k, v], none) = (sides(queries, keys), None::<Tensor>);
            let chosen = Tensor::f_internal_fused_sdp_choice(&q, &k, &v, none, 0.0, queries > 1, None, true);
            assert_eq!(chosen.unwrap(), FLASH, "{queries} queries, {keys} keys");
        }
    }

    #[test]
    fn queries_after_a_past_attend_as_under_one_mask() {
        for (kind, limit) in [(Kind::Float, 2e-6), (Kind::BFloat16, 2e-2)] {
            for (queries, keys) in [(2, 3), (70, 300), (300, 333), (5, 1000)] {
                let [q, k, v] = sides(queries, keys).map(|side| side.to_kind(kind));
                let found = attend([&q, &k, &v], true).unwrap();
                let seen = Tensor::ones([queries as i64, keys as i64], (Kind::Bool, Device::Cpu));
                let [q, k, v] = [q, k, v].map(|side| side.to_kind(Kind::Double));
                let mask = Some(seen.tril((keys - queries) as i64));
                let wanted = Tensor::scaled_dot_product_attention(&q, &k, &v, mask, 0.0, false, None, true);
                let far = f64::try_from((found.to_kind(Kind::Double) - wanted).abs().max()).unwrap();
                assert!(found.kind() == kind && far < limit, "{kind:?}, {queries} of {keys}: {far}");
            }
        }
    }
}
