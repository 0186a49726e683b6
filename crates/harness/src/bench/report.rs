//! What a scenario reports.

use std::fmt::Write as _;
use std::time::Duration;

use crate::spread::{Spread, round};

/// The result of a scenario.
#[derive(Debug)]
pub(crate) struct Report {
    /// What was measured, with its sizes.
    pub(crate) about: String,
    pub(crate) rows: Vec<Row>,
}

/// One figure, or several of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What it is, with its unit.
    what: String,
    values: Vec<f64>,
    aim: String,
    is_met: Option<bool>,
}

impl Row {
    /// A single value.
    pub(crate) fn of(what: impl Into<String>, value: f64) -> Self {
        Self::parts(what, vec![value])
    }

    /// Median and 99th percentile, in ms.
    pub(crate) fn spread(what: &str, times: impl IntoIterator<Item = Duration>) -> Self {
        let Spread { p50, p99 } = Spread::of(times);
        Self::parts(format!("{what}, ms p50 / p99"), vec![p50, p99])
    }

    /// Several values.
    pub(crate) fn parts(what: impl Into<String>, values: Vec<f64>) -> Self {
        Self { what: what.into(), values, aim: String::new(), is_met: None }
    }

    /// Begins with this what people read.
    pub(crate) fn titled(mut self, title: &str) -> Self {
        self.what = format!("{title}: {}", self.what);
        self
    }

    /// The aim: the values, in their order, are at most these. A value beyond has none.
    pub(crate) fn at_most(mut self, most: &[f64]) -> Self {
        let aims: Vec<String> = most.iter().map(|most| number(*most)).collect();
        self.aim = format!("≤ {}", aims.join(" / "));
        self.is_met = Some(self.values.iter().zip(most).all(|(value, most)| value <= most));
        self
    }

    /// The aim: the first value is at least this.
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.aim = format!("≥ {}", number(least));
        self.is_met = Some(self.values.first().is_some_and(|value| *value >= least));
        self
    }

    fn measured(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|value| number(*value)).collect();
        values.join(" / ")
    }
}

impl Report {
    /// Whether every aim is met.
    pub(crate) fn is_met(&self) -> bool {
        self.rows.iter().all(|row| row.is_met != Some(false))
    }

    /// The rows, with columns as wide as their widest field.
    pub(crate) fn table(&self) -> String {
        let met = |row: &Row| row.is_met.map_or("", |is_met| if is_met { "yes" } else { "NO" });
        let heading = [self.about.clone(), "measured".to_owned(), "aim".to_owned(), "met".to_owned()];
        let fields =
            |row: &Row| [format!("  {}", row.what), row.measured(), row.aim.clone(), met(row).to_owned()];
        let lines: Vec<_> = std::iter::once(heading).chain(self.rows.iter().map(fields)).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 4] = std::array::from_fn(width);
        let mut text = String::new();
        for [what, figures @ ..] in &lines {
            let mut line = format!("{what:<0$}", widths[0]);
            for (figure, width) in figures.iter().zip(&widths[1..]) {
                let _ = write!(line, "  {figure:>width$}");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// One line about the aims: how many are met, and what the others are about.
    pub(crate) fn summary(reports: &[(String, Self)]) -> String {
        let aims = reports.iter().flat_map(|(name, report)| report.rows.iter().map(move |row| (name, row)));
        let (met, missed): (Vec<_>, Vec<_>) =
            aims.filter(|(_, row)| row.is_met.is_some()).partition(|(_, row)| row.is_met == Some(true));
        let names: Vec<String> =
            missed.iter().map(|(name, row)| format!("{name}: {}", row.what.trim())).collect();
        let colon = if names.is_empty() { "" } else { "; missed: " };
        format!("{} of {} aims met{colon}{}", met.len(), met.len() + missed.len(), names.join("; "))
    }
}

/// With about three digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Converts bytes to MB.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    round(bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_aims_are_marked() {
        let rows = vec![
            Row::of("runs/s", 1100.0).at_least(1200.0),
            Row::spread("done", [4, 19].map(Duration::from_millis)).at_most(&[7.0]),
            Row::of("commits", 2.0),
        ];
        let report = Report { about: "a load".to_owned(), rows };
        let expected = "a load                   measured     aim  met\n\
                        \x20 runs/s                     1100  ≥ 1200   NO\n\
                        \x20 done, ms p50 / p99  4.00 / 19.0  ≤ 7.00  yes\n\
                        \x20 commits                    2.00\n";
        assert_eq!(report.table(), expected);
        assert_eq!(Report::summary(&[("load".to_owned(), report)]), "1 of 2 aims met; missed: load: runs/s");
    }
}
