//! The position of a client among the events of all agentables: one for each cell, with its name, because users move between
//! cells and cells are added. Its text is opaque to clients.

use std::fmt;
use std::str::FromStr;

use houston_domain::cell::CellName;
use houston_store::event::EventPosition;

/// The position in one cell. Positions of earlier versions do not name it.
pub(crate) type Place = (Option<CellName>, EventPosition);

/// Positions in all cells that the stream reads, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Positions(pub(crate) Vec<Place>);

impl Positions {
    /// The position in a cell, which is the one with the number `nth` of the `count` that a stream reads.
    pub(crate) fn of(&self, cell: &CellName, (nth, count): (usize, usize)) -> Option<&EventPosition> {
        let named = self.0.iter().find(|(name, _)| name.as_ref() == Some(cell));
        let unnamed = || self.0.get(nth).filter(|(name, _)| name.is_none() && self.0.len() == count);
        named.or_else(unnamed).map(|(_, position)| position)
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
        let positions =
            Positions(vec![(Some(first.clone()), seven.clone()), (Some(third.clone()), page.clone())]);
        let text = positions.to_string();
        assert_eq!(text, "0000-7fff!7.7._the-third!1.5.2-3~1.9.~0190a5c1e0e07000800000000000cafe~3");
        assert_eq!(text.parse(), Ok(positions.clone()));
        assert_eq!(positions.of(&third, (0, 1)), Some(&page), "whatever the order is");
        assert_eq!(positions.of(&"another".parse().unwrap(), (0, 2)), None);
        let unnamed: Positions = "7.7._9.9.".parse().unwrap();
        assert_eq!(unnamed.of(&first, (0, 2)), Some(&seven), "as an earlier version wrote it");
        assert_eq!(unnamed.of(&first, (0, 3)), None);
        for wrong in ["", "_", "7.7", "7.7.__7.7.", "7.7.;drop", "!7.7.", "a!b!7.7.", &"7".repeat(20_000)] {
            assert_eq!(wrong.parse::<Positions>(), Err(NoPositions), "{wrong:.30}");
        }
    }
}
