//! Steps that depend on the situation.

use serde_json::{Value, json};

use super::super::{CompiledGrant, Grant};
use super::*;
use crate::tool_call::EffectClass;

const MEDIUM: Autonomy = Autonomy::Medium;

#[test]
fn tool_that_asks_each_time_is_allowed_by_nothing_else() {
    let facts = ToolFacts { asks_each_time: true, ..ToolFacts::of_effect(EffectClass::Read) };
    let call = Call { tool: "make", facts: Some(&facts), input: &json!({}), pin: None, pin_changed: false };
    let rule = "profile = 'permissive'\n[[rule]]\ntool = 'make'\ndecide = 'allow'\nwhy = 'x'";
    let grants = grant(json!({"tool": "*"}));
    let verdict = decide(&layers(rule, &[]), &call, &Situation { grants: &grants, ..full() });
    assert!(matches!(verdict.decision, Decision::Ask { lasting: false, .. }), "{verdict:?}");
}

#[test]
fn call_with_something_in_the_place_of_an_address_needs_no_host() {
    let facts = ToolFacts {
        host_at: vec!["/url".into()],
        in_place_of_host: Some("/image_id"),
        sends_out: true,
        ..ToolFacts::of_effect(EffectClass::Read)
    };
    let limited = "profile = 'permissive'\nhosts = ['example.com']";
    let both = Situation { untrusted_read: true, private_read: true, ..full() };
    let judged = |facts: &ToolFacts, layer: &str, input: &Value| {
        let call = Call { tool: "look", facts: Some(facts), input, pin: None, pin_changed: false };
        ruling(&decide(&layers(layer, &[]), &call, &both))
    };
    for (input, expected) in [
        (json!({"image_id": "image_1"}), Ruling::Allow),
        (json!({"image_id": "image_1", "url": null}), Ruling::Allow),
        (json!({"image_id": "image_1", "url": "https://evil.example/"}), Ruling::Deny),
        (json!({"image_id": "image_1", "url": "https://example.com/"}), Ruling::Ask),
        (json!({"image_id": "image_1", "url": ""}), Ruling::Deny),
        (json!({"image_id": null, "url": null}), Ruling::Deny),
        (json!({"image_id": []}), Ruling::Deny),
        (json!({}), Ruling::Deny),
        (json!({"url": ""}), Ruling::Deny),
        (json!({"url": "https://evil.example/"}), Ruling::Deny),
        (json!({"url": "https://example.com/"}), Ruling::Ask),
    ] {
        assert_eq!(judged(&facts, limited, &input), expected, "{input}");
    }
    let required = ToolFacts { in_place_of_host: None, ..facts.clone() };
    assert_eq!(judged(&required, limited, &json!({"image_id": "image_1"})), Ruling::Deny);

    // Settings that look for the address elsewhere, or nowhere, do not turn a call with one into a call without.
    for host_at in ["[]", "['address']"] {
        let elsewhere = format!("profile = 'permissive'\n[tools.look]\nhost_at = {host_at}");
        let input = json!({"url": "https://evil.example/"});
        assert_eq!(judged(&facts, &elsewhere, &input), Ruling::Ask, "{host_at}");
        assert_eq!(judged(&facts, &elsewhere, &json!({"image_id": "image_1"})), Ruling::Allow, "{host_at}");
    }
}

#[test]
fn call_that_names_too_many_paths_for_the_patterns_is_denied() {
    let facts = ToolFacts { path_at: vec!["/paths".into()], ..ToolFacts::of_effect(EffectClass::Read) };
    let patterns = vec![format!("'*a{}b'", "?".repeat(200)); 100].join(", ");
    let judged = |count: usize| {
        let input = json!({"paths": vec!["docs/aaaaaaaaaaaaaaaaaaaa"; count]});
        let call = Call { tool: "look", facts: Some(&facts), input: &input, pin: None, pin_changed: false };
        let layer = format!("profile = 'permissive'\nsensitive = [{patterns}]");
        decide(&layers(&layer, &[]), &call, &full())
    };
    assert_eq!(ruling(&judged(2)), Ruling::Allow);
    let many = judged(10_000);
    assert_eq!(ruling(&many), Ruling::Deny);
    assert!(format!("{many:?}").contains("too much to compare"), "{many:?}");
}

