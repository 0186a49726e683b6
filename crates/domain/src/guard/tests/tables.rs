//! One row for each thing that a step may say of a tool and its arguments.

use serde_json::{Value, json};

use super::*;

const MEDIUM: Autonomy = Autonomy::Medium;
const FULL: Autonomy = Autonomy::Full;

/// Each row: the installation's settings, those of the user, the tool, its arguments, the autonomy, the verdict.
type Row = (&'static str, &'static str, &'static str, Value, Autonomy, &'static str);

fn check(rows: &[Row]) {
    for (installation, user, name, input, autonomy, expected) in rows {
        let lower = [(LayerKind::User, *user)];
        let layers = layers(installation, if user.is_empty() { &[] } else { &lower });
        let verdict = judge(&layers, name, input, &Situation::new(*autonomy));
        assert_eq!(
            summary(&verdict),
            *expected,
            "{name} {input} with {installation} and {user}: {verdict:?}"
        );
    }
}

#[test]
fn tools_that_are_switched_off() {
    let none = || json!({});
    check(&[
        ("", "", "no_such_tool", none(), FULL, "deny NOT_FOUND, by tool"),
        ("", "", "read_file", none(), FULL, "allow, by installation profile: read"),
        (
            "denied = ['*__delete_*']",
            "",
            "github__delete_repo",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by installation denied: *__delete_*",
        ),
        (
            "",
            "denied = ['x', 'write_file']",
            "write_file",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by user denied: write_file",
        ),
        (
            "denied = ['read_file']",
            "allowed = ['*']",
            "read_file",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by installation denied: read_file",
        ),
        (
            "denied = ['read_file']\nallowed = ['read_file']",
            "",
            "read_file",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by installation denied: read_file",
        ),
        ("denied = ['read']", "", "read_file", none(), FULL, "allow, by installation profile: read"),
    ]);
}

#[test]
fn levels_and_categories() {
    let none = || json!({});
    check(&[
        ("level = 'write'", "", "run_code", none(), FULL, "deny PERMISSION_DENIED, by installation level"),
        ("level = 'execute'", "", "run_code", none(), FULL, "ask, exec, by installation profile: exec"),
        ("level = 'none'", "", "read_file", none(), FULL, "deny PERMISSION_DENIED, by installation level"),
        ("", "level = 'read'", "write_file", none(), FULL, "deny PERMISSION_DENIED, by user level"),
        (
            "level = 'read'",
            "level = 'admin'",
            "write_file",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by installation level",
        ),
        (
            "level = 'read'\nallowed = ['write_*']",
            "",
            "write_file",
            none(),
            FULL,
            "allow, by installation profile: write",
        ),
        (
            "level = 'read'",
            "allowed = ['write_*']",
            "write_file",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by installation level",
        ),
        (
            "categories = ['file_read']",
            "",
            "write_file",
            none(),
            FULL,
            "deny PERMISSION_DENIED, by installation categories",
        ),
        ("categories = ['file_read']", "", "read_file", none(), FULL, "allow, by installation profile: read"),
        (
            "categories = ['file_read']\nallowed = ['write_file']",
            "",
            "write_file",
            none(),
            FULL,
            "allow, by installation profile: write",
        ),
        ("", "categories = []", "read_file", none(), FULL, "deny PERMISSION_DENIED, by user categories"),
    ]);
}

#[test]
fn paths_and_hosts() {
    let path = |path: &str| json!({ "path": path });
    let url = |url: &str| json!({ "url": url });
    let (src, example) = ("paths = ['src/**', 'README.md']", "hosts = ['*.example.com', 'example.com']");
    let (by_paths, by_hosts) =
        ("deny PERMISSION_DENIED, by installation paths", "deny PERMISSION_DENIED, by installation hosts");
    let (read, outside) = ("allow, by installation profile: read", "deny PERMISSION_DENIED, by path");
    check(&[
        (src, "", "read_file", path("src/a/b.rs"), FULL, read),
        (src, "", "read_file", path("./src//a.rs"), FULL, read),
        (src, "", "read_file", path("README.md"), FULL, read),
        (src, "", "read_file", path("src/../Cargo.toml"), FULL, by_paths),
        (src, "", "read_file", path("docs/README.md"), FULL, by_paths),
        // Without a path, a tool takes the whole workspace.
        (src, "", "read_file", json!({}), FULL, by_paths),
        (src, "", "read_file", json!({"path": ["src/a", "b"]}), FULL, by_paths),
        ("", "", "read_file", path("../x"), FULL, outside),
        ("", "", "read_file", path("/etc/passwd"), FULL, outside),
        ("", "", "read_file", path("a\\..\\..\\x"), FULL, outside),
        (
            "",
            "paths = ['docs/*']",
            "read_file",
            path("docs/a/b"),
            FULL,
            "deny PERMISSION_DENIED, by user paths",
        ),
        (src, "paths = ['**']", "read_file", path("docs/a"), FULL, by_paths),
        // Paths are no matter of tools without paths.
        (src, "", "send_email", json!({"to": "x"}), FULL, "ask, external, by installation profile: external"),
        (example, "", "fetch_page", url("https://example.com/a"), FULL, read),
        (example, "", "fetch_page", url("https://A.B.EXAMPLE.com."), FULL, read),
        (example, "", "fetch_page", url("https://example.com.evil.example/"), FULL, by_hosts),
        (example, "", "fetch_page", url("https://example.com@evil.example/"), FULL, by_hosts),
        (example, "", "fetch_page", url("https://evil.example\\@example.com/"), FULL, by_hosts),
        (example, "", "fetch_page", url("https://evilexample.com"), FULL, by_hosts),
        (example, "", "fetch_page", json!({}), FULL, by_hosts),
        ("", "", "fetch_page", url("https://anything.example"), FULL, read),
        ("", "hosts = ['EXAMPLE.com']", "fetch_page", url("http://example.com:80"), FULL, read),
        (example, "hosts = ['*']", "fetch_page", url("https://evil.example"), FULL, by_hosts),
    ]);
}

