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

/// How many cases did not pass.
pub(crate) fn failed(results: &[CaseResult]) -> usize {
    results.iter().filter(|result| !result.faults.is_empty()).count()
}

/// A row per provider, followed by its faults.
pub(crate) fn table(results: &[CaseResult]) -> String {
    let mut table = String::new();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for result in results {
        if !rows.contains(&(result.judge, result.provider)) {
            rows.push((result.judge, result.provider));
        }
    }
    for (judge, provider) in rows {
        let of_row = || results.iter().filter(|result| (result.judge, result.provider) == (judge, provider));
        let clean = of_row().filter(|result| result.faults.is_empty()).count();
        table += &format!("{judge:<8} {provider:<18} {clean:>2} of {} clean\n", of_row().count());
        for result in of_row() {
            for fault in &result.faults {
                table += &format!("           {}: {fault}\n", result.case);
            }
        }
    }
    let total = results.len();
    table + &format!("providers: {} of {total} conversations clean", total - failed(results))
}