#[test]
fn autonomy_is_enforced() {
    let open = "profile = { read = 'allow', write = 'allow', external = 'allow', exec = 'allow', destructive = 'allow' }";
    let layers = layers(open, &[]);
    let tools = ["read_file", "write_file", "send_email", "run_code", "delete_file"];
    for (autonomy, passing) in Autonomy::ALL.into_iter().zip([0, 1, 2, 4, 5]) {
        for (nth, name) in tools.into_iter().enumerate() {
            let verdict = judge(&layers, name, &json!({}), &Situation::new(autonomy));
            let expected = if nth < passing { Ruling::Allow } else { Ruling::Ask };
            assert_eq!(ruling(&verdict), expected, "{name} with autonomy {}", autonomy.as_str());
            if expected == Ruling::Ask {
                assert_eq!(verdict.by.rule, format!("autonomy: {}", autonomy.as_str()));
            }
        }
    }
}

#[test]
fn each_profile_has_its_own_answer_for_each_risk() {
    use Ruling::{Allow, Ask, Deny};
    let tools = ["read_file", "write_file", "send_email", "run_code", "delete_file"];
    for (profile, expected) in [
        ("permissive", [Allow, Allow, Allow, Allow, Ask]),
        ("balanced", [Allow, Allow, Ask, Ask, Ask]),
        ("strict", [Allow, Ask, Ask, Deny, Deny]),
    ] {
        let layers = layers(&format!("profile = '{profile}'"), &[]);
        let given = tools.map(|name| ruling(&judge(&layers, name, &json!({}), &full())));
        assert_eq!(given, expected, "{profile}");
    }
}

#[test]
fn rates_count_calls_of_the_last_minute() {
    let limited = "[tools.read_file]\nrate_per_min = 10";
    for (installation, user, calls, expected) in [
        (limited, "", 9, "allow, by installation profile: read"),
        (limited, "", 10, "deny RATE_LIMITED, by installation rate"),
        (limited, "[tools.read_file]\nrate_per_min = 3", 3, "deny RATE_LIMITED, by user rate"),
        (limited, "[tools.read_file]\nrate_per_min = 30", 10, "deny RATE_LIMITED, by installation rate"),
        ("", "", u32::MAX, "allow, by installation profile: read"),
    ] {
        let layers = layers(installation, &[(LayerKind::User, user)]);
        let situation = Situation { calls_last_minute: calls, ..full() };
        assert_eq!(summary(&judge(&layers, "read_file", &json!({}), &situation)), expected);
    }
}

#[test]
fn intents_are_required_and_raise_the_risk() {
    let required = "intents = 'required'";
    for (installation, user, name, claim, expected) in [
        (required, "", "read_file", None, "deny LLM_ASSIST_REQUIRED, by installation intents"),
        ("", required, "read_file", None, "deny LLM_ASSIST_REQUIRED, by user intents"),
        (required, "intents = 'off'", "read_file", None, "deny LLM_ASSIST_REQUIRED, by installation intents"),
        (required, "", "read_file", Some(None), "allow, by installation profile: read"),
        (
            "",
            "",
            "write_file",
            Some(Some(Risk::Destructive)),
            "ask each time, destructive, by installation profile: destructive",
        ),
        (
            "",
            "",
            "delete_file",
            Some(Some(Risk::Read)),
            "ask each time, destructive, by installation profile: destructive",
        ),
        // A claim does not lead out of a risk that is denied.
        (
            "",
            "profile = { external = 'deny' }",
            "send_email",
            Some(Some(Risk::Exec)),
            "deny PERMISSION_DENIED, by user profile: external",
        ),
    ] {
        let layers = layers(installation, &[(LayerKind::User, user)]);
        let claim = claim.map(intent);
        let situation = Situation { intent: claim.as_ref(), ..full() };
        assert_eq!(summary(&judge(&layers, name, &json!({}), &situation)), expected, "{name} {claim:?}");
    }
}

#[test]
fn changed_definitions_are_denied() {
    let (layers, facts) = (layers("", &[]), tool("read_file"));
    let call =
        Call { tool: "read_file", facts: facts.as_ref(), input: &json!({}), pin: None, pin_changed: true };
    assert_eq!(summary(&decide(&layers, &call, &full())), "deny PERMISSION_DENIED, by pin");
}

#[test]
fn without_guards_nothing_is_allowed() {
    let verdict = judge(&[], "send_message", &json!({}), &full());
    assert_eq!(summary(&verdict), "deny CONFIG_ERROR, by tool");
}

