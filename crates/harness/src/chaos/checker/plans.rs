//! R14: plans end once, whatever dies while they work.

use std::collections::BTreeMap;

use super::super::evidence::{Evidence, PlanRow};
use super::Finding;

/// R14: each plan has ended, and is reported once to its goal, unless it was cancelled together with the goal's run. Each of
/// its steps settled once; none is open after the end; no attempt has two executors, and none of them works on.
pub(super) fn plans(evidence: &Evidence, finding: &mut Finding) {
    let mut statuses = BTreeMap::<&str, usize>::new();
    for plan in &evidence.rows.plans {
        finding.of += 1;
        *statuses.entry(&plan.status).or_default() += 1;
        for fault in faults(plan) {
            finding.add(format!("plan {}, {}: {fault}", plan.id, plan.status));
        }
    }
    let sum = |of: fn(&PlanRow) -> i64| evidence.rows.plans.iter().map(of).sum::<i64>();
    finding.note = format!("{} steps, {} executors", sum(|plan| plan.steps), sum(|plan| plan.executors));
    for (status, count) in statuses {
        finding.note += &format!(", {count} {}", status.replace('_', "-"));
    }
}

fn faults(plan: &PlanRow) -> Vec<String> {
    let PlanRow { open_steps, settled, reports, ends, executors, working, attempts, .. } = *plan;
    let faults = [
        (!plan.ended, "it has not ended".to_owned()),
        (
            plan.ended && open_steps + working > 0,
            format!("it has ended, {open_steps} steps are open, {working} executors work"),
        ),
        (settled > 1, format!("a step settled {settled} times")),
        (
            reports > 1 || ends > 1,
            format!("its end was reported {reports} times, its stream has {ends} ends"),
        ),
        (plan.ended && reports == 0 && plan.status != "cancelled", "its end was not reported".to_owned()),
        (executors > attempts, format!("{executors} executors for {attempts} attempts")),
    ];
    faults.into_iter().filter_map(|(is_found, fault)| is_found.then_some(fault)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(change: fn(&mut PlanRow)) -> usize {
        let mut plan = PlanRow {
            id: "a".to_owned(),
            ended: true,
            status: "completed".to_owned(),
            steps: 3,
            settled: 1,
            reports: 1,
            ends: 1,
            executors: 1,
            attempts: 1,
            ..PlanRow::default()
        };
        change(&mut plan);
        let mut evidence = Evidence::default();
        evidence.rows.plans = vec![plan];
        let mut finding = Finding::default();
        plans(&evidence, &mut finding);
        finding.count
    }

    #[test]
    fn plan_that_ended_once_is_no_violation() {
        assert_eq!(count(|_| ()), 0);
        assert_eq!(count(|plan| (plan.status, plan.reports) = ("cancelled".to_owned(), 0)), 0);
    }

    #[test]
    fn stuck_plans_and_doubled_ends_are_found() {
        for wrong in [
            |plan: &mut PlanRow| plan.ended = false,
            |plan: &mut PlanRow| plan.open_steps = 1,
            |plan: &mut PlanRow| plan.settled = 2,
            |plan: &mut PlanRow| plan.reports = 2,
            |plan: &mut PlanRow| plan.reports = 0,
            |plan: &mut PlanRow| plan.ends = 2,
            |plan: &mut PlanRow| plan.executors = 2,
            |plan: &mut PlanRow| plan.working = 1,
        ] {
            assert_eq!(count(wrong), 1);
        }
    }
}
