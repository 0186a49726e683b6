//! Cells: an installation may be spread over several, each with a Postgres and a Redis of its own. Everything of a user is
//! in one cell, and an id says in which: each cell has a range of [`Shard`]s. Usually there is one cell with all of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{Shard, shard};

/// The shards of one cell. Its text form is `0000-7fff`: the first and the last, four hex digits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRange {
    /// The first shard.
    pub first: Shard,
    /// The last shard, not less than the first.
    pub last: Shard,
}

impl ShardRange {
    /// All shards.
    pub const ALL: Self = Self { first: Shard(0), last: Shard(u16::MAX) };
}

impl fmt::Display for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A text that is no range of shards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a range of shards: write the first and the last with four hex digits each, like 0000-7fff"
)]
pub struct InvalidRange(String);

impl FromStr for ShardRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let end = |digits: &str| {
            let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten().map(Shard)
        };
        let ends = text.split_once('-').and_then(|(first, last)| Some((end(first)?, end(last)?)));
        match ends {
            Some((first, last)) if first <= last => Ok(Self { first, last }),
            _ => Err(InvalidRange(text.chars().take(80).collect())),
        }
    }
}

impl Serialize for ShardRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ShardRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Ranges that do not have each shard exactly once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCells {
    /// There is no cell.
    #[error("there is no cell: one with the shards 0000-ffff is the least")]
    None,
    /// No cell has these shards.
    #[error("no cell has the shards {0}")]
    Missing(ShardRange),
    /// Two cells have these shards.
    #[error("two cells have the shards {0}")]
    Twice(ShardRange),
}

/// What belongs to each cell, found by any id of a user's thing. Cheap to clone.
pub struct Cells<T>(Arc<[(ShardRange, T)]>);

impl<T> Clone for Cells<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Cells<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(range, cell)| (range, cell))).finish()
    }
}

impl<T> From<T> for Cells<T> {
    fn from(cell: T) -> Self {
        Self::one(cell)
    }
}

impl<T> Cells<T> {
    /// One cell with all shards.
    #[must_use]
    pub fn one(cell: T) -> Self {
        Self(Arc::new([(ShardRange::ALL, cell)]))
    }

    /// Cells with these ranges, in any order.
    ///
    /// # Errors
    /// [`InvalidCells`] unless each shard is in exactly one range.
    pub fn new(cells: impl IntoIterator<Item = (ShardRange, T)>) -> Result<Self, InvalidCells> {
        let mut cells: Vec<_> = cells.into_iter().collect();
        cells.sort_by_key(|(range, _)| range.first);
        check(cells.iter().map(|(range, _)| *range))?;
        Ok(Self(cells.into()))
    }

    /// The cell of the user or of the user's thing with this id.
    pub fn of(&self, id: impl Into<Uuid>) -> &T {
        self.with(shard(id))
    }

    /// The cell with this shard.
    #[must_use]
    pub fn with(&self, shard: Shard) -> &T {
        // Every shard is in a range, so the last range that begins at or before the shard has it.
        let next = self.0.partition_point(|(range, _)| range.first <= shard);
        &self.0[next.saturating_sub(1)].1
    }

    /// The cell with the first shard. Tenants, keys, agents and teams are changed there, and then copied to the others.
    #[must_use]
    pub fn home(&self) -> &T {
        &self.0[0].1
    }

    /// The cells other than [`Cells::home`].
    pub fn others(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().skip(1).map(|(_, cell)| cell)
    }

    /// All cells, in the order of their shards.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|(_, cell)| cell)
    }

    /// All cells with their shards, in order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (ShardRange, &T)> {
        self.0.iter().map(|(range, cell)| (*range, cell))
    }

    /// The number of cells, at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The same cells with something else for each.
    #[must_use]
    pub fn map<U>(&self, mut of: impl FnMut(&T) -> U) -> Cells<U> {
        Cells(self.0.iter().map(|(range, cell)| (*range, of(cell))).collect())
    }

    /// The same cells with something else for each.
    ///
    /// # Errors
    /// The first error of `of`.
    pub fn try_map<U, E>(&self, mut of: impl FnMut(&T) -> Result<U, E>) -> Result<Cells<U>, E> {
        let cells: Result<Vec<_>, E> = self.0.iter().map(|(range, cell)| Ok((*range, of(cell)?))).collect();
        Ok(Cells(cells?.into()))
    }
}

