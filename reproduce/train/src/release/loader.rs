use paravt_upstream::python::Random;
use serde::{Deserialize, Serialize};

use super::row::LeftOut;
use crate::error::{Error, Result};
use crate::example::Example;

/// Seed of the rows' order (`data_seed` of lmms-engine's `DatasetConfig`).
const SHUFFLE: u64 = 42;

/// How the released trainer spreads rows: one slice for each process of each rank, and the packs of a rank's step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layout {
    /// Ranks, each with a share of the rows and of a step's packs (recipe: 8). The step's loss is the mean of theirs.
    pub ranks: usize,
    /// Loader processes of a rank (recipe: 8).
    pub workers: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self { ranks: 8, workers: 8 }
    }
}

/// Position of a rank in the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankProgress {
    /// Worker whose turn it is.
    turn: usize,
    /// Rows that each worker has put into packs or left out in this epoch.
    taken: Vec<usize>,
}

/// The packs of one step by rank, and what was left out on the way to them.
#[derive(Debug, Default)]
pub struct StepRows {
    /// Packs of each rank.
    pub ranks: Vec<Vec<Vec<Example>>>,
    /// Rows with more tokens than a pack takes.
    pub over_long: usize,
    /// Rows that could not be made into examples, by their number in the data.
    pub left_out: Vec<(usize, LeftOut)>,
}

/// Rows in the order of the released loader: shuffled once and the same in every epoch, a slice for each rank, a slice
/// of that for each worker, packs by next fit, batches from the workers in turn.
///
/// Source: ParaVT cf55249 `multimodal_iterable_dataset.py:96-223`, `StatefulDataLoader` of torchdata 0.11.
pub struct Loader {
    layout: Layout,
    order: Vec<usize>,
    pack_tokens: usize,
    packs: usize,
}

impl Loader {
    /// A loader of `count` rows that gives each rank `packs` packs of `pack_tokens` tokens at most.
    ///
    /// # Errors
    /// Too few rows for the workers of a rank: the released loader raises `IndexError`.
    pub fn new(count: usize, layout: Layout, pack_tokens: usize, packs: usize) -> Result<Self> {
        let mut order: Vec<usize> = (0..count).collect();
        Random::seeded(SHUFFLE).shuffle(&mut order);
        let loader = Self { layout, order, pack_tokens, packs };
        for rank in 0..layout.ranks {
            let rows = loader.share(rank).len();
            let last = loader.worker_rows(rows) * (layout.workers - 1);
            if last >= rows {
                return Err(Error::Settings(format!(
                    "rank {rank} has {rows} rows, too few for {} workers: the slice of the last begins at row {last}; \
                     set fewer `release.workers` or `release.ranks`",
                    layout.workers
                )));
            }
        }
        Ok(loader)
    }

    /// The state before the first row.
    pub fn start(&self) -> Vec<RankProgress> {
        vec![RankProgress { turn: 0, taken: vec![0; self.layout.workers] }; self.layout.ranks]
    }

    /// The packs of the next step. A rank that has used all its rows begins again with the first of them, independently
    /// of the others.
    ///
    /// # Errors
    /// No row of a rank fits into a pack.
    pub fn step(
        &self,
        progress: &mut [RankProgress],
        mut encode: impl FnMut(usize) -> std::result::Result<Example, LeftOut>,
    ) -> Result<StepRows> {
        let mut step = StepRows::default();
        for (rank, progress) in progress.iter_mut().enumerate() {
            let packs = self.batch(rank, progress, &mut step, &mut encode)?;
            step.ranks.push(packs);
        }
        Ok(step)
    }

    /// The next batch of a rank.
    fn batch(
        &self,
        rank: usize,
        progress: &mut RankProgress,
        step: &mut StepRows,
        encode: &mut impl FnMut(usize) -> std::result::Result<Example, LeftOut>,
    ) -> Result<Vec<Vec<Example>>> {
        // A whole epoch, from wherever it is begun, has as many turns as there are workers, twice.
        for _ in 0..=2 * self.layout.workers {
            let rows = self.share(rank);
            let slices: Vec<&[usize]> = rows.chunks(self.worker_rows(rows.len())).collect();
            if progress.taken.iter().zip(&slices).all(|(taken, slice)| *taken >= slice.len()) {
                *progress = RankProgress { turn: 0, taken: vec![0; self.layout.workers] };
            }
            let worker = progress.turn;
            progress.turn = (worker + 1) % self.layout.workers;
            let packs = self.packs(slices[worker], &mut progress.taken[worker], step, encode);
            if !packs.is_empty() {
                return Ok(packs);
            }
        }
        Err(Error::Settings(format!("rank {rank}: no row fits into {} tokens", self.pack_tokens)))
    }

    /// Packs of a worker's rows from `taken` on. The row that no longer fits into the last one begins the next batch.
    fn packs(
        &self,
        rows: &[usize],
        taken: &mut usize,
        step: &mut StepRows,
        encode: &mut impl FnMut(usize) -> std::result::Result<Example, LeftOut>,
    ) -> Vec<Vec<Example>> {
        let (mut packs, mut open, mut held) = (Vec::new(), Vec::new(), 0);
        while let Some(&row) = rows.get(*taken) {
            let example = match encode(row) {
                Ok(example) => example,
                Err(reason) => {
                    step.left_out.push((row, reason));
                    *taken += 1;
                    continue;
                }
            };
            let length = example.ids.len();
            if length > self.pack_tokens {
                step.over_long += 1;
                *taken += 1;
                continue;
            }
            if held > 0 && held + length > self.pack_tokens {
                packs.push(std::mem::take(&mut open));
                held = 0;
                if packs.len() == self.packs {
                    return packs;
                }
            }
            open.push(example);
            held += length;
            *taken += 1;
        }
        if !open.is_empty() {
            packs.push(open);
        }
        packs
    }

    /// Rows of a rank: equal shares, the first ranks one more where they do not come out even.
    fn share(&self, rank: usize) -> &[usize] {
        let (count, ranks) = (self.order.len(), self.layout.ranks);
        let start = |rank: usize| rank * (count / ranks) + rank.min(count % ranks);
        &self.order[start(rank)..start(rank + 1)]
    }

    /// Rows of each of a rank's workers but the last, which may have fewer.
    fn worker_rows(&self, rows: usize) -> usize {
        rows.div_ceil(self.layout.workers)
    }
}
