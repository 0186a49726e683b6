//! What came of it.

use anyhow::Result;
use serde::Serialize;

/// One conversation.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) judge: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) case: &'static str,
    /// What is wrong; nothing, when all is well.
    pub(crate) faults: Vec<String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Line>);

impl Report {
    pub(crate) fn extend(&mut self, lines: Vec<Line>) {
        self.0.extend(lines);
    }

    pub(crate) fn failed(&self) -> usize {
        self.0.iter().filter(|line| !line.faults.is_empty()).count()
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.0)?)
    }

    /// A row for each provider, and below it what is wrong.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let mut rows: Vec<(&str, &str)> = Vec::new();
        for line in &self.0 {
            if !rows.contains(&(line.judge, line.provider)) {
                rows.push((line.judge, line.provider));
            }
        }
        for (judge, provider) in rows {
            let of_row = || self.0.iter().filter(|line| (line.judge, line.provider) == (judge, provider));
            let clean = of_row().filter(|line| line.faults.is_empty()).count();
            table += &format!("{judge:<8} {provider:<18} {clean:>2} of {} clean\n", of_row().count());
            for line in of_row() {
                for fault in &line.faults {
                    table += &format!("           {}: {fault}\n", line.case);
                }
            }
        }
        let total = self.0.len();
        table + &format!("providers: {} of {total} conversations clean", total - self.failed())
    }
}
