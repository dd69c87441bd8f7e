//! Launches of `attention.cu`.

use candle_core::{DType, Device, Result, Tensor};
use paravt_qwen_vl::ops::{KvSource, Segment};

use super::{Arg, Fused, Launch, MAX_POINTERS, Module, aligned_rows, room, stride};

/// Rows of a block: queries times the heads that share keys.
const ROWS: usize = 64;
const THREADS: usize = 128;
/// Blocks from which on keys are not shared among them: two for each multiprocessor of the largest cards.
const ENOUGH_BLOCKS: usize = 256;
/// Fewest keys of a block among those that share them.
const FEWEST_KEYS: usize = 256;
/// Largest size of a head.
const MAX_DIM: usize = 128;

/// The sequences of a pass.
#[derive(Debug, Clone)]
pub struct AttentionPlan {
    segments: Vec<Segment>,
    /// First query, queries, first key and keys of each, (segments, 4), on the device.
    places: Tensor,
    causal: bool,
}

impl AttentionPlan {
    /// Puts the lengths on the device.
    ///
    /// # Errors
    /// No memory.
    pub fn new(segments: &[Segment], causal: bool, device: &Device) -> Result<Self> {
        let (mut places, mut query, mut key) = (Vec::with_capacity(4 * segments.len()), 0, 0);
        for &Segment { queries, keys } in segments {
            places.extend([query, queries, key, keys].map(|place| place as u32));
            (query, key) = (query + queries, key + keys);
        }
        let places = Tensor::from_vec(places, (segments.len(), 4), device)?;
        Ok(Self { segments: segments.to_vec(), places, causal })
    }

    fn longest(&self, of: fn(&Segment) -> usize) -> usize {
        self.segments.iter().map(of).max().unwrap_or_default()
    }
}

impl Fused {
    /// See [`Ops::attention`]; heads of a multiple of eight, 128 at most.
    ///
    /// # Errors
    /// Another head size, the launch.
    ///
    /// [`Ops::attention`]: paravt_qwen_vl::ops::Ops::attention
    pub fn attention(&self, q: &Tensor, keys: KvSource<'_, Tensor>, plan: &AttentionPlan) -> Result<Tensor> {
        let (n, heads, dim) = q.dims3()?;
        if dim % 8 != 0 || dim > MAX_DIM {
            candle_core::bail!("attention of heads of {dim}: --gpu-kernels candle takes them");
        }
        let q = aligned_rows(q)?;
        let out = room((n, heads, dim), q.dtype(), q.device())?;
        // Each a launch: segments from one on, with keys and values of all of them in one tensor, or in one for each.
        let launches: Vec<(usize, usize, Vec<&Tensor>, Vec<&Tensor>)> = match keys {
            KvSource::Packed(k, v) => vec![(0, plan.segments.len(), vec![k], vec![v])],
            KvSource::Cached(sides) => {
                let parts = sides.chunks(MAX_POINTERS).enumerate().map(|(number, sides)| {
                    let (k, v) = sides.iter().map(|(k, v)| (k, v)).unzip();
                    (number * MAX_POINTERS, sides.len(), k, v)
                });
                parts.collect()
            }
        };
        let Some(key_heads) = launches.first().map(|(_, _, k, _)| k[0].dim(1)).transpose()? else {
            return Ok(out);
        };
        let tiles = (plan.longest(|segment| segment.queries) * (heads / key_heads)).div_ceil(ROWS);
        let blocks = tiles * plan.segments.len() * key_heads;
        let most = plan.longest(|segment| segment.keys).div_ceil(FEWEST_KEYS).max(1);
        let shares = ENOUGH_BLOCKS.div_ceil(blocks.max(1)).min(most);
        let parts =
            (shares > 1).then(|| room((shares, n, heads, dim + 2), DType::F32, q.device())).transpose()?;
        let launch = |kernel, grid, args: &[Arg<'_>]| {
            self.0.launch(&Launch { module: Module::Attention(dim), kernel, grid, threads: THREADS, args })
        };
        for (first, count, k, v) in launches {
            let (k, v) = (alike_rows(&k, [key_heads, dim])?, alike_rows(&v, [key_heads, dim])?);
            let (each_k, each_v): (Vec<&Tensor>, Vec<&Tensor>) = (k.iter().collect(), v.iter().collect());
            let args = [
                Arg::In(&q),
                Arg::List(&each_k),
                Arg::List(&each_v),
                Arg::In(&plan.places),
                Arg::Out(&out),
                parts.as_ref().map_or(Arg::Null, Arg::Out),
                Arg::Int(first),
                Arg::Int(tiles),
                Arg::Int(n),
                Arg::Int(heads),
                stride(&q),
                stride(&k[0]),
                stride(&v[0]),
                Arg::Int(usize::from(matches!(keys, KvSource::Cached(_)))),
                Arg::Int(usize::from(plan.causal)),
                Arg::Float((dim as f64).powf(-0.5)),
            ];
            launch("attention", [tiles * count, key_heads, shares], &args)?;
        }
        if let Some(parts) = &parts {
            let args = [Arg::In(parts), Arg::Out(&out), Arg::Int(shares), Arg::Int(n * heads)];
            launch("combine", [(n * heads).div_ceil(THREADS / 32), 1, 1], &args)?;
        }
        Ok(out)
    }
}

/// Keys or values (n, heads, dim), rows of all equally far apart.
fn alike_rows(sides: &[&Tensor], heads: [usize; 2]) -> Result<Vec<Tensor>> {
    let sides = sides.iter().map(|side| aligned_rows(side)).collect::<Result<Vec<_>>>()?;
    let stride = sides[0].stride()[0];
    if sides.iter().all(|side| side.stride()[0] == stride && side.dims()[1..] == heads) {
        return Ok(sides);
    }
    candle_core::bail!("attention: caches of other shapes, {:?} among them", sides[0].dims())
}
