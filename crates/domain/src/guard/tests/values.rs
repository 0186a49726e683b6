//! Facts in force, and the values of arguments that rules compare.

use serde_json::json;

use super::super::clamp;
use super::*;

#[test]
fn the_installation_replaces_facts_and_others_tighten_them() {
    let top = "[tools.mail]\nrisk = 'read'\nlevel = 'read'\nrate_per_min = 20\nlimits = { limit = 50, '/page/size' = 10 }
               path_at = ['file']\nreads_private = false\nsends_out = false\ncategory = 'network_read'";
    let user = "[tools.mail]\nrisk = 'external'\nlevel = 'none'\nrate_per_min = 30\nlimits = { limit = 20, other = 1 }
                path_at = ['file', '/to/path']\nreads_private = true\nuntrusted_output = false";
    let own = ToolFacts::foreign();
    let facts = own.in_force(&layers(top, &[(LayerKind::User, user)]), "mail");
    let expected = ToolFacts {
        level: Level::Read,
        category: Category::NetworkRead,
        risk: Risk::External,
        path_at: vec!["/file".into(), "/to/path".into()],
        folder_at: vec![],
        host_at: vec![],
        in_place_of_host: None,
        reads_private: true,
        untrusted_output: true,
        sends_out: false,
        asks_each_time: false,
        reply: false,
        rate_per_min: Some(20),
        limits: [("/limit", 20), ("/other", 1), ("/page/size", 10)]
            .map(|(at, most)| (at.into(), most.into()))
            .into(),
    };
    assert_eq!(*facts, expected);
    let (input, notes) = clamp(&facts.limits, json!({"limit": 500, "page": {"size": 10}}));
    assert_eq!(input, json!({"limit": 20, "page": {"size": 10}}));
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn facts_of_other_tools_stay_as_they_are() {
    let own = ToolFacts::foreign();
    assert_eq!(*own.in_force(&layers("[tools.mail]\nrisk = 'read'", &[]), "mail2"), own);
}

#[test]
fn facts_are_stored_with_the_definition() {
    let facts = tool("send_email").unwrap();
    assert_eq!(serde_json::from_value::<ToolFacts>(serde_json::to_value(&facts).unwrap()).unwrap(), facts);
    assert_eq!(serde_json::from_value::<ToolFacts>(json!({})).unwrap(), ToolFacts::default());
}

/// Whether a rule that asks, and one that allows, match an argument.
fn matches(pattern: &str, value: &Value) -> [bool; 2] {
    ["ask", "allow"].map(|decide| {
        let rule =
            format!("[[rule]]\ntool = 'send_email'\nwhen = {{ '/to' = '{pattern}' }}\ndecide = '{decide}'");
        let layers = layers(&rule, &[]);
        judge(&layers, "send_email", &json!({ "to": value }), &full()).by.rule.starts_with("rule 1")
    })
}

#[test]
fn rules_that_restrict_match_generously_others_exactly() {
    for (pattern, value, expected) in [
        ("ann", json!("ann"), [true, true]),
        ("ann", json!("Ann"), [true, false]),
        ("ANN", json!("ann"), [true, false]),
        ("ann", json!(["bob", "ann"]), [true, false]),
        ("ann", json!(["ann", {"deep": ["ann"]}]), [true, true]),
        ("ann", json!([]), [false, false]),
        ("ann", json!(null), [false, false]),
        ("*", json!([]), [false, false]),
        ("*", json!("any/../thing"), [true, true]),
        ("a*", json!("a/b"), [true, false]),
        ("a**", json!("a/b"), [true, false]),
        ("a/**", json!("a/b/c"), [true, true]),
        ("a/**", json!("a/../c"), [true, false]),
        ("a/**", json!("a\\..\\c"), [false, false]),
        ("7", json!(7), [true, true]),
        ("true", json!(true), [true, true]),
        ("{ann,bob}", json!("bob"), [true, true]),
        ("?nn", json!("ann"), [true, true]),
        ("*ÄRGER*", json!("viel ärger"), [true, false]),
    ] {
        assert_eq!(matches(pattern, &value), expected, "{pattern} {value}");
    }
}

#[test]
fn no_spelling_of_a_path_leads_past_a_rule() {
    let judged = |ruling: &str, pattern: &str, path: Value| {
        let rule =
            format!("[[rule]]\ntool = 'write_file'\nwhen = {{ '/path' = '{pattern}' }}\ndecide = '{ruling}'");
        let facts = facts(Level::Write, Category::FileWrite, Risk::Write);
        let input = json!({ "path": path });
        let call =
            Call { tool: "write_file", facts: Some(&facts), input: &input, pin: None, pin_changed: false };
        let verdict = decide(&layers(&rule, &[]), &call, &full());
        verdict.by.rule.starts_with("rule 1")
    };
    for (pattern, path) in [
        ("config/*", json!("config/a")),
        ("config/*", json!("./config/a")),
        ("config/*", json!("config//a")),
        ("config/*", json!("x/../config/a")),
        ("config/*", json!(["notes/a", "./config/a"])),
        ("caf\u{e9}/*", json!("cafe\u{301}/a")),
        ("cafe\u{301}/*", json!("caf\u{e9}/a")),
    ] {
        assert!(judged("deny", pattern, path.clone()), "{pattern} {path}");
    }
    // What a rule allows, it allows as it is opened and as it is written.
    assert!(judged("allow", "notes/*", json!("notes/a")));
    assert!(!judged("allow", "notes/*", json!("./notes/a")));
    assert!(!judged("allow", "*/a", json!("config/../notes//a")));
}

#[test]
fn paths_are_compared_in_one_normal_form() {
    for (pattern, path, ruling_of) in [
        ("a.md", "\u{fc}.md", Ruling::Deny),
        ("u\u{308}.md", "\u{fc}.md", Ruling::Allow),
        ("\u{fc}.md", "u\u{308}.md", Ruling::Allow),
    ] {
        let facts = facts(Level::Read, Category::FileRead, Risk::Read);
        let input = json!({ "path": path });
        let call =
            Call { tool: "read_file", facts: Some(&facts), input: &input, pin: None, pin_changed: false };
        let verdict = decide(&layers(&format!("paths = ['{pattern}']"), &[]), &call, &full());
        assert_eq!(ruling(&verdict), ruling_of, "{pattern} {path}");
    }
}
