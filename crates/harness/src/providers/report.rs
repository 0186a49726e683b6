//! The results of the conversations.

/// The result of one case with one provider.
#[derive(Debug)]
pub(crate) struct CaseResult {
    pub(crate) judge: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) case: &'static str,
    /// What went wrong; empty if the case passed.
    pub(crate) faults: Vec<String>,
}

/// The results of all cases.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<CaseResult>);

impl Report {
    pub(crate) fn extend(&mut self, results: Vec<CaseResult>) {
        self.0.extend(results);
    }

    pub(crate) fn failed(&self) -> usize {
        self.0.iter().filter(|result| !result.faults.is_empty()).count()
    }

    /// A row per provider, followed by its faults.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let mut rows: Vec<(&str, &str)> = Vec::new();
        for result in &self.0 {
            if !rows.contains(&(result.judge, result.provider)) {
                rows.push((result.judge, result.provider));
            }
        }
        for (judge, provider) in rows {
            let of_row =
                || self.0.iter().filter(|result| (result.judge, result.provider) == (judge, provider));
            let clean = of_row().filter(|result| result.faults.is_empty()).count();
            table += &format!("{judge:<8} {provider:<18} {clean:>2} of {} clean\n", of_row().count());
            for result in of_row() {
                for fault in &result.faults {
                    table += &format!("           {}: {fault}\n", result.case);
                }
            }
        }
        let total = self.0.len();
        table + &format!("providers: {} of {total} conversations clean", total - self.failed())
    }
}