/// Checks that sorted ranges have each shard exactly once.
fn check(ranges: impl IntoIterator<Item = ShardRange>) -> Result<(), InvalidCells> {
    /// The shards from `first` up to the one before `end`.
    fn between(first: u32, end: u32) -> ShardRange {
        let shard = |number: u32| Shard(u16::try_from(number).unwrap_or(u16::MAX));
        ShardRange { first: shard(first), last: shard(end.saturating_sub(1)) }
    }
    const END: u32 = u16::MAX as u32 + 1;
    let mut next = 0;
    for range in ranges {
        let (first, end) = (u32::from(range.first.0), u32::from(range.last.0) + 1);
        if first > next {
            return Err(InvalidCells::Missing(between(next, first)));
        }
        if first < next {
            return Err(InvalidCells::Twice(between(first, next.min(end))));
        }
        next = end;
    }
    match next {
        0 => Err(InvalidCells::None),
        END => Ok(()),
        next => Err(InvalidCells::Missing(between(next, END))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cells(ranges: &[&str]) -> Result<Cells<usize>, InvalidCells> {
        Cells::new(ranges.iter().enumerate().map(|(nth, range)| (range.parse().unwrap(), nth)))
    }

    #[test]
    fn a_shard_belongs_to_the_cell_with_its_range() {
        let cells = cells(&["8000-ffff", "0000-7fff"]).unwrap();
        assert_eq!((*cells.with(Shard(0)), *cells.with(Shard(0x7fff))), (1, 1));
        assert_eq!((*cells.with(Shard(0x8000)), *cells.with(Shard(0xffff))), (0, 0));
        assert_eq!((*cells.home(), cells.others().copied().collect::<Vec<_>>()), (1, vec![0]));
        assert_eq!(*Cells::one("all").with(Shard(7)), "all");
    }

    #[test]
    fn missing_and_repeated_shards_are_named() {
        let error = |ranges: &[&str]| cells(ranges).unwrap_err().to_string();
        assert_eq!(error(&[]), "there is no cell: one with the shards 0000-ffff is the least");
        assert_eq!(error(&["0001-ffff"]), "no cell has the shards 0000-0000");
        assert_eq!(error(&["0000-7fff"]), "no cell has the shards 8000-ffff");
        assert_eq!(error(&["0000-7fff", "9000-ffff"]), "no cell has the shards 8000-8fff");
        assert_eq!(error(&["0000-8fff", "8000-ffff"]), "two cells have the shards 8000-8fff");
        assert_eq!(error(&["0000-ffff", "1000-1fff"]), "two cells have the shards 1000-1fff");
    }

    #[test]
    fn a_range_has_four_hex_digits_twice() {
        assert_eq!("0000-FFFF".parse(), Ok(ShardRange::ALL));
        assert_eq!(ShardRange::ALL.to_string(), "0000-ffff");
        for invalid in
            ["", "0000", "0-ffff", "0000-fffff", "8000-7fff", "+000-7fff", "0000-7ff€", "0000-7fff-"]
        {
            assert!(invalid.parse::<ShardRange>().is_err(), "{invalid}");
        }
    }

    proptest! {
        #[test]
        fn every_id_is_in_the_cell_whose_range_has_it(cuts in prop::collection::btree_set(1_u16.., 0..20), id: u128) {
            let first: Vec<u16> = std::iter::once(0).chain(cuts.iter().copied()).collect();
            let last = cuts.iter().map(|cut| cut - 1).chain([u16::MAX]);
            let ranges = first.iter().zip(last).map(|(first, last)| {
                let range = ShardRange { first: Shard(*first), last: Shard(last) };
                (range, range)
            });
            let cells = Cells::new(ranges).unwrap();
            let id = Uuid::from_u128(id);
            let range = cells.of(id);
            prop_assert!(range.first <= shard(id) && shard(id) <= range.last);
        }
    }
}
