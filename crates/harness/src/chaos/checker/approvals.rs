//! R12: what people decide holds.

use std::collections::HashMap;

use super::super::decider::is_asked;
use super::super::evidence::{ApprovalRow, Evidence};
use super::Finding;

impl ApprovalRow {
    /// The operation that may be carried out.
    fn allowed(&self) -> Option<&str> {
        let answer = self.answer.as_ref().filter(|_| self.state == "answered")?;
        match answer["decision"].as_str()? {
            "approve" => self.op.as_deref(),
            "edit" => answer["input"]["op"].as_str(),
            _ => None,
        }
    }
}

/// R12: a call that needs a yes is carried out only after one, as it was allowed; an accepted decision is stored and stays; a
/// run does not end with an open question. That it is carried out once is R4, that a decided run ends R9.
pub(super) fn approvals(evidence: &Evidence, finding: &mut Finding) {
    let rows = &evidence.rows.approvals;
    let mut allowed: HashMap<&str, bool> =
        rows.iter().filter_map(|row| Some((row.allowed()?, false))).collect();
    let charges = evidence.ledgers.get("charge").map_or(&[][..], Vec::as_slice);
    for execution in charges.iter().filter(|execution| is_asked(&execution.call_id)) {
        finding.of += 1;
        match allowed.get_mut(execution.call_id.as_str()) {
            Some(was_executed) => *was_executed = true,
            None => finding.add(format!("{} was carried out without a yes", execution.call_id)),
        }
    }
    let by_id: HashMap<&str, &ApprovalRow> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    for decided in &evidence.decisions.decided {
        finding.of += 1;
        // A pause is no row here.
        let Some(row) = by_id.get(decided.question.as_str()) else { continue };
        if row.state != "answered" || row.answer.as_ref() != Some(&decided.answer) {
            finding.add(format!(
                "{}: {} was accepted, but it is {} {:?}",
                row.id, decided.answer, row.state, row.answer
            ));
        }
    }
    for row in rows.iter().filter(|row| row.state == "open" && row.run_ended) {
        finding.add(format!("{}: open, but its run has ended", row.id));
    }
    for wrong in &evidence.decisions.wrong {
        finding.add(wrong.clone());
    }
    let of = |state: &str| rows.iter().filter(|row| row.state == state).count();
    let executed = allowed.values().filter(|was_executed| **was_executed).count();
    finding.note = format!(
        "{} answered, {} superseded, {} cancelled; {executed} of {} yes carried out",
        of("answered"),
        of("superseded"),
        of("cancelled"),
        allowed.len()
    );
}

#[cfg(test)]
mod tests {
    use houston_testkit::tool_ledger::Execution;
    use serde_json::{Value, json};

    use super::super::super::decider::Decided;
    use super::*;

    fn row(id: &str, state: &str, answer: Option<Value>) -> ApprovalRow {
        let op = Some(format!("ask {id}"));
        ApprovalRow { id: id.to_owned(), state: state.to_owned(), answer, op, run_ended: true }
    }

    fn execution(op: &str) -> Execution {
        let execution = json!({"call_id": op, "idempotency_key": op, "at": "2026-11-22T00:00:00Z"});
        serde_json::from_value(execution).unwrap()
    }

    fn evidence() -> Evidence {
        let approve = json!({"decision": "approve"});
        let edit = json!({"decision": "edit", "input": {"op": "ask b edited"}});
        let decided = |question: &str, answer: &Value| Decided {
            question: question.to_owned(),
            answer: answer.clone(),
        };
        let mut evidence = Evidence::default();
        evidence.decisions.decided =
            vec![decided("a", &approve), decided("b", &edit), decided("a", &approve)];
        evidence.rows.approvals = vec![
            row("a", "answered", Some(approve)),
            row("b", "answered", Some(edit)),
            row("c", "answered", Some(json!({"decision": "reject"}))),
            row("d", "superseded", None),
        ];
        let charges = vec![execution("ask a"), execution("ask b edited"), execution("free")];
        evidence.ledgers.insert("charge".to_owned(), charges);
        evidence
    }

    fn found(evidence: &Evidence) -> Finding {
        let mut finding = Finding::default();
        approvals(evidence, &mut finding);
        finding
    }

    #[test]
    fn decisions_that_hold_are_no_violation() {
        let finding = found(&evidence());
        assert_eq!(finding.count, 0, "{:?}", finding.examples);
        assert_eq!(finding.note, "3 answered, 1 superseded, 0 cancelled; 2 of 2 yes carried out");
    }

    #[test]
    fn calls_without_a_yes_and_lost_decisions_are_found() {
        let violates = |change: fn(&mut Evidence)| {
            let mut evidence = evidence();
            change(&mut evidence);
            found(&evidence).count
        };
        for op in ["ask c", "ask d", "ask b", "ask e"] {
            let mut evidence = evidence();
            evidence.ledgers.get_mut("charge").unwrap().push(execution(op));
            assert_eq!(found(&evidence).count, 1, "{op}");
        }
        assert_eq!(violates(|evidence| evidence.rows.approvals[3].state = "open".to_owned()), 1);
        assert_eq!(violates(|evidence| evidence.decisions.wrong.push("404".to_owned())), 1);
        // Twice accepted otherwise: one of the two is lost.
        assert_eq!(
            violates(|evidence| evidence.decisions.decided[2].answer = json!({"decision": "reject"})),
            1
        );
    }
}
