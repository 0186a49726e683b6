//! Cells: an installation may be spread over several, each with a Postgres and a Redis of its own. Everything of a user is
//! in one cell, and an id says in which: each cell began with a range of [`Shard`]s, or was added later without any, and shards
//! are moved between them. Usually there is one cell with all of them.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use uuid::Uuid;

use crate::id::{Shard, shard};
use crate::names::is_plain_name;

/// The shards of one cell. Its text form is `0000-7fff`: the first and the last, four hex digits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardRange {
    /// The first shard.
    pub first: Shard,
    /// The last shard, not less than the first.
    pub last: Shard,
}

impl ShardRange {
    /// All shards.
    pub const ALL: Self = Self { first: Shard(0), last: Shard(u16::MAX) };

    /// Whether a shard is among these.
    pub fn has(&self, shard: Shard) -> bool {
        self.first <= shard && shard <= self.last
    }
}

impl fmt::Display for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for ShardRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = |digits: &str| {
            let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten().map(Shard)
        };
        let ends = text.split_once('-').and_then(|(first, last)| Some((end(first)?, end(last)?)));
        match ends {
            Some((first, last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!(
                "`{text:.80}` is not a range of shards: write the first and the last with four hex digits each, like 0000-7fff"
            )),
        }
    }
}

as_text!(ShardRange, CellName);

/// Shards that were moved: what the cell that gave them away and the one that got them both have written down. So one of the
/// two is enough to know it. Of several moves of a shard, the one with the highest version counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MovedShards {
    /// The shards.
    pub shards: ShardRange,
    /// The move: higher than that of each earlier move of these shards.
    pub version: i64,
    /// The cell that has them since.
    pub cell: CellName,
}

/// Whether a cell has a shard, as far as it knows itself. Each cell knows the moves to it and from it, so what it says is right
/// at that moment, whatever others know.
pub fn has(cell: &CellName, knows: &[MovedShards], shard: Shard) -> bool {
    let last = knows.iter().filter(|moved| moved.shards.has(shard)).max_by_key(|moved| moved.version);
    last.map_or_else(|| cell.begins_with(shard), |moved| moved.cell == *cell)
}

/// In which cell each shard is: ranges in the order of their shards, which together have each shard once.
type Layout = Box<[(ShardRange, usize)]>;

/// Where each shard is, when these were moved from where the cells began. What was moved to a cell that is not among these is
/// where it was before.
fn layout(cells: &[&CellName], moved: &HashSet<MovedShards>) -> Layout {
    let mut of_shard = vec![0; usize::from(u16::MAX) + 1];
    let mut put = |shards: &ShardRange, cell: usize| {
        of_shard[usize::from(shards.first.0)..=usize::from(shards.last.0)].fill(cell);
    };
    for (nth, cell) in cells.iter().enumerate() {
        cell.shards().iter().for_each(|shards| put(shards, nth));
    }
    let mut moved: Vec<&MovedShards> = moved.iter().collect();
    moved.sort_by_key(|moved| moved.version);
    for MovedShards { shards, cell, .. } in moved {
        let Some(nth) = cells.iter().position(|other| *other == cell) else { continue };
        put(shards, nth);
    }
    let mut layout: Vec<(ShardRange, usize)> = Vec::new();
    for (shard, cell) in (0..=u16::MAX).zip(of_shard) {
        match layout.last_mut() {
            Some((range, before)) if *before == cell => range.last = Shard(shard),
            _ => layout.push((ShardRange { first: Shard(shard), last: Shard(shard) }, cell)),
        }
    }
    layout.into()
}

/// The moves, and where the shards are therefore.
struct Followed {
    moved: HashSet<MovedShards>,
    layout: Layout,
}

/// What belongs to each cell, found by any id of a user's thing. Cheap to clone. What is made of it with [`Cells::map`] follows
/// the same moves.
pub struct Cells<T> {
    /// In the order of the shards with which they began; then those without.
    cells: Arc<[(CellName, T)]>,
    followed: Arc<RwLock<Followed>>,
}

