//! The data frame behind every table: the only file that knows polars.
//!
//! Frames are small (rows of a table) or long (samples of a run). Sums of floats depend on the order of their terms, and a
//! report must not change from one call to the next: groups, partitions and joins keep the order of rows.

use std::collections::BTreeMap;

use polars::prelude::{
    BooleanChunked, Column, DataFrame, DataFrameJoinOps as _, DataType, GroupsType, IntoColumn as _,
    JoinArgs, JoinType, MaintainOrderJoin, NamedFrom as _, PolarsResult, Series, SortMultipleOptions,
};

use crate::statistics::Cluster;

/// Values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Count(Vec<Option<u64>>),
    /// Other numbers.
    Real(Vec<Option<f64>>),
    Flag(Vec<bool>),
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// Nothing there.
    Missing,
    Text(String),
    /// Whole number.
    Count(u64),
    /// Any other number.
    Real(f64),
    Flag(bool),
}

impl Values {
    /// The values one by one.
    pub fn data(self) -> Vec<Datum> {
        fn each<T>(values: Vec<Option<T>>, datum: fn(T) -> Datum) -> Vec<Datum> {
            values.into_iter().map(|value| value.map_or(Datum::Missing, datum)).collect()
        }
        match self {
            Self::Text(values) => each(values, Datum::Text),
            Self::Count(values) => each(values, Datum::Count),
            Self::Real(values) => each(values, Datum::Real),
            Self::Flag(values) => values.into_iter().map(Datum::Flag).collect(),
        }
    }
}

/// Named and typed columns of one length. Every method panics on a column that is not there or of another type: names of
/// columns are literals of this crate.
#[derive(Debug, Clone)]
pub struct Frame(DataFrame);

