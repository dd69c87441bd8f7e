//! An engine's arithmetic under observation: operations, bytes between host and device, buffers that live.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::ops::{Activation, KvSource, Linear, Ops, Segment};
use crate::processor::Scale;
use crate::sampling::Draw;
use crate::weights::TensorView;

type Result<T> = std::result::Result<T, Error>;

/// Counts, and limits on buffers.
#[derive(Debug, Default)]
pub struct Seen {
    /// Rows of key and value buffers that live.
    pub rows: AtomicUsize,
    /// Maximum of [`Self::rows`] so far.
    pub peak: AtomicUsize,
    /// Rows of queries of each attention so far.
    pub passes: Mutex<Vec<usize>>,
    /// Allocations of more rows than this fail; 0 turns the limit off.
    pub largest: AtomicUsize,
    /// Allocations of more rows than this in all fail as out of memory; 0 turns the limit off.
    pub room: AtomicUsize,
    /// Operations that compute or copy: a kernel's launch each, or several of an engine that composes them.
    pub operations: AtomicUsize,
    /// Bytes that were given from the host: values, and ids of rows.
    pub uploaded: AtomicUsize,
    /// Bytes that came back.
    pub downloaded: AtomicUsize,
    /// How often something came back: the host waits for the device then.
    pub waits: AtomicUsize,
}

/// [`Seen`] at a moment, without what lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// See [`Seen::operations`].
    pub operations: usize,
    /// See [`Seen::uploaded`].
    pub uploaded: usize,
    /// See [`Seen::downloaded`].
    pub downloaded: usize,
    /// See [`Seen::waits`].
    pub waits: usize,
}

impl Seen {
    /// Work since the last call.
    pub fn take(&self) -> Work {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::SeqCst);
        Work {
            operations: take(&self.operations),
            uploaded: take(&self.uploaded),
            downloaded: take(&self.downloaded),
            waits: take(&self.waits),
        }
    }

    fn operation(&self, uploaded: usize) {
        self.operations.fetch_add(1, Ordering::SeqCst);
        self.uploaded.fetch_add(uploaded, Ordering::SeqCst);
    }
}

/// A tensor, and the rows of the buffer behind it.
#[derive(Clone)]
pub struct Counted<T>(T, #[allow(dead_code)] Option<Arc<Room>>);

struct Room(Arc<Seen>, usize);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.rows.fetch_sub(self.1, Ordering::SeqCst);
    }
}

/// Arithmetic under observation.
pub struct Watched<O>(pub O, pub Arc<Seen>);

fn plain<T>(result: Result<T>) -> Result<Counted<T>> {
    result.map(|tensor| Counted(tensor, None))
}

impl<O: Ops> Ops for Watched<O> {
    type Tensor = Counted<O::Tensor>;
    /// With the rows of queries of the pass.
    type Plan = (O::Plan, usize);
    type Rotary = O::Rotary;

