//! The file that comes with Houston, and the tools that come with it.

use serde_json::json;

use super::*;
use crate::tool_call::EffectClass;

fn shipped() -> Vec<Arc<Layer>> {
    let kind = LayerKind::Installation;
    let settings = GuardSettings::from_toml(kind, include_str!("../../../../../jobs/guards.toml")).unwrap();
    vec![Arc::new(Layer::compile(kind, "jobs/guards.toml", &settings).unwrap())]
}

/// The definitions of the tools of `crates/tools`.
fn definitions() -> Vec<Value> {
    let definitions: Value =
        serde_json::from_str(include_str!("../../../../tools/tests/it/definitions.json")).unwrap();
    let lists = ["tools", "tools_that_find_others"].map(|list| definitions[list].as_array().unwrap());
    lists.into_iter().flatten().cloned().collect()
}

/// Those tools, with the effect class of each.
fn built_in() -> Vec<(String, EffectClass)> {
    let tools = definitions().into_iter().map(|tool| {
        let effect = serde_json::from_value(tool["effect"].clone()).unwrap();
        (tool["name"].as_str().unwrap().to_owned(), effect)
    });
    tools.collect()
}

fn verdict(name: &str, effect: EffectClass, input: &Value, situation: &Situation<'_>) -> Verdict {
    let facts = ToolFacts::of_effect(effect);
    decide(
        &shipped(),
        &Call { tool: name, facts: Some(&facts), input, pin: None, pin_changed: false },
        situation,
    )
}

#[test]
fn each_built_in_tool_has_facts() {
    let settings =
        GuardSettings::from_toml(LayerKind::Installation, include_str!("../../../../../jobs/guards.toml"))
            .unwrap();
    for tool in definitions() {
        let name = tool["name"].as_str().unwrap();
        let says_so = tool["facts"]["category"] != "custom";
        let has_category = settings.tools.get(name).is_some_and(|facts| facts.category.is_some());
        assert!(
            says_so || has_category,
            "neither {name} nor [tools.{name}] of jobs/guards.toml states a category"
        );
    }
}

#[test]
fn built_in_tools_pass_unless_they_destroy_send_or_execute() {
    for (name, effect) in built_in() {
        let verdict = verdict(&name, effect, &json!({}), &Situation::new(Autonomy::Medium));
        let asks = name.starts_with("delete_")
            || ["http_request", "run_code", "run_snippet", "create_tool", "run_shell", "drop_table"]
                .contains(&name.as_str());
        let expected = if asks { Ruling::Ask } else { Ruling::Allow };
        assert_eq!(ruling(&verdict), expected, "{name}: {verdict:?}");
    }
}

#[test]
fn tools_for_files_ask_about_sensitive_paths() {
    let verdict = |name: &str, path: &str| {
        let effect = built_in().into_iter().find(|(tool, _)| tool == name).unwrap().1;
        verdict(name, effect, &json!({"path": path}), &Situation::new(Autonomy::Full))
    };
    for name in ["read_file", "list_files", "search_files", "write_file", "edit_file", "delete_file"] {
        for path in [".env", "a/.ssh/config", "MY-SECRETS/a", "./x/../.env.local"] {
            let verdict = verdict(name, path);
            assert!(
                matches!(verdict.decision, Decision::Ask { lasting: false, .. }),
                "{name} {path}: {verdict:?}"
            );
        }
        for path in ["../a", "/etc/passwd", "C:\\a"] {
            assert_eq!(ruling(&verdict(name, path)), Ruling::Deny, "{name} {path}");
        }
        let usual = if name == "delete_file" { Ruling::Ask } else { Ruling::Allow };
        assert_eq!(ruling(&verdict(name, "notes/plan.md")), usual, "{name}");
    }
}

#[test]
fn deleting_notes_and_forgetting_ask_each_time() {
    for autonomy in Autonomy::ALL {
        for (name, input) in [
            ("delete_note", json!({})),
            ("manage_memory", json!({"action": "forget"})),
            ("manage_todos", json!({"action": "delete"})),
            ("drop_table", json!({"table": "expenses"})),
        ] {
            let verdict = verdict(name, EffectClass::Idempotent, &input, &Situation::new(autonomy));
            assert!(matches!(verdict.decision, Decision::Ask { lasting: false, .. }), "{name}: {verdict:?}");
        }
    }
    for action in ["save", "recall", "read"] {
        let input = json!({"action": action, "content": "Never forget."});
        let verdict =
            verdict("manage_memory", EffectClass::Idempotent, &input, &Situation::new(Autonomy::Medium));
        assert_eq!(ruling(&verdict), Ruling::Allow, "{action}");
    }
}

