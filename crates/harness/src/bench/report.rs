//! What a scenario reports: rows for people, and the same values by name for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::spread::{Spread, round};

/// The result of a scenario.
#[derive(Debug)]
pub(crate) struct Report {
    /// What was measured, with its sizes.
    pub(crate) about: String,
    pub(crate) rows: Vec<Row>,
}

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Its name in JSON.
    key: String,
    /// What it is, with its unit.
    what: String,
    /// With their names in JSON; a single one has none.
    values: Vec<(&'static str, f64)>,
    aim: String,
    is_met: Option<bool>,
}

impl Row {
    /// A single value.
    pub(crate) fn of(key: impl Into<String>, what: impl Into<String>, value: f64) -> Self {
        Self::parts(key, what, vec![("", value)])
    }

    /// Median and 99th percentile, in ms.
    pub(crate) fn spread(key: impl Into<String>, what: impl AsRef<str>, spread: Spread) -> Self {
        let what = format!("{}, ms p50 / p99", what.as_ref());
        Self::parts(key, what, vec![("p50", spread.p50), ("p99", spread.p99)])
    }

    /// Several values with a name each.
    pub(crate) fn parts(
        key: impl Into<String>,
        what: impl Into<String>,
        values: Vec<(&'static str, f64)>,
    ) -> Self {
        Self { key: key.into(), what: what.into(), values, aim: String::new(), is_met: None }
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
        self.is_met = Some(self.values.iter().zip(most).all(|((_, value), most)| value <= most));
        self
    }

    /// The aim: the first value is at least this.
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.aim = format!("≥ {}", number(least));
        self.is_met = Some(self.values.first().is_some_and(|(_, value)| *value >= least));
        self
    }

    fn measured(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|(_, value)| number(*value)).collect();
        values.join(" / ")
    }

    fn json(&self) -> Value {
        match self.values[..] {
            [("", value)] => json!(round(value)),
            _ => self.values.iter().map(|(name, value)| ((*name).to_owned(), json!(round(*value)))).collect(),
        }
    }
}

impl Report {
    /// The values by name: `{"about": "…", "done_ms": {"p50": 3.1, "p99": 6.0}, "runs_per_second": 1719.0, …}`.
    pub(crate) fn json(&self) -> Value {
        let mut values = Map::from_iter([("about".to_owned(), self.about.clone().into())]);
        values.extend(self.rows.iter().map(|row| (row.key.clone(), row.json())));
        values.into()
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
        let names: Vec<String> = missed.iter().map(|(name, row)| format!("{name}.{}", row.key)).collect();
        let colon = if names.is_empty() { "" } else { "; missed: " };
        format!("{} of {} aims met{colon}{}", met.len(), met.len() + missed.len(), names.join(", "))
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
            Row::of("rate", "runs/s", 1100.0).at_least(1200.0),
            Row::spread("done_ms", "done", Spread { p50: 4.0, p99: 19.0 }).at_most(&[7.0]),
            Row::of("commits", "commits", 2.0),
        ];
        let report = Report { about: "a load".to_owned(), rows };
        let expected = "a load                   measured     aim  met\n\
                        \x20 runs/s                     1100  ≥ 1200   NO\n\
                        \x20 done, ms p50 / p99  4.00 / 19.0  ≤ 7.00  yes\n\
                        \x20 commits                    2.00\n";
        assert_eq!(report.table(), expected);
        let values =
            json!({"about": "a load", "rate": 1100.0, "done_ms": {"p50": 4.0, "p99": 19.0}, "commits": 2.0});
        assert_eq!(report.json(), values);
        assert_eq!(Report::summary(&[("load".to_owned(), report)]), "1 of 2 aims met; missed: load.rate");
    }
}