impl<T> Clone for Cells<T> {
    fn clone(&self) -> Self {
        Self { cells: Arc::clone(&self.cells), followed: Arc::clone(&self.followed) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Cells<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.cells.iter().map(|(name, cell)| (name, cell))).finish()
    }
}

impl<T> From<T> for Cells<T> {
    fn from(cell: T) -> Self {
        Self::one(cell)
    }
}

impl<T> Cells<T> {
    /// One cell with all shards.
    pub fn one(cell: T) -> Self {
        Self::placed(vec![(CellName::Shards(ShardRange::ALL), cell)])
    }

    /// Cells with these names, in any order: each shard must be in exactly one range, and each other name there once.
    pub fn new(cells: impl IntoIterator<Item = (impl Into<CellName>, T)>) -> Result<Self, String> {
        let mut cells: Vec<_> = cells.into_iter().map(|(name, cell)| (name.into(), cell)).collect();
        cells.sort_by_key(|(name, _)| name.shards().map_or((true, Shard(0)), |range| (false, range.first)));
        check(cells.iter().filter_map(|(name, _)| name.shards()))?;
        let repeated =
            (1..cells.len()).find(|nth| cells[..*nth].iter().any(|(name, _)| *name == cells[*nth].0));
        if let Some(nth) = repeated {
            return Err(format!("two cells have the name {}", cells[nth].0));
        }
        Ok(Self::placed(cells))
    }

    /// Each shard is where it began.
    fn placed(cells: Vec<(CellName, T)>) -> Self {
        let names: Vec<&CellName> = cells.iter().map(|(name, _)| name).collect();
        let moved = HashSet::new();
        let followed = Followed { layout: layout(&names, &moved), moved };
        Self { cells: cells.into(), followed: Arc::new(RwLock::new(followed)) }
    }

    /// Follows moves beside those that it follows already: from now on, each shard is where the last move has brought it. So is it for all that was
    /// made of these with [`Cells::map`], or of which these were made. Returns those that it did not know.
    pub fn follow(&self, moved: &[MovedShards]) -> Vec<MovedShards> {
        let read = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        let new: HashSet<&MovedShards> = moved.iter().filter(|moved| !read.moved.contains(*moved)).collect();
        let new: Vec<MovedShards> = new.into_iter().cloned().collect();
        drop(read);
        if !new.is_empty() {
            let names: Vec<&CellName> = self.cells.iter().map(|(name, _)| name).collect();
            let mut followed = self.followed.write().unwrap_or_else(PoisonError::into_inner);
            followed.moved.extend(new.iter().cloned());
            followed.layout = layout(&names, &followed.moved);
        }
        new
    }

    /// The shards that each cell has now, in the order of [`Cells::iter`].
    pub fn shards(&self) -> Vec<Vec<ShardRange>> {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        let of = |nth: usize| {
            followed.layout.iter().filter(|(_, cell)| *cell == nth).map(|(range, _)| *range).collect()
        };
        (0..self.count()).map(of).collect()
    }

    /// The number of the cell with this shard, in the order of [`Cells::iter`].
    pub fn number_of(&self, shard: Shard) -> usize {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        // Every shard is in a range, so the last range that begins at or before the shard has it.
        let next = followed.layout.partition_point(|(range, _)| range.first <= shard);
        followed.layout[next.saturating_sub(1)].1
    }

    /// The cell of the user or of the user's thing with this id.
    pub fn of(&self, id: impl Into<Uuid>) -> &T {
        self.with(shard(id))
    }

    /// The cell with this shard.
    pub fn with(&self, shard: Shard) -> &T {
        &self.cells[self.number_of(shard)].1
    }

    /// The cell with the first shard of the settings. Tenants, keys, agents and teams are changed there, and then copied to the others.
    pub fn home(&self) -> &T {
        &self.cells[0].1
    }

    /// The cells other than [`Cells::home`].
    pub fn others(&self) -> impl ExactSizeIterator<Item = &T> {
        self.cells.iter().skip(1).map(|(_, cell)| cell)
    }

