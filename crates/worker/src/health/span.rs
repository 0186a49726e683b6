//! Time spans as text.

use std::fmt;

/// Seconds, displayed in the two largest units: `45 s`, `3 min`, `2 h 5 min`, `15 d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours, minutes, seconds) =
            (self.0 / 86_400, self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        let parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")];
        let largest = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
        let (count, unit) = parts[largest];
        write!(f, "{count} {unit}")?;
        match parts.get(largest + 1) {
            Some((count, unit)) if *count > 0 => write!(f, " {count} {unit}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_two_units_at_most() {
        for (seconds, text) in [
            (0, "0 s"),
            (45, "45 s"),
            (180, "3 min"),
            (200, "3 min 20 s"),
            (7500, "2 h 5 min"),
            (3601, "1 h"),
            (86_400, "1 d"),
            (1_296_000, "15 d"),
            (180_000, "2 d 2 h"),
        ] {
            assert_eq!(Span(seconds).to_string(), text);
        }
    }
}
