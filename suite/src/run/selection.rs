//! Which samples of a split belong to a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which samples belong to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// Rows of the split under this profile.
    pub split_rows: usize,
    /// Samples that this run must finish: all rows, less what limit, ids and shard leave out.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// `--limit`.
    pub limit: Option<usize>,
    /// `--ids`.
    pub ids: Option<Vec<String>>,
    /// `--shard i/n`, zero-based.
    pub shard: Option<(usize, usize)>,
    /// Of a shard: the selection before the shard was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Box<Sizes>>,
}

impl Selection {
    /// The selection with every sample counted so often.
    pub(super) fn repeated(&self, times: usize) -> Self {
        let mut repeated = self.clone();
        repeated.sizes.repeat(times);
        repeated
    }

    /// The flags that made it.
    pub(crate) fn narrowing(&self) -> Narrowing<'_> {
        Narrowing { ids: self.ids.as_deref(), limit: self.limit, shard: self.shard }
    }
}

/// The flags that narrow a split to the samples of a run: `--ids`, of these the first `--limit`, of these one
/// `--shard` (zero-based).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Narrowing<'a> {
    /// Uids or upstream ids.
    pub ids: Option<&'a [String]>,
    /// Maximum of samples, by row.
    pub limit: Option<usize>,
    /// Index and number of shards.
    pub shard: Option<(usize, usize)>,
}

impl Narrowing<'_> {
    /// Whether these flags keep every sample that `before` keeps, whatever the rows are: a larger limit or none,
    /// more ids or none. A shard extends only itself.
    pub fn extends(self, before: Narrowing<'_>) -> bool {
        if self.shard.is_some() || before.shard.is_some() {
            return self == before;
        }
        let within = |some: Option<&[String]>, all: Option<&[String]>| match (some, all) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(some), Some(all)) => some.iter().all(|id| all.contains(id)),
        };
        let keeps_ids = within(before.ids, self.ids);
        match (before.limit, self.limit) {
            (_, None) => keeps_ids,
            // The first samples among more ids may be others.
            (Some(before_limit), Some(limit)) => {
                before_limit <= limit && keeps_ids && within(self.ids, before.ids)
            }
            (None, Some(_)) => false,
        }
    }
}

/// As on the command line, ids by their number.
impl std::fmt::Display for Narrowing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids = self.ids.map(|ids| format!("--ids with {} ids", ids.len()));
        let limit = self.limit.map(|limit| format!("--limit {limit}"));
        let shard = self.shard.map(|(index, count)| format!("--shard {}/{count}", index + 1));
        let flags: Vec<String> = ids.into_iter().chain(limit).chain(shard).collect();
        if flags.is_empty() { f.write_str("the whole split") } else { f.write_str(&flags.join(" ")) }
    }
}

/// Numbers of samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    pub expected: usize,
    /// Of these, the open-ended ones, which are never part of the headline.
    pub open_ended: usize,
    /// The others by breakdown tag and label.
    pub groups: GroupSizes,
}

impl Sizes {
    fn repeat(&mut self, times: usize) {
        self.expected *= times;
        self.open_ended *= times;
        self.groups.values_mut().flat_map(BTreeMap::values_mut).for_each(|size| *size *= times);
    }
}

/// Samples by breakdown tag and label.
pub type GroupSizes = BTreeMap<String, BTreeMap<String, usize>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_extends_those_whose_every_sample_it_keeps() {
        let (few, more) = (["a".to_owned()], ["b".to_owned(), "a".to_owned()]);
        let all = Narrowing::default();
        let first = |limit| Narrowing { limit: Some(limit), ..all };
        let of = |ids| Narrowing { ids: Some(ids), ..all };
        let part = |index| Narrowing { shard: Some((index, 2)), ..all };
        for (before, now, extends) in [
            (all, all, true),
            (first(20), first(20), true),
            (first(20), first(30), true),
            (first(20), all, true),
            (first(20), first(10), false),
            (all, first(10), false),
            (of(&few), of(&more), true),
            (of(&few), all, true),
            (of(&more), of(&few), false),
            (all, of(&few), false),
            (of(&few), first(20), false),
            (first(20), of(&more), false),
            (Narrowing { limit: Some(1), ..of(&few) }, of(&more), true),
            // `b` may stand before `a`.
            (Narrowing { limit: Some(1), ..of(&few) }, Narrowing { limit: Some(1), ..of(&more) }, false),
            (part(0), part(0), true),
            (part(0), part(1), false),
            (part(0), all, false),
            (all, part(0), false),
            (Narrowing { limit: Some(20), ..part(0) }, part(0), false),
        ] {
            assert_eq!(now.extends(before), extends, "{before}, then {now}");
        }
    }
}