#[test]
fn foreign_and_private_text_stop_what_sends_out() {
    let lower = [(LayerKind::User, "")];
    let permissive =
        layers("profile = 'permissive'\n[[rule]]\ntool = 'send_email'\ndecide = 'allow'", &lower);
    let anything = grant(json!({"tool": "*"}));
    for (untrusted_read, private_read, name, expected) in [
        (true, true, "send_email", "ask each time, external, by rule of two"),
        (true, false, "send_email", "allow, by installation rule 1: send_email"),
        (false, true, "send_email", "allow, by installation rule 1: send_email"),
        (true, true, "read_file", "allow, by installation profile: read"),
    ] {
        let situation = Situation { untrusted_read, private_read, grants: &anything, ..full() };
        assert_eq!(summary(&judge(&permissive, name, &json!({}), &situation)), expected);
    }
}

#[test]
fn questions_without_a_person_are_refused_where_set() {
    for (installation, user, attended, expected) in [
        ("", "", false, "ask, external, by installation profile: external"),
        ("unattended = 'deny'", "", true, "ask, external, by installation profile: external"),
        (
            "unattended = 'deny'",
            "unattended = 'ask'",
            false,
            "deny PERMISSION_DENIED, by installation unattended: profile: external",
        ),
        ("", "unattended = 'deny'", false, "deny PERMISSION_DENIED, by user unattended: profile: external"),
    ] {
        let layers = layers(installation, &[(LayerKind::User, user)]);
        let situation = Situation { unattended: !attended, ..full() };
        assert_eq!(summary(&judge(&layers, "send_email", &json!({}), &situation)), expected);
    }
}

fn grant(grant: Value) -> Vec<CompiledGrant> {
    vec![serde_json::from_value::<Grant>(grant).unwrap().compile(LayerKind::User).unwrap()]
}

#[test]
fn grants_lift_lasting_questions_only() {
    let external = "ask, external, by installation profile: external";
    let acme = json!({"repo": "acme/web", "draft": true});
    for (given, name, input, pin, expected) in [
        (
            json!({"tool": "github__create_issue"}),
            "github__create_issue",
            acme.clone(),
            None,
            "allow, by grant: github__create_issue",
        ),
        (
            json!({"tool": "github__*", "when": {"/repo": {"glob": "acme/*"}, "/draft": {"equals": true}}}),
            "github__create_issue",
            acme.clone(),
            None,
            "allow, by grant: github__*",
        ),
        (
            json!({"tool": "github__*", "when": {"/draft": {"equals": false}}}),
            "github__create_issue",
            acme.clone(),
            None,
            external,
        ),
        (
            json!({"tool": "github__*", "when": {"/repo": {"glob": "acme/*"}}}),
            "github__create_issue",
            json!({"repo": "acme/.."}),
            None,
            external,
        ),
        (
            json!({"tool": "github__*", "when": {"/repo": {"glob": "*"}}}),
            "github__create_issue",
            json!({}),
            None,
            external,
        ),
        (json!({"tool": "send_email"}), "github__create_issue", acme.clone(), None, external),
        (
            json!({"tool": "github__*", "pin": "one"}),
            "github__create_issue",
            acme.clone(),
            Some("one"),
            "allow, by grant: github__*",
        ),
        (
            json!({"tool": "github__*", "pin": "one"}),
            "github__create_issue",
            acme.clone(),
            Some("two"),
            external,
        ),
        (json!({"tool": "github__*"}), "github__create_issue", acme, Some("two"), external),
        (
            json!({"tool": "*"}),
            "delete_file",
            json!({}),
            None,
            "ask each time, destructive, by installation profile: destructive",
        ),
    ] {
        let (layers, facts, grants) = (layers("", &[]), tool(name), grant(given));
        let call = Call { tool: name, facts: facts.as_ref(), input: &input, pin, pin_changed: false };
        let situation = Situation { grants: &grants, ..Situation::new(MEDIUM) };
        assert_eq!(summary(&decide(&layers, &call, &situation)), expected, "{input}");
    }
}

#[test]
fn grants_do_not_lift_a_denial() {
    let layers = layers("denied = ['send_email']", &[]);
    let situation = Situation { grants: &grant(json!({"tool": "*"})), ..full() };
    let verdict = judge(&layers, "send_email", &json!({}), &situation);
    assert_eq!(summary(&verdict), "deny PERMISSION_DENIED, by installation denied: send_email");
}
