//! What explanations and verdicts look like.

use serde_json::json;

use super::super::{StepTaken, explain};
use super::*;

#[test]
fn verdicts_are_small_json() {
    let layers = layers("[[rule]]\ntool = 'send_email'\ndecide = 'ask'\nwhy = 'mail is for people'", &[]);
    let verdict = judge(&layers, "send_email", &json!({}), &full());
    let expected = json!({
        "decision": "ask", "why": "mail is for people; sending something out needs a yes", "risk": "external", "lasting": true,
        "by": {"layer": "installation", "rule": "rule 1: send_email", "decision": "ask"},
    });
    assert_eq!(serde_json::to_value(&verdict).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Verdict>(expected).unwrap(), verdict);
    let by = judge(&layers, "read_file", &json!({"path": "/x"}), &full()).by;
    assert_eq!(serde_json::to_value(&by).unwrap(), json!({"rule": "path", "decision": "deny"}));
}

#[test]
fn explanations_list_every_step_with_its_layer() {
    let layers = layers("sensitive = ['.env']", &[(LayerKind::User, "level = 'write'\nprofile = 'strict'")]);
    let (facts, input) = (tool("write_file"), json!({"path": "a/.env"}));
    let call =
        Call { tool: "write_file", facts: facts.as_ref(), input: &input, pin: None, pin_changed: false };
    let explanation = explain(&layers, &call, &Situation::new(Autonomy::Medium));
    let line = |step: &StepTaken| {
        let layer = step.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
        format!(
            "{}{layer}: {}: {}",
            step.step,
            serde_json::to_value(step.outcome).unwrap().as_str().unwrap(),
            step.why
        )
    };
    let lines: Vec<String> = explanation.steps.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "tool: pass: it exists",
            "pin: pass: its definition is the approved one",
            "intent: pass: none is required",
            "denied installation: pass: it is not switched off",
            "denied user: pass: it is not switched off",
            "level installation: pass: write ≤ admin",
            "category installation: pass: file_write is allowed",
            "level user: pass: write ≤ write",
            "sensitive installation: ask: `a/.env` may hold secrets",
            "rule installation: pass: no rule is about this call",
            "rule user: pass: no rule is about this call",
            "profile installation: pass: profile: write: allow",
            "profile user: ask: changing data needs a yes",
            "autonomy: pass: autonomy: medium: write calls pass",
        ]
    );
    assert_eq!(summary(&explanation.verdict), "ask each time, write, by installation sensitive: .env");
}

#[test]
fn messages_quote_values_shortened() {
    let verdict = judge(
        &layers("", &[]),
        "read_file",
        &json!({"path": format!("../\u{7}{}", "x".repeat(500))}),
        &full(),
    );
    let Decision::Deny { why, .. } = verdict.decision else { panic!("{verdict:?}") };
    assert!(why.len() < 300 && why.contains('…') && !why.contains('\u{7}'), "{why}");
}