    /// All cells: in the order of the shards with which they began, then those that began without.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.cells.iter().map(|(_, cell)| cell)
    }

    /// The cell with this number, in the order of [`Cells::iter`].
    pub fn get(&self, number: usize) -> Option<&T> {
        self.cells.get(number).map(|(_, cell)| cell)
    }

    /// All cells with their names, in the order of [`Cells::iter`].
    pub fn named(&self) -> impl ExactSizeIterator<Item = (&CellName, &T)> {
        self.cells.iter().map(|(name, cell)| (name, cell))
    }

    /// The number of the cell with this name.
    pub fn number_named(&self, name: &CellName) -> Option<usize> {
        self.cells.iter().position(|(other, _)| other == name)
    }

    /// The number of cells, at least one.
    pub fn count(&self) -> usize {
        self.cells.len()
    }

    /// The same cells with something else for each.
    pub fn map<U>(&self, mut of: impl FnMut(&T) -> U) -> Cells<U> {
        let cells = self.cells.iter().map(|(name, cell)| (name.clone(), of(cell))).collect();
        Cells { cells, followed: Arc::clone(&self.followed) }
    }

    /// The same cells with something else for each.
    ///
    /// # Errors
    /// The first error of `of`.
    pub fn try_map<U, E>(&self, mut of: impl FnMut(&T) -> Result<U, E>) -> Result<Cells<U>, E> {
        let cells: Result<Vec<_>, E> =
            self.cells.iter().map(|(name, cell)| Ok((name.clone(), of(cell)?))).collect();
        Ok(Cells { cells: cells?.into(), followed: Arc::clone(&self.followed) })
    }
}

/// Checks that sorted ranges have each shard exactly once.
fn check(ranges: impl IntoIterator<Item = ShardRange>) -> Result<(), String> {
    /// The shards from `first` up to the one before `end`.
    fn between(first: u32, end: u32) -> ShardRange {
        let shard = |number: u32| Shard(u16::try_from(number).unwrap_or(u16::MAX));
        ShardRange { first: shard(first), last: shard(end.saturating_sub(1)) }
    }
    const END: u32 = u16::MAX as u32 + 1;
    let missing = |first, end| format!("no cell has the shards {}", between(first, end));
    let mut next = 0;
    for range in ranges {
        let (first, end) = (u32::from(range.first.0), u32::from(range.last.0) + 1);
        ensure!(first <= next, missing(next, first));
        ensure!(first >= next, "two cells have the shards {}", between(first, next.min(end)));
        next = end;
    }
    match next {
        0 => Err("there is no cell: one with the shards 0000-ffff is the least".to_owned()),
        END => Ok(()),
        next => Err(missing(next, END)),
    }
}

/// Maximum length of a name.
const MAX_CHARS: usize = 40;

/// The name of a cell. It never changes: moves refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CellName {
    /// The shards with which the cell began, whatever was moved since.
    Shards(ShardRange),
    /// That of a cell that began without shards: a letter, then letters, digits and dashes.
    Added(String),
}

impl CellName {
    /// The shards with which the cell began.
    pub fn shards(&self) -> Option<ShardRange> {
        match self {
            Self::Shards(shards) => Some(*shards),
            Self::Added(_) => None,
        }
    }

    /// Whether the cell began with this shard.
    pub fn begins_with(&self, shard: Shard) -> bool {
        self.shards().is_some_and(|shards| shards.has(shard))
    }
}

impl From<ShardRange> for CellName {
    fn from(shards: ShardRange) -> Self {
        Self::Shards(shards)
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards(shards) => shards.fmt(f),
            Self::Added(name) => f.write_str(name),
        }
    }
}

impl FromStr for CellName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(shards) = text.parse() {
            return Ok(Self::Shards(shards));
        }
        ensure!(
            is_plain_name(text, b"-", MAX_CHARS),
            "`{text:.80}` is no name of a cell: it is a range of shards, like 8000-ffff, or up to 40 lower-case letters, digits \
             and dashes, of which the first is a letter"
        );
        Ok(Self::Added(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
