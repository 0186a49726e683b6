//! The position of a client among the events of all agentables: one for each cell. Its text is opaque to clients.

use std::fmt;
use std::str::FromStr;

use houston_store::event::EventPosition;

/// Positions in all cells that the stream reads, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Positions(pub(crate) Vec<EventPosition>);

/// Maximum length of a text. A snapshot names the transactions that were open.
const MAX_LENGTH: usize = 16 * 1024;

/// A text that is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPositions;

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, position) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str("_")?;
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
        let position = |part: &str| part.replace('.', ":").replace('-', ",").parse::<EventPosition>();
        let all: Result<Vec<_>, _> = text.split('_').map(position).collect();
        all.map(Self).map_err(|_| NoPositions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written() {
        let page = "1:5:2,3~1:9:~0190a5c1e0e07000800000000000cafe~3".parse().unwrap();
        let positions = Positions(vec!["7:7:".parse().unwrap(), page]);
        let text = positions.to_string();
        assert_eq!(text, "7.7._1.5.2-3~1.9.~0190a5c1e0e07000800000000000cafe~3");
        assert_eq!(text.parse(), Ok(positions));
        for wrong in ["", "_", "7.7", "7.7.__7.7.", "7.7.;drop", &"7".repeat(20_000)] {
            assert_eq!(wrong.parse::<Positions>(), Err(NoPositions), "{wrong:.30}");
        }
    }
}