#[test]
fn after_reading_pages_and_notes_what_sends_out_asks() {
    let tainted = Situation { untrusted_read: true, private_read: true, ..Situation::new(Autonomy::Full) };
    for (name, input, effect) in [
        ("fetch_page", json!({"url": "https://a.example/?q=secret"}), EffectClass::Read),
        ("search_web", json!({"query": "secret"}), EffectClass::Read),
        ("http_request", json!({"method": "POST", "url": "https://a.example"}), EffectClass::Effect),
    ] {
        let verdict = verdict(name, effect, &input, &tainted);
        assert!(matches!(verdict.decision, Decision::Ask { lasting: false, .. }), "{name}: {verdict:?}");
    }
}

#[test]
fn after_reading_notes_an_address_that_a_model_made_asks() {
    let texts = ["Read https://a.example/?q=1 for me"];
    let private = Situation { private_read: true, user_texts: &texts, ..Situation::new(Autonomy::Full) };
    let unread = Situation { private_read: false, ..private };
    let made = "ask, read, by address";
    for (name, input, situation, expected) in [
        (
            "fetch_page",
            json!({"url": "https://a.example/?q=1"}),
            &private,
            "allow, by installation profile: read",
        ),
        ("fetch_page", json!({"url": "https://a.example/?q=1&note=secret"}), &private, made),
        (
            "fetch_page",
            json!({"url": "https://a.example/secret"}),
            &unread,
            "allow, by installation profile: read",
        ),
        ("search_web", json!({"query": "trains"}), &private, "allow, by installation profile: read"),
    ] {
        let verdict = verdict(name, EffectClass::Read, &input, situation);
        assert_eq!(summary(&verdict), expected, "{name} {input}");
    }
}

#[test]
fn the_reply_passes_at_every_autonomy() {
    for autonomy in Autonomy::ALL {
        let tainted = Situation {
            untrusted_read: true,
            private_read: true,
            unattended: true,
            ..Situation::new(autonomy)
        };
        let verdict = verdict("send_message", EffectClass::Idempotent, &json!({"content": "hi"}), &tainted);
        assert_eq!(summary(&verdict), "allow, by reply");
    }
}

#[test]
fn tools_of_other_programs_ask_each_time() {
    let facts = ToolFacts::foreign();
    let call = Call { tool: "x__y", facts: Some(&facts), input: &json!({}), pin: None, pin_changed: false };
    let verdict = decide(&shipped(), &call, &full());
    assert_eq!(summary(&verdict), "ask each time, destructive, by installation profile: destructive");
}

#[test]
fn names_that_may_hold_secrets_ask() {
    let facts = ToolFacts { path_at: vec!["/path".into()], ..ToolFacts::of_effect(EffectClass::Read) };
    for path in
        [".env.local", "a/.ssh/id_ed25519", "deploy/tls.pem", "Credentials.json", "x.kdbx", "a/.git/config"]
    {
        let input = json!({"path": path});
        let call =
            Call { tool: "read_file", facts: Some(&facts), input: &input, pin: None, pin_changed: false };
        let verdict = decide(&shipped(), &call, &full());
        assert!(verdict.by.rule.starts_with("sensitive: "), "{path}: {verdict:?}");
    }
}

#[test]
fn folders_are_listed_whatever_paths_are_allowed() {
    let layers = [shipped(), vec![layer(LayerKind::Kind, "paths = ['docs/**']")]].concat();
    for (tool, input, decided) in [
        ("list_files", json!({}), "allow"),
        ("list_files", json!({"path": "notes"}), "allow"),
        ("search_files", json!({"regex": "x"}), "allow"),
        ("list_files", json!({"path": "../x"}), "deny"),
        ("list_files", json!({"path": "docs/.ssh"}), "ask"),
        ("read_file", json!({"path": "notes/a"}), "deny"),
    ] {
        let facts = ToolFacts::of_effect(EffectClass::Read);
        let call = Call { tool, facts: Some(&facts), input: &input, pin: None, pin_changed: false };
        let verdict = summary(&decide(&layers, &call, &full()));
        assert!(verdict.starts_with(decided), "{tool} {input}: {verdict}");
    }
}
