//! The results of an earlier evaluation, which a later one must not fall behind.
//!
//! ```json
//! {"booking": {"passed": true, "iterations": 4, "calls": 3, "cost": "0.0182"}}
//! ```
//!
//! A case has become worse when it passed and does not pass, when it needs more model calls, when it costs more than a tenth
//! more, and when it is missing. One that failed may fail again; a new one must pass.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use houston_domain::trace::compare::Way;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::commands::Failure;
use crate::commands::replay::file;

/// The largest file, in bytes.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// What an evaluation came to, by case.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Baseline(BTreeMap<String, Before>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    passed: bool,
    iterations: u32,
    calls: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<Decimal>,
}

impl Baseline {
    pub(super) fn of(outcomes: &[Outcome]) -> Self {
        let before = |Outcome { name, unmet, way, .. }: &Outcome| {
            let Way { iterations, cost, calls, .. } = way;
            let (iterations, cost) = (*iterations, *cost);
            let before = Before { passed: unmet.is_empty(), iterations, calls: calls.len(), cost };
            (name.clone(), before)
        };
        Self(outcomes.iter().map(before).collect())
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = file::text(path, MOST_BYTES)?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::Usage(anyhow!("{} is no baseline: {error}", path.display())))
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Adds what has become worse to the outcomes, and says which failures are excused.
    pub(super) fn compare(&self, outcomes: &mut Vec<Outcome>) {
        for outcome in &mut *outcomes {
            match self.0.get(&outcome.name) {
                Some(Before { passed: false, .. }) => outcome.excused = true,
                Some(before) => outcome.unmet.extend(before.worse(&outcome.way)),
                None => {}
            }
        }
        let missing = self.0.keys().filter(|name| !outcomes.iter().any(|outcome| outcome.name == **name));
        let missing: Vec<Outcome> = missing
            .map(|name| Outcome {
                name: name.clone(),
                unmet: vec!["baseline: the case is missing".to_owned()],
                excused: false,
                way: Way::default(),
                distance: 0,
            })
            .collect();
        outcomes.extend(missing);
    }
}

impl Before {
    fn worse(&self, way: &Way) -> Vec<String> {
        let mut worse = Vec::new();
        if way.iterations > self.iterations {
            worse.push(format!("baseline: {} model calls, {} before", way.iterations, self.iterations));
        }
        if let (Some(before), Some(now)) = (self.cost, way.cost)
            && now.saturating_sub(before) > before / Decimal::TEN
        {
            worse.push(format!("baseline: ${now}, ${before} before"));
        }
        worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, unmet: &[&str], iterations: u32, cents: i64) -> Outcome {
        let unmet = unmet.iter().map(|&unmet| unmet.to_owned()).collect();
        let way = Way { iterations, cost: Some(Decimal::new(cents, 2)), ..Way::default() };
        Outcome { name: name.to_owned(), unmet, excused: false, way, distance: 0 }
    }

    #[test]
    fn a_case_may_not_do_worse_than_its_baseline() {
        let baseline = Baseline::of(&[case("a", &[], 2, 100), case("b", &["no"], 2, 100)]);
        let read: Baseline = serde_json::from_str(&baseline.to_text()).unwrap();
        assert_eq!(read, baseline);
        let failed = |outcome: Outcome| {
            let mut outcomes = vec![case("a", &[], 2, 100), case("b", &["no"], 2, 100)];
            outcomes.retain(|other| other.name != outcome.name);
            outcomes.push(outcome);
            baseline.compare(&mut outcomes);
            outcomes.iter().any(Outcome::has_failed)
        };
        assert!(!failed(case("a", &[], 2, 110)));
        assert!(failed(case("a", &[], 2, 111)), "costs more");
        assert!(failed(case("a", &[], 3, 100)), "needs more model calls");
        assert!(failed(case("a", &["no"], 2, 100)));
        assert!(!failed(case("b", &["no"], 9, 900)), "it failed before, too");
        assert!(failed(case("new", &["no"], 1, 1)));
        let mut outcomes = vec![case("a", &[], 2, 100)];
        baseline.compare(&mut outcomes);
        assert_eq!(outcomes[1].unmet, ["baseline: the case is missing"]);
        assert!(outcomes[1].has_failed());
    }
}