const EXTERNAL: &str = "ask, external, by installation profile: external";
const ACME: &str = "[[rule]]\ntool = 'github__*'\nwhen = { '/repo' = 'acme/*' }\ndecide = 'allow'";
const MAIL: &str =
    "[[rule]]\ntool = 'send_email'\nwhen = { '/to' = '*@rival.example' }\ndecide = 'deny'\nwhy = 'no'";

#[test]
fn rules_that_allow() {
    let repo = |repo: &str| json!({ "repo": repo });
    let (issue, external) = ("github__create_issue", EXTERNAL);
    check(&[
        (ACME, "", issue, repo("acme/web"), MEDIUM, "allow, by installation rule 1: github__*"),
        (ACME, "", issue, repo("x/y"), MEDIUM, external),
        (ACME, "", issue, repo("acme/.."), MEDIUM, external),
        (ACME, "", issue, repo("acme/web/../../x"), MEDIUM, external),
        (ACME, "", issue, json!({}), MEDIUM, external),
        (ACME, "", issue, json!({"repo": ["acme/web", "x/y"]}), MEDIUM, external),
        ("", ACME, issue, repo("acme/web"), FULL, external),
        ("profile = 'permissive'", "", issue, repo("x/y"), MEDIUM, "ask, external, by autonomy: medium"),
        // The rule of a lower layer lifts neither the autonomy's question nor that of another layer.
        (
            "profile = 'permissive'",
            ACME,
            issue,
            repo("acme/web"),
            MEDIUM,
            "ask, external, by autonomy: medium",
        ),
        (
            "profile = 'permissive'",
            "profile = 'balanced'",
            issue,
            repo("acme/web"),
            FULL,
            "ask, external, by user profile: external",
        ),
    ]);
}

#[test]
fn rules_that_restrict() {
    let denied_mail = "deny PERMISSION_DENIED, by installation rule 1: send_email";
    check(&[
        (MAIL, "", "send_email", json!({"to": "a@rival.example"}), FULL, denied_mail),
        (MAIL, "", "send_email", json!({"to": "A@RIVAL.example"}), FULL, denied_mail),
        (MAIL, "", "send_email", json!({"to": ["b@x.example", "a@rival.example"]}), FULL, denied_mail),
        (MAIL, "", "send_email", json!({"to": "a@rival.example.org"}), FULL, EXTERNAL),
        // Deny prevails over ask, and ask over allow, in whatever order they stand.
        (
            "[[rule]]\ntool = '*'\ndecide = 'allow'\n[[rule]]\ntool = 'read_*'\ndecide = 'ask'\n[[rule]]\n\
          tool = 'read_file'\ndecide = 'deny'\n[[rule]]\ntool = '*'\ndecide = 'ask'",
            "",
            "read_file",
            json!({}),
            FULL,
            "deny PERMISSION_DENIED, by installation rule 3: read_file",
        ),
        (
            "[[rule]]\ntool = '*'\ndecide = 'allow'\n[[rule]]\ntool = 'read_*'\ndecide = 'ask'",
            "",
            "read_file",
            json!({}),
            FULL,
            "ask, read, by installation rule 2: read_*",
        ),
        (
            "[[rule]]\ntool = 'read_*'\ndecide = 'ask'\n[[rule]]\ntool = '*'\ndecide = 'ask'\nalways = true",
            "",
            "read_file",
            json!({}),
            FULL,
            "ask each time, read, by installation rule 2: *",
        ),
        (
            "[[rule]]\ntool = 'read_*'\ndecide = 'ask'\nalways = true",
            "",
            "read_file",
            json!({}),
            FULL,
            "ask each time, read, by installation rule 1: read_*",
        ),
    ]);
}

#[test]
fn profiles_decide_by_risk() {
    check(&[
        ("", "profile = 'strict'", "read_file", json!({}), FULL, "allow, by installation profile: read"),
        ("", "profile = 'strict'", "write_file", json!({}), FULL, "ask, write, by user profile: write"),
        (
            "profile = 'strict'",
            "",
            "run_code",
            json!({}),
            FULL,
            "deny PERMISSION_DENIED, by installation profile: exec",
        ),
        (
            "profile = 'strict'",
            "profile = 'permissive'",
            "delete_file",
            json!({}),
            FULL,
            "deny PERMISSION_DENIED, by installation profile: destructive",
        ),
        ("profile = 'permissive'", "", "run_code", json!({}), FULL, "allow, by installation profile: exec"),
        (
            "profile = 'permissive'",
            "",
            "delete_file",
            json!({}),
            FULL,
            "ask each time, destructive, by installation profile: destructive",
        ),
        (
            "",
            "profile = { write = 'deny' }",
            "write_file",
            json!({}),
            FULL,
            "deny PERMISSION_DENIED, by user profile: write",
        ),
        (
            "",
            "profile = { write = 'deny' }",
            "read_file",
            json!({}),
            FULL,
            "allow, by installation profile: read",
        ),
    ]);
}

#[test]
fn foreign_tools_ask_and_the_reply_passes() {
    check(&[
        (
            "",
            "",
            "server__mystery",
            json!({}),
            FULL,
            "ask each time, destructive, by installation profile: destructive",
        ),
        // A person's agent may always answer.
        (
            "denied = ['*']\nlevel = 'none'\nintents = 'required'",
            "profile = 'strict'",
            "send_message",
            json!({}),
            Autonomy::None,
            "allow, by reply",
        ),
    ]);
}
