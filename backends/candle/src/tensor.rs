//! What every arithmetic on candle tensors shares.

use std::sync::Arc;

use candle_core::{D, DType, Device, Tensor};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{Precision, Segment};
use paravt_qwen_vl::weights::{Dtype, View};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Source of weights in place of the checkpoint: from a tensor's view in the file and the shape in the model to the
/// tensor, e.g. one that a trainer changes.
pub type WeightSource = Arc<dyn Fn(&View<'_>, &[usize]) -> Result<Tensor> + Send + Sync>;

/// candle's own error texts name shapes and types.
pub fn fail(error: candle_core::Error) -> Error {
    Error::compute(format!("candle: {error}"))
}

/// candle's name of a precision.
pub fn dtype(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
    }
}

/// A tensor of a checkpoint in its published type.
///
/// # Errors
/// A shape of another number of elements, no memory.
pub fn read(view: &View<'_>, shape: &[usize], device: &Device) -> candle_core::Result<Tensor> {
    let dtype = match view.dtype {
        Dtype::BF16 => DType::BF16,
        Dtype::F16 => DType::F16,
        _ => DType::F32,
    };
    Tensor::from_raw_buffer(view.data, dtype, shape, device)
}

/// Values on the host, f32.
///
/// # Errors
/// The device fails.
pub fn download(x: &Tensor) -> candle_core::Result<Vec<f32>> {
    x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// Rows of a table (n, c) by their ids: (ids, c).
///
/// # Errors
/// An id past the table.
pub fn gather(table: &Tensor, ids: &[u32], dtype: DType) -> candle_core::Result<Tensor> {
    let ids = Tensor::from_slice(ids, ids.len(), table.device())?;
    table.index_select(&ids, 0)?.to_dtype(dtype)
}

/// Sums over `taps` of table rows by weight; ids and weights are (n, taps), row-major.
///
/// # Errors
/// An id past the table.
pub fn weighted_rows(
    table: &Tensor,
    ids: &[u32],
    weights: &[f32],
    taps: usize,
    dtype: DType,
) -> candle_core::Result<Tensor> {
    let count = ids.len() / taps;
    let weights = Tensor::from_slice(weights, (count, taps, 1), table.device())?;
    let rows = gather(table, ids, DType::F32)?;
    let rows = rows.reshape((count, taps, rows.dim(D::Minus1)?))?;
    rows.broadcast_mul(&weights)?.sum(1)?.to_dtype(dtype)
}

/// Rows of x (n, c) with `values` added at the places given.
///
/// # Errors
/// A place past the rows, values of another width.
pub fn add_rows(x: &Tensor, places: &[u32], values: &Tensor) -> candle_core::Result<Tensor> {
    let places = Tensor::from_slice(places, places.len(), x.device())?;
    x.index_add(&places, values, 0)
}

/// Parts one after the other along the first axis.
///
/// # Errors
/// No parts, parts of other shapes.
pub fn cat(parts: &[Tensor]) -> candle_core::Result<Tensor> {
    if let [only] = parts { Ok(only.clone()) } else { Tensor::cat(parts, 0) }
}

/// Attention sequence by sequence: `one` gets the rows of q, k and v of a sequence.
///
/// # Errors
/// Those of `one`; sequences longer than the tensors.
pub fn by_segment(
    [q, k, v]: [&Tensor; 3],
    segments: &[Segment],
    one: impl Fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>,
) -> candle_core::Result<Tensor> {
    let (mut outputs, mut q_start, mut k_start) = (Vec::with_capacity(segments.len()), 0, 0);
    for segment in segments {
        let q = q.narrow(0, q_start, segment.queries)?;
        let k = k.narrow(0, k_start, segment.keys)?;
        let v = v.narrow(0, k_start, segment.keys)?;
        outputs.push(one(&q, &k, &v)?);
        q_start += segment.queries;
        k_start += segment.keys;
    }
    cat(&outputs)
}
