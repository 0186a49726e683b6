//! Cells: an installation may be spread over several, each with a Postgres and a Redis of its own. Everything of a user is
//! in one cell, and an id says in which: each cell has a range of [`Shard`]s. Usually there is one cell with all of them.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

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

/// Shards that were moved: what the cell that gave them away and the one that got them both have written down. So one of the
/// two is enough to know it. Of several moves of a shard, the one with the highest version counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedShards {
    /// The shards.
    pub shards: ShardRange,
    /// How often shards of these cells were moved before.
    pub version: i64,
    /// The cell that has them now: the number of its place in the settings.
    pub cell: usize,
}

/// In which cell each shard is: ranges in the order of their shards, which together have each shard once.
type Places = Arc<[(ShardRange, usize)]>;

/// Where each shard is, when these were moved from where the settings have them.
#[must_use]
pub fn places(settings: &[ShardRange], moved: &[MovedShards]) -> Vec<(ShardRange, usize)> {
    let mut places: Vec<(ShardRange, usize)> = Vec::new();
    for shard in 0..=u16::MAX {
        let has = |range: &ShardRange| range.first.0 <= shard && shard <= range.last.0;
        let last = moved.iter().filter(|moved| has(&moved.shards)).max_by_key(|moved| moved.version);
        let cell = last.map_or_else(|| settings.iter().position(has).unwrap_or(0), |moved| moved.cell);
        match places.last_mut() {
            Some((range, before)) if *before == cell => range.last = Shard(shard),
            _ => places.push((ShardRange { first: Shard(shard), last: Shard(shard) }, cell)),
        }
    }
    places
}

/// What belongs to each cell, found by any id of a user's thing. Cheap to clone. What is made of it with [`Cells::map`] follows
/// the same moves.
pub struct Cells<T> {
    /// With their ranges in the settings, in order.
    cells: Arc<[(ShardRange, T)]>,
    places: Arc<RwLock<Places>>,
}

impl<T> Clone for Cells<T> {
    fn clone(&self) -> Self {
        Self { cells: Arc::clone(&self.cells), places: Arc::clone(&self.places) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Cells<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.cells.iter().map(|(range, cell)| (range, cell))).finish()
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
        Self::placed(vec![(ShardRange::ALL, cell)])
    }

    /// Cells with these ranges, in any order.
    ///
    /// # Errors
    /// [`InvalidCells`] unless each shard is in exactly one range.
    pub fn new(cells: impl IntoIterator<Item = (ShardRange, T)>) -> Result<Self, InvalidCells> {
        let mut cells: Vec<_> = cells.into_iter().collect();
        cells.sort_by_key(|(range, _)| range.first);
        check(cells.iter().map(|(range, _)| *range))?;
        Ok(Self::placed(cells))
    }

    /// Each shard is where the settings have it.
    fn placed(cells: Vec<(ShardRange, T)>) -> Self {
        let places: Places = cells.iter().enumerate().map(|(nth, (range, _))| (*range, nth)).collect();
        Self { cells: cells.into(), places: Arc::new(RwLock::new(places)) }
    }

    /// Follows moves: from now on, each shard is where [`places`] has it. So is it for all that was made of these with
    /// [`Cells::map`]. Returns whether that changed anything.
    pub fn follow(&self, moved: &[MovedShards]) -> bool {
        let settings: Vec<ShardRange> = self.cells.iter().map(|(range, _)| *range).collect();
        let known: Vec<MovedShards> =
            moved.iter().filter(|moved| moved.cell < settings.len()).copied().collect();
        let new = places(&settings, &known);
        let mut current = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = **current != *new;
        *current = new.into();
        is_new
    }

    /// The number of the cell with this shard, in the order of [`Cells::iter`].
    #[must_use]
    pub fn number_of(&self, shard: Shard) -> usize {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        // Every shard is in a range, so the last range that begins at or before the shard has it.
        let next = places.partition_point(|(range, _)| range.first <= shard);
        places[next.saturating_sub(1)].1
    }

    /// The cell of the user or of the user's thing with this id.
    pub fn of(&self, id: impl Into<Uuid>) -> &T {
        self.with(shard(id))
    }

    /// The cell with this shard.
    #[must_use]
    pub fn with(&self, shard: Shard) -> &T {
        &self.cells[self.number_of(shard)].1
    }

    /// The cell with the first shard of the settings. Tenants, keys, agents and teams are changed there, and then copied to the others.
    #[must_use]
    pub fn home(&self) -> &T {
        &self.cells[0].1
    }

    /// The cells other than [`Cells::home`].
    pub fn others(&self) -> impl ExactSizeIterator<Item = &T> {
        self.cells.iter().skip(1).map(|(_, cell)| cell)
    }

    /// All cells, in the order of their shards.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.cells.iter().map(|(_, cell)| cell)
    }

    /// All cells with their shards in the settings, in order. A range also names its cell, whatever was moved.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (ShardRange, &T)> {
        self.cells.iter().map(|(range, cell)| (*range, cell))
    }

    /// The number of cells, at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cells.len()
    }

    /// The same cells with something else for each.
    #[must_use]
    pub fn map<U>(&self, mut of: impl FnMut(&T) -> U) -> Cells<U> {
        let cells = self.cells.iter().map(|(range, cell)| (*range, of(cell))).collect();
        Cells { cells, places: Arc::clone(&self.places) }
    }

    /// The same cells with something else for each.
    ///
    /// # Errors
    /// The first error of `of`.
    pub fn try_map<U, E>(&self, mut of: impl FnMut(&T) -> Result<U, E>) -> Result<Cells<U>, E> {
        let cells: Result<Vec<_>, E> =
            self.cells.iter().map(|(range, cell)| Ok((*range, of(cell)?))).collect();
        Ok(Cells { cells: cells?.into(), places: Arc::clone(&self.places) })
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
    fn moved_shards_are_found_where_they_went() {
        let cells = cells(&["0000-7fff", "8000-ffff"]).unwrap();
        let names = cells.map(|nth| format!("cell {nth}"));
        let moved =
            |shards: &str, version, cell| MovedShards { shards: shards.parse().unwrap(), version, cell };
        // Both cells say the same, and the order does not matter.
        let first = [moved("9000-9fff", 1, 0), moved("9000-90ff", 2, 1), moved("9000-9fff", 1, 0)];
        assert!(cells.follow(&first));
        assert!(!cells.follow(&first), "nothing new");
        assert_eq!(
            ["8fff", "9000", "90ff", "9100", "9fff", "a000"]
                .map(|shard| { names.with(Shard(u16::from_str_radix(shard, 16).unwrap())).as_str() }),
            ["cell 1", "cell 1", "cell 1", "cell 0", "cell 0", "cell 1"]
        );
        assert_eq!(names.home(), "cell 0");
        assert!(
            cells.follow(&[moved("0000-ffff", 3, 7)]),
            "a cell that the settings do not have is left out"
        );
        assert_eq!(*cells.with(Shard(0x9100)), 1);
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
