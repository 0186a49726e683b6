//! The position of a client among the events of all agentables: one for each cell, with its name if there are several, because
//! users move between cells and cells are added. Its text is opaque to clients.

use std::fmt;
use std::str::FromStr;

use houston_domain::cell::{CellName, ShardRange};
use houston_store::event::EventPosition;

/// The position in one cell. Where there is one cell only, and in positions of earlier versions, it has no name.
pub(crate) type Place = (Option<CellName>, EventPosition);

/// Positions in all cells that the stream reads, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Positions(pub(crate) Vec<Place>);

impl Positions {
    /// Gives positions without a name that of their cell, of all in an installation: the only one has all shards, also after others
    /// were added. One that an earlier version has made for a user stays without if it may be of any.
    pub(crate) fn named(mut self, cells: &[CellName]) -> Self {
        let has_whole = cells.first().is_some_and(|first| first.shards() == Some(ShardRange::ALL));
        if self.0.len() == cells.len() || self.0.len() == 1 && has_whole {
            for ((name, _), cell) in self.0.iter_mut().zip(cells) {
                name.get_or_insert_with(|| cell.clone());
            }
        }
        self
    }

    /// The position in a cell, which is one of `count` that a stream reads.
    pub(crate) fn of(&self, cell: &CellName, count: usize) -> Option<&EventPosition> {
        let named = self.0.iter().find(|(name, _)| name.as_ref() == Some(cell));
        let only = || self.0.first().filter(|(name, _)| name.is_none() && self.0.len() == 1 && count == 1);
        named.or_else(only).map(|(_, position)| position)
    }
}

/// Maximum length of a text. A snapshot names the transactions that were open.
const MAX_LENGTH: usize = 16 * 1024;

/// A text that is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPositions;

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (cell, position)) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str("_")?;
            }
            if let Some(cell) = cell {
                write!(f, "{cell}!")?;
            }
            // Without characters that would have to be escaped in a query.
            let text = position.to_string().replace(':', ".").replace(',', "-");
            f.write_str(&text)?;
        }
        Ok(())
    }
}

impl FromStr for Positions {
    type Err = NoPositions;

    fn from_str(text: &str) -> Result<Self, NoPositions> {
        if text.len() > MAX_LENGTH {
            return Err(NoPositions);
        }
        let place = |part: &str| -> Result<Place, NoPositions> {
            let (cell, position) =
                part.split_once('!').map_or((None, part), |(cell, rest)| (Some(cell), rest));
            let cell = cell.map(str::parse::<CellName>).transpose().map_err(|_| NoPositions)?;
            let position = position.replace('.', ":").replace('-', ",");
            Ok((cell, position.parse::<EventPosition>().map_err(|_| NoPositions)?))
        };
        text.split('_').map(place).collect::<Result<Vec<Place>, NoPositions>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written() {
        let page: EventPosition = "1:5:2,3~1:9:~0190a5c1e0e07000800000000000cafe~3".parse().unwrap();
        let (first, third): (CellName, CellName) =
            ("0000-7fff".parse().unwrap(), "the-third".parse().unwrap());
        let seven: EventPosition = "7:7:".parse().unwrap();
        let positions = Positions(vec![(Some(first), seven), (Some(third.clone()), page.clone())]);
        let text = positions.to_string();
        assert_eq!(text, "0000-7fff!7.7._the-third!1.5.2-3~1.9.~0190a5c1e0e07000800000000000cafe~3");
        assert_eq!(text.parse(), Ok(positions.clone()));
        assert_eq!(positions.of(&third, 1), Some(&page), "whatever the order is");
        assert_eq!(positions.of(&"another".parse().unwrap(), 2), None);
        for wrong in ["", "_", "7.7", "7.7.__7.7.", "7.7.;drop", "!7.7.", "a!b!7.7.", &"7".repeat(20_000)] {
            assert_eq!(wrong.parse::<Positions>(), Err(NoPositions), "{wrong:.30}");
        }
    }

    #[test]
    fn positions_without_names_are_of_the_cells_there_were() {
        let names =
            |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<CellName>>();
        let parse = |text: &str| text.parse::<Positions>().unwrap();
        let (seven, nine): (EventPosition, EventPosition) =
            ("7:7:".parse().unwrap(), "9:9:".parse().unwrap());
        let halves = names(&["0000-7fff", "8000-ffff"]);
        let both = parse("7.7._9.9.").named(&halves);
        assert_eq!((both.of(&halves[0], 2), both.of(&halves[1], 2)), (Some(&seven), Some(&nine)));
        assert_eq!(both.of(&halves[1], 1), Some(&nine), "of a user there");
        let of_user = parse("7.7.").named(&halves);
        assert_eq!((of_user.of(&halves[1], 1), of_user.of(&halves[1], 2)), (Some(&seven), None));
        let added = names(&["0000-ffff", "third"]);
        let before = parse("7.7.").named(&added);
        assert_eq!((before.of(&added[0], 2), before.of(&added[1], 1)), (Some(&seven), None));
        let one = parse("7.7.").named(&added[..1]);
        assert_eq!(one.of(&added[0], 1), Some(&seven));
    }
}