    fn weight(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Self::Tensor> {
        plain(self.0.weight(view, shape))
    }
    fn upload(&self, values: Vec<f32>, shape: &[usize]) -> Result<Self::Tensor> {
        self.1.operation(4 * values.len());
        plain(self.0.upload(values, shape))
    }
    fn upload_patches(&self, bytes: &[u8], scale: Scale, shape: [usize; 2]) -> Result<Self::Tensor> {
        self.1.operation(bytes.len());
        plain(self.0.upload_patches(bytes, scale, shape))
    }
    fn sample(&self, logits: &Self::Tensor, draws: &[Draw]) -> Result<Option<Vec<(u32, f32)>>> {
        let found = self.0.sample(&logits.0, draws)?;
        if let Some(found) = &found {
            self.1.operation(0);
            self.1.waits.fetch_add(1, Ordering::SeqCst);
            self.1.downloaded.fetch_add(size_of_val(&found[..]), Ordering::SeqCst);
        }
        Ok(found)
    }
    fn download(&self, x: &Self::Tensor) -> Result<Vec<f32>> {
        let values = self.0.download(&x.0)?;
        self.1.waits.fetch_add(1, Ordering::SeqCst);
        self.1.downloaded.fetch_add(4 * values.len(), Ordering::SeqCst);
        Ok(values)
    }
    fn shape(&self, x: &Self::Tensor) -> Vec<usize> {
        self.0.shape(&x.0)
    }
    fn gather(&self, table: &Self::Tensor, ids: &[u32]) -> Result<Self::Tensor> {
        self.1.operation(4 * ids.len());
        plain(self.0.gather(&table.0, ids))
    }
    fn linear(&self, x: &Self::Tensor, linear: &Linear<Self::Tensor>) -> Result<Self::Tensor> {
        self.1.operation(0);
        let bias = linear.bias.as_ref().map(|bias| bias.0.clone());
        plain(self.0.linear(&x.0, &Linear { weight: linear.weight.0.clone(), bias }))
    }
    fn join(&self, parts: &[Linear<Self::Tensor>]) -> Result<Option<Linear<Self::Tensor>>> {
        let plain = |part: &Linear<Self::Tensor>| Linear {
            weight: part.weight.0.clone(),
            bias: part.bias.as_ref().map(|bias| bias.0.clone()),
        };
        let joined = self.0.join(&parts.iter().map(plain).collect::<Vec<_>>())?;
        Ok(joined.map(|Linear { weight, bias }| Linear {
            weight: Counted(weight, None),
            bias: bias.map(|bias| Counted(bias, None)),
        }))
    }
    fn rms_norm(&self, x: &Self::Tensor, weight: &Self::Tensor, eps: f64) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.rms_norm(&x.0, &weight.0, eps))
    }
    fn add_norm(
        &self,
        x: Self::Tensor,
        y: &Self::Tensor,
        weight: &Self::Tensor,
        eps: f64,
    ) -> Result<(Self::Tensor, Self::Tensor)> {
        self.1.operation(0);
        let (sum, normed) = self.0.add_norm(x.0, &y.0, &weight.0, eps)?;
        Ok((Counted(sum, None), Counted(normed, None)))
    }
    fn layer_norm(
        &self,
        x: &Self::Tensor,
        weight: &Self::Tensor,
        bias: &Self::Tensor,
        eps: f64,
    ) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.layer_norm(&x.0, &weight.0, &bias.0, eps))
    }
    fn activate(&self, x: Self::Tensor, activation: Activation) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.activate(x.0, activation))
    }
    fn gated(&self, gate: Self::Tensor, up: &Self::Tensor) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.gated(gate.0, &up.0))
    }
    fn add(&self, x: Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.add(x.0, &y.0))
    }
    fn index_add(&self, x: Self::Tensor, places: &[u32], values: &Self::Tensor) -> Result<Self::Tensor> {
        self.1.operation(4 * places.len());
        plain(self.0.index_add(x.0, places, &values.0))
    }
    fn embedding_bag(
        &self,
        table: &Self::Tensor,
        ids: &[u32],
        weights: &[f32],
        taps: usize,
    ) -> Result<Self::Tensor> {
        self.1.operation(4 * (ids.len() + weights.len()));
        plain(self.0.embedding_bag(&table.0, ids, weights, taps))
    }
    fn rotary(&self, cos: Vec<f32>, sin: Vec<f32>, dim: usize) -> Result<O::Rotary> {
        self.1.operation(4 * (cos.len() + sin.len()));
        self.0.rotary(cos, sin, dim)
    }
    fn rotate(&self, x: Self::Tensor, tables: &O::Rotary) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.rotate(x.0, tables))
    }
    fn norm_rotate(
        &self,
        x: Self::Tensor,
        norm: Option<(&Self::Tensor, f64)>,
        tables: &O::Rotary,
    ) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.norm_rotate(x.0, norm.map(|(weight, eps)| (&weight.0, eps)), tables))
    }
    fn plan(&self, segments: &[Segment], causal: bool) -> Result<Self::Plan> {
        let rows = segments.iter().map(|segment| segment.queries).sum();
        Ok((self.0.plan(segments, causal)?, rows))
    }
    fn attention(
        &self,
        q: &Self::Tensor,
        keys: KvSource<'_, Self::Tensor>,
        (plan, rows): &Self::Plan,
    ) -> Result<Self::Tensor> {
        self.1.operation(0);
        self.1.passes.lock().expect("no test panicked").push(*rows);
        plain(match keys {
            KvSource::Packed(k, v) => self.0.attention(&q.0, KvSource::Packed(&k.0, &v.0), plan),
            KvSource::Cached(sides) => {
                let sides: Vec<_> = sides.iter().map(|(k, v)| (k.0.clone(), v.0.clone())).collect();
                self.0.attention(&q.0, KvSource::Cached(&sides), plan)
            }
        })
    }
    fn reshape(&self, x: &Self::Tensor, shape: &[usize]) -> Result<Self::Tensor> {
        plain(self.0.reshape(&x.0, shape))
    }
    fn narrow(&self, x: &Self::Tensor, axis: usize, start: usize, length: usize) -> Result<Self::Tensor> {
        plain(self.0.narrow(&x.0, axis, start, length))
    }
    fn cat(&self, parts: &[Self::Tensor]) -> Result<Self::Tensor> {
        self.1.operation(0);
        plain(self.0.cat(&parts.iter().map(|part| part.0.clone()).collect::<Vec<_>>()))
    }
    fn buffer(&self, shape: [usize; 3]) -> Result<Self::Tensor> {
        let limit = self.1.largest.load(Ordering::SeqCst);
        if limit > 0 && shape[0] > limit {
            return Err(Error::compute("cannot have so large a buffer".to_owned()));
        }
        let room = self.1.room.load(Ordering::SeqCst);
        if room > 0 && self.1.rows.load(Ordering::SeqCst) + shape[0] > room {
            return Err(Error::compute("the device is out of memory".to_owned()));
        }
        self.1.operation(0);
        let now = self.1.rows.fetch_add(shape[0], Ordering::SeqCst) + shape[0];
        self.1.peak.fetch_max(now, Ordering::SeqCst);
        let room = Room(Arc::clone(&self.1), shape[0]);
        Ok(Counted(self.0.buffer(shape)?, Some(Arc::new(room))))
    }
    fn write(&self, buffer: &Self::Tensor, at: usize, rows: &Self::Tensor) -> Result<()> {
        self.1.operation(0);
        self.0.write(&buffer.0, at, &rows.0)
    }
    fn peak_memory(&self) -> Option<u64> {
        self.0.peak_memory()
    }
}
