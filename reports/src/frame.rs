//! The data frame behind every table: the only file that knows polars.
//!
//! Frames are small (rows of a table) or long (samples of a run). Sums of floats depend on the order of their terms, and a
//! report must not change from one call to the next: groups, partitions and joins keep the order of rows.

use std::collections::BTreeMap;

use polars::prelude::{
    Column, DataFrame, DataFrameJoinOps as _, DataType, GroupsType, IntoColumn as _, JoinArgs, JoinType,
    MaintainOrderJoin, NamedFrom as _, PolarsError, PolarsResult, Series, SortMultipleOptions,
};

use crate::statistics::Cluster;

/// Why a frame cannot be made: columns of unequal length, a column of another name or type, too many rows.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a table: {0}")]
pub struct FrameError(#[from] PolarsError);

/// Values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Words.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Count(Vec<Option<u64>>),
    /// Other numbers.
    Real(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<bool>),
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// Nothing there.
    Missing,
    /// Words.
    Text(String),
    /// Whole number.
    Count(u64),
    /// Any other number.
    Real(f64),
    /// Yes or no.
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

/// Named and typed columns of one length.
#[derive(Debug, Clone)]
pub struct Frame(DataFrame);

impl Frame {
    /// A frame of columns.
    ///
    /// # Errors
    /// Columns of unequal length, or two of one name.
    pub fn new(columns: Vec<(&'static str, Values)>) -> Result<Self, FrameError> {
        let column = |(name, values)| column(name, values);
        Ok(Self(DataFrame::new_infer_height(columns.into_iter().map(column).collect())?))
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.0.height()
    }

    /// A column of words.
    ///
    /// # Errors
    /// No such column, or one of another type.
    pub fn texts(&self, name: &str) -> Result<impl ExactSizeIterator<Item = Option<&str>>, FrameError> {
        Ok(self.0.column(name)?.str()?.iter())
    }

    /// A column of whole numbers.
    ///
    /// # Errors
    /// As [`texts`](Self::texts).
    pub fn counts(&self, name: &str) -> Result<impl ExactSizeIterator<Item = Option<u64>>, FrameError> {
        Ok(self.0.column(name)?.u64()?.iter())
    }

    /// A column of other numbers.
    ///
    /// # Errors
    /// As [`texts`](Self::texts).
    pub fn reals(&self, name: &str) -> Result<impl ExactSizeIterator<Item = Option<f64>>, FrameError> {
        Ok(self.0.column(name)?.f64()?.iter())
    }

    /// A column of any type.
    ///
    /// # Errors
    /// No such column.
    pub fn values(&self, name: &str) -> Result<Values, FrameError> {
        let column = self.0.column(name)?;
        Ok(match column.dtype() {
            DataType::String => {
                Values::Text(column.str()?.iter().map(|text| text.map(str::to_owned)).collect())
            }
            DataType::UInt64 => Values::Count(column.u64()?.iter().collect()),
            DataType::Boolean => Values::Flag(column.bool()?.iter().flatten().collect()),
            _ => Values::Real(column.f64()?.iter().collect()),
        })
    }

    /// The rows in which a column of yes and no says yes.
    ///
    /// # Errors
    /// As [`texts`](Self::texts).
    pub fn filter(&self, flag: &str) -> Result<Self, FrameError> {
        Ok(Self(self.0.filter(self.0.column(flag)?.bool()?)?))
    }

    /// With the rows in the order of a column of words, byte by byte.
    ///
    /// # Errors
    /// No such column.
    pub fn sorted(&self, by: &str) -> Result<Self, FrameError> {
        Ok(Self(self.0.sort([by], SortMultipleOptions::default())?))
    }

    /// With one more column of numbers, or with others in it.
    ///
    /// # Errors
    /// Another number of rows.
    pub fn with(mut self, name: &'static str, values: Vec<f64>) -> Result<Self, FrameError> {
        self.0.with_column(Series::new(name.into(), values).into_column())?;
        Ok(self)
    }

    /// With one more column that has the same words in every row, in front.
    ///
    /// # Errors
    /// There is a column of this name.
    pub fn with_first(mut self, name: &'static str, text: &str) -> Result<Self, FrameError> {
        let column = Series::new(name.into(), vec![text; self.height()]).into_column();
        self.0.insert_column(0, column)?;
        Ok(self)
    }

    /// Frames of the same columns below one another.
    ///
    /// # Errors
    /// Their columns differ.
    pub fn stack(frames: impl IntoIterator<Item = Self>) -> Result<Option<Self>, FrameError> {
        let mut frames = frames.into_iter();
        let Some(mut first) = frames.next() else { return Ok(None) };
        for frame in frames {
            first.0.vstack_mut(&frame.0)?;
        }
        Ok(Some(first))
    }

    /// Frames of the rows with equal keys, in the order in which keys come first.
    ///
    /// # Errors
    /// No such column.
    pub fn partition(&self, keys: &[&str]) -> Result<Vec<Self>, FrameError> {
        if self.height() == 0 {
            return Ok(Vec::new());
        }
        Ok(self.0.partition_by_stable(keys.iter().copied(), true)?.into_iter().map(Self).collect())
    }

    /// Rows of equal keys, in the order in which keys come first.
    fn groups(&self, keys: &[&str]) -> PolarsResult<Vec<Vec<usize>>> {
        let groups = self.0.group_by_stable(keys.iter().copied())?;
        Ok(match &**groups.get_groups() {
            GroupsType::Idx(groups) => {
                groups.iter().map(|(_, rows)| rows.iter().map(|row| *row as usize).collect()).collect()
            }
            GroupsType::Slice { groups, .. } => {
                groups.iter().map(|[first, n]| (*first as usize..(first + n) as usize).collect()).collect()
            }
        })
    }

    /// Sums of `values` by the words of `by`: the clusters that statistics take.
    ///
    /// # Errors
    /// As [`texts`](Self::texts).
    pub fn clusters(&self, by: &str, values: &str) -> Result<BTreeMap<String, Cluster>, FrameError> {
        let (names, values) = (self.0.column(by)?.str()?, self.0.column(values)?.f64()?);
        let cluster = |rows: Vec<usize>| {
            let name = names.get(*rows.first()?)?.to_owned();
            let sum = rows.iter().filter_map(|row| values.get(*row)).sum();
            Some((name, Cluster { sum, n: rows.len() }))
        };
        Ok(self.groups(&[by])?.into_iter().filter_map(cluster).collect())
    }

    /// Rows of this frame with those of another that have the same keys; the other's columns of a name that is here as
    /// well end in `_right`. Each row finds one other at most where keys are unique there.
    ///
    /// # Errors
    /// No such column.
    pub fn inner_join(&self, other: &Self, keys: &[&str]) -> Result<Self, FrameError> {
        self.join(other, keys, JoinType::Inner)
    }

    /// As [`inner_join`](Self::inner_join), with all rows of this frame: what the other lacks is missing.
    ///
    /// # Errors
    /// No such column.
    pub fn left_join(&self, other: &Self, keys: &[&str]) -> Result<Self, FrameError> {
        self.join(other, keys, JoinType::Left)
    }

    fn join(&self, other: &Self, keys: &[&str], how: JoinType) -> Result<Self, FrameError> {
        let args = JoinArgs { maintain_order: MaintainOrderJoin::Left, ..JoinArgs::new(how) };
        Ok(Self(self.0.join(&other.0, keys.iter().copied(), keys.iter().copied(), args, None)?))
    }
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