impl Frame {
    /// A frame of columns of one length, each of another name.
    pub fn new(columns: Vec<(&'static str, Values)>) -> Self {
        let column = |(name, values)| column(name, values);
        Self(expect_columns(DataFrame::new_infer_height(columns.into_iter().map(column).collect())))
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.0.height()
    }

    fn column(&self, name: &str) -> &Column {
        expect_columns(self.0.column(name))
    }

    /// A column of words.
    pub fn texts(&self, name: &str) -> impl ExactSizeIterator<Item = Option<&str>> {
        expect_columns(self.column(name).str()).iter()
    }

    /// A column of whole numbers.
    pub fn counts(&self, name: &str) -> impl ExactSizeIterator<Item = Option<u64>> {
        expect_columns(self.column(name).u64()).iter()
    }

    /// A column of other numbers.
    pub fn reals(&self, name: &str) -> impl ExactSizeIterator<Item = Option<f64>> {
        expect_columns(self.column(name).f64()).iter()
    }

    /// A column of any type.
    pub fn values(&self, name: &str) -> Values {
        match self.column(name).dtype() {
            DataType::String => Values::Text(self.texts(name).map(|text| text.map(str::to_owned)).collect()),
            DataType::UInt64 => Values::Count(self.counts(name).collect()),
            DataType::Boolean => Values::Flag(self.flags(name).iter().flatten().collect()),
            _ => Values::Real(self.reals(name).collect()),
        }
    }

    fn flags(&self, name: &str) -> &BooleanChunked {
        expect_columns(self.column(name).bool())
    }

    /// The rows in which a column of yes and no says yes.
    pub fn filter(&self, flag: &str) -> Self {
        Self(expect_columns(self.0.filter(self.flags(flag))))
    }

    /// Some of the columns.
    pub fn select(&self, names: &[&str]) -> Self {
        Self(expect_columns(self.0.select(names.iter().copied())))
    }

    /// With the rows in the order of a column of words, byte by byte.
    pub fn sorted(&self, by: &str) -> Self {
        Self(expect_columns(self.0.sort([by], SortMultipleOptions::default())))
    }

    /// With one more column of numbers, or with others in it.
    pub fn with(mut self, name: &'static str, values: Vec<f64>) -> Self {
        expect_columns(self.0.with_column(Series::new(name.into(), values).into_column()));
        self
    }

    /// With one more column that has the same words in every row, in front.
    pub(crate) fn with_first(mut self, name: &'static str, text: &str) -> Self {
        let column = Series::new(name.into(), vec![text; self.height()]).into_column();
        expect_columns(self.0.insert_column(0, column));
        self
    }

    /// Adds the rows of another frame with the same columns.
    pub fn append(&mut self, other: Self) {
        expect_columns(self.0.vstack_mut_owned(other.0));
    }

    /// The same rows in one piece: a value is found at once, wherever its rows were appended.
    pub(crate) fn in_one_piece(mut self) -> Self {
        self.0.rechunk_mut();
        self
    }

    /// Frames of the same columns below one another.
    pub fn stack(frames: impl IntoIterator<Item = Self>) -> Option<Self> {
        let all = frames.into_iter().reduce(|mut all, frame| {
            all.append(frame);
            all
        });
        all.map(Self::in_one_piece)
    }

    /// Frames of the rows with equal keys, in the order in which keys come first.
    pub fn partition(&self, keys: &[&str]) -> Vec<Self> {
        if self.height() == 0 {
            return Vec::new();
        }
        expect_columns(self.0.partition_by_stable(keys.iter().copied(), true)).into_iter().map(Self).collect()
    }

    /// Rows of equal keys, in the order in which keys come first.
    fn groups(&self, keys: &[&str]) -> Vec<Vec<usize>> {
        match &**expect_columns(self.0.group_by_stable(keys.iter().copied())).get_groups() {
            GroupsType::Idx(groups) => {
                groups.iter().map(|(_, rows)| rows.iter().map(|row| *row as usize).collect()).collect()
            }
            GroupsType::Slice { groups, .. } => {
                groups.iter().map(|[first, n]| (*first as usize..(first + n) as usize).collect()).collect()
            }
        }
    }

    /// Sums of `values` by the words of `by`: the clusters that statistics take.
    pub fn clusters(&self, by: &str, values: &str) -> BTreeMap<String, Cluster> {
        let (names, values) =
            (expect_columns(self.column(by).str()), expect_columns(self.column(values).f64()));
        let cluster = |rows: Vec<usize>| {
            let name = names.get(*rows.first()?)?.to_owned();
            let sum = rows.iter().filter_map(|row| values.get(*row)).sum();
            Some((name, Cluster { sum, n: rows.len() }))
        };
        self.groups(&[by]).into_iter().filter_map(cluster).collect()
    }

    /// Rows of this frame with those of another that have the same keys; the other's columns of a name that is here as
    /// well end in `_right`. Each row finds one other at most where keys are unique there.
    pub fn inner_join(&self, other: &Self, keys: &[&str]) -> Self {
        self.join(other, keys, JoinType::Inner)
    }

    /// As [`inner_join`](Self::inner_join), with all rows of this frame: what the other lacks is missing.
    pub(crate) fn left_join(&self, other: &Self, keys: &[&str]) -> Self {
        self.join(other, keys, JoinType::Left)
    }

    fn join(&self, other: &Self, keys: &[&str], how: JoinType) -> Self {
        let args = JoinArgs { maintain_order: MaintainOrderJoin::Left, ..JoinArgs::new(how) };
        Self(expect_columns(self.0.join(&other.0, keys.iter().copied(), keys.iter().copied(), args, None)))
    }
}

/// Columns are named and filled by the code of this crate: a missing one, or one of another type or length, is a mistake
/// there and nothing that a caller could mend.
#[track_caller]
fn expect_columns<T>(result: PolarsResult<T>) -> T {
    result.unwrap_or_else(|error| panic!("a frame of this crate: {error}"))
}

fn column(name: &'static str, values: Values) -> Column {
    let name = name.into();
    match values {
        Values::Text(values) => Series::new(name, values),
        Values::Count(values) => Series::new(name, values),
        Values::Real(values) => Series::new(name, values),
        Values::Flag(values) => Series::new(name, values),
    }
    .into_column()
}
