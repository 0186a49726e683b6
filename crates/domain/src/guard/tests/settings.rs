//! Wrong settings: what the errors say.

use serde_json::json;

use super::super::Grant;
use super::*;

/// The error of reading and compiling `toml` as the settings of a tenant.
fn error(toml: &str) -> String {
    of_layer(LayerKind::Tenant, toml)
}

fn of_layer(kind: LayerKind, toml: &str) -> String {
    GuardSettings::from_toml(kind, toml)
        .and_then(|settings| Layer::compile(kind, "acme", &settings).map(|_| ()))
        .unwrap_err()
        .to_string()
}

/// Each row: the settings of a tenant, and the parts of their error.
fn check(rows: &[(String, Vec<&str>)]) {
    for (toml, parts) in rows {
        let error = error(toml);
        for part in parts {
            assert!(error.contains(part), "{part:?} is missing in {error:?}");
        }
    }
}

#[test]
fn errors_name_the_layer_the_rule_and_what_is_allowed() {
    let rule = |rest: &str| format!("[[rule]]\ntool = 'a'\ndecide = 'ask'\n[[rule]]\ntool = 'b__*'\n{rest}");
    check(&[
        ("levle = 'read'".to_owned(), vec!["guards of the tenant", "unknown field `levle`", "`level`"]),
        ("level = 'reed'".to_owned(), vec!["unknown variant `reed`", "`none`, `read`, `write`"]),
        ("categories = ['files']".to_owned(), vec!["unknown variant `files`", "`file_read`"]),
        (
            "profile = 'careful'".to_owned(),
            vec!["unknown variant `careful`", "`permissive`, `balanced`, `strict`"],
        ),
        ("profile = 3".to_owned(), vec!["`permissive`, `balanced`, `strict`, or a table of `read`"]),
        ("profile = { reed = 'ask' }".to_owned(), vec!["unknown field `reed`", "`destructive`"]),
        ("intents = 'on'".to_owned(), vec!["`off` or `required`"]),
        ("unattended = 'allow'".to_owned(), vec!["`ask` or `deny`"]),
        (
            "paths = ['a/[']".to_owned(),
            vec!["guards of the tenant, `paths`: the pattern `a/[` is wrong", "`**`"],
        ),
        ("hosts = ['']".to_owned(), vec!["`hosts`", "it is empty"]),
        (format!("denied = ['{}']", "x".repeat(300)), vec!["`denied`", "more than 256 characters"]),
        (format!("allowed = [{}]", "'x',".repeat(300)), vec!["`allowed`", "300 entries", "at most 200"]),
        ("[[rule]]\ntool = 'a'\ndecide = 'ask'\n".repeat(201), vec!["`rule`", "201 entries", "at most 200"]),
        (
            "[[rule]]\ntool = 'a'\ndecide = 'ask'\nwhen = { '/a' = 'x', '/b' = 'y', '/c' = 'z' }\n"
                .repeat(200),
            vec!["`rule.when`", "600 entries", "at most 500"],
        ),
        (rule("decide = 'maybe'"), vec!["unknown variant `maybe`", "`allow`, `ask`, `deny`"]),
        (rule("decide = 'ask'\npriority = 1"), vec!["unknown field `priority`"]),
        (
            rule("decide = 'ask'\nwhen = { repo = 'x' }"),
            vec![
                "guards of the tenant, rule 2 (b__*), `repo`: `repo` is not a JSON pointer: it begins with `/`",
            ],
        ),
        (
            rule("decide = 'ask'\nwhen = { '/repo' = '{a' }"),
            vec!["rule 2 (b__*), `/repo`", "the pattern `{a` is wrong"],
        ),
        (rule("decide = 'allow'\nalways = true"), vec!["rule 2 (b__*)", "`always`", "decide = \"ask\""]),
        (
            rule("decide = 'ask'\nwhen = { '/a' = 'x*' }\nmatch = [{ a = 'xy' }, { a = 'yx' }]"),
            vec!["rule 2 (b__*): the rule must match its `match` example {\"a\":\"yx\"}, and does not"],
        ),
        (
            rule("decide = 'ask'\nwhen = { '/a' = 'x*' }\nnot_match = [{ a = 'xy' }]"),
            vec!["rule 2 (b__*): the rule must not match its `not_match` example {\"a\":\"xy\"}, and does"],
        ),
    ]);
}

#[test]
fn errors_about_tools_name_the_tool_and_the_key() {
    check(&[
        (
            "[[rule]]\ntool = 'a['\ndecide = 'ask'".to_owned(),
            vec!["rule 1 (a[)", "the pattern `a[` is wrong"],
        ),
        (
            "[tools.x]\nreply = true".to_owned(),
            vec!["[tools.x] `reply`: only the installation's settings may set it"],
        ),
        ("[tools.x]\ncategory = 'agent'".to_owned(), vec!["[tools.x] `category`"]),
        ("[tools.'x__*']\nrisk = 'read'".to_owned(), vec!["[tools.x__*]", "facts are about one tool"]),
        ("[tools.x]\nlimits = { limit = 'all' }".to_owned(), vec!["limits"]),
    ]);
}

#[test]
fn the_installation_gives_every_value() {
    let whole: toml::Table = OPEN.parse().unwrap();
    for key in whole.keys() {
        let mut rest = whole.clone();
        rest.remove(key);
        let error = of_layer(LayerKind::Installation, &rest.to_string());
        assert!(error.contains(&format!("guards of the installation, `{key}`: it is missing")), "{error}");
    }
    let mut rest = whole;
    rest.insert("profile".into(), toml::Table::from_iter([("read".to_owned(), "ask".into())]).into());
    let error = of_layer(LayerKind::Installation, &rest.to_string());
    assert!(error.contains("`profile.write`: it is missing"), "{error}");
}

#[test]
fn lower_layers_may_be_empty() {
    for kind in &LayerKind::ALL[1..] {
        let layers = layers("", &[(*kind, "")]);
        let verdict = judge(&layers, "write_file", &json!({"path": "a"}), &full());
        assert_eq!(summary(&verdict), "allow, by installation profile: write");
    }
}

#[test]
fn wrong_grants_name_their_tool_and_pointer() {
    for (grant, expected) in [
        (json!({"tool": "a["}), "guards of the user, the grant of a[: the pattern `a[` is wrong"),
        (
            json!({"tool": "a", "when": {"b": {"equals": 1}}}),
            "the grant of a, `b`: `b` is not a JSON pointer",
        ),
        (
            json!({"tool": "a", "when": {"/b": {"glob": "["}}}),
            "the grant of a, `/b`: the pattern `[` is wrong",
        ),
    ] {
        let error = serde_json::from_value::<Grant>(grant).unwrap().compile(LayerKind::User).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn layers_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Layer>();
}
