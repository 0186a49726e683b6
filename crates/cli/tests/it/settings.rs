//! What files and variables become: values, origins, and the exact texts of errors.

use std::path::Path;

use crate::test_houston::houston_command;

/// The printed settings, or the error. `variables` begin with `HOUSTON_`, which is left out here.
fn settings(jobs: &Path, variables: &[(&str, &str)]) -> Result<String, String> {
    let mut command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL");
    command.args(["config", "show", "--origin", "--jobs"]).arg(jobs);
    let output = command
        .envs(variables.iter().map(|(name, value)| (format!("HOUSTON_{name}"), value)))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn variables_are_read_as_numbers_texts_lists_and_tables() {
    let cases = [
        ("LOG", "1e3", "log = \"1e3\"  # HOUSTON_LOG"),
        ("METRICS_ADDRESS", "", "metrics_address = \"\"  # HOUSTON_METRICS_ADDRESS"),
        ("MODEL", "\"groq/a\\tb\"", "model = \"groq/a\\tb\"  # HOUSTON_MODEL"),
        ("MODEL_TOOLS", " false ", "model_tools = false  # HOUSTON_MODEL_TOOLS"),
        ("SERVER__HEARTBEAT_MS", "+007", "server.heartbeat_ms = 7  # HOUSTON_SERVER__HEARTBEAT_MS"),
        ("server__Retry_ms", " 12\t", "server.retry_ms = 12  # HOUSTON_SERVER__RETRY_MS"),
        ("SERVER.POLL_MS", "13", "server.poll_ms = 13  # HOUSTON_SERVER__POLL_MS"),
        ("SERVER__ADDRESS", "[::1]:80", "server.address = \"[::1]:80\"  # HOUSTON_SERVER__ADDRESS"),
        ("URL", "read elsewhere", "server.key_cache_s = 5  # jobs/server.toml"),
        (
            "SERVER__MAX_STREAMS",
            "18446744073709551615",
            "server.max_streams = 18446744073709551615  # HOUSTON_SERVER__MAX_STREAMS",
        ),
        (
            "SERVER__CLIENTS__PROXIES",
            "[10.0.0.0/8, \"::1/128\",]",
            "server.clients.proxies = [\"10.0.0.0/8\",\"::1/128\"]  # HOUSTON_SERVER__CLIENTS__PROXIES",
        ),
        ("CONSOLE__BADGE", "'x'", "console.badge = \"x\"  # HOUSTON_CONSOLE__BADGE"),
        ("CONSOLE__OIDC__NAME", "\"a", "console.oidc.name = \"\\\"a\"  # HOUSTON_CONSOLE__OIDC__NAME"),
        (
            "CONSOLE__OIDC__CLIENT_ID",
            "trueish",
            "console.oidc.client_id = \"trueish\"  # HOUSTON_CONSOLE__OIDC__CLIENT_ID",
        ),
        (
            "ORCHESTRATOR__BUDGET__PER_RUN",
            "0.50",
            "orchestrator.budget.per_run = \"0.5\"  # HOUSTON_ORCHESTRATOR__BUDGET__PER_RUN",
        ),
        (
            "ORCHESTRATOR__BUDGET__PER_USER_DAY",
            "\"0.50\"",
            "orchestrator.budget.per_user_day = \"0.50\"  # HOUSTON_ORCHESTRATOR__BUDGET__PER_USER_DAY",
        ),
        (
            "MODELS",
            "{quality={a=1, \"b\"=2}, titles = [groq, \"openai\"]}",
            "models.quality.b = 2  # HOUSTON_MODELS__QUALITY__B",
        ),
        ("MODELS__AGENT", "groq, openai", "models.titles = [\"groq\",\"openai\"]  # HOUSTON_MODELS__TITLES"),
        ("RATES__", "7", "models.agent = \"groq, openai\"  # HOUSTON_MODELS__AGENT"),
        ("___RATES", "7", "models.quality.gpt-5 = 90  # jobs/models.toml"),
        ("TEAMS", "5", "teams.earlier_chars = 6  # HOUSTON_TEAMS__EARLIER_CHARS"),
        ("TEAMS__EARLIER_CHARS", "6", "teams.max_output_tokens = 1000  # jobs/teams.toml"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let printed = settings(folder.path(), &cases.map(|(name, value, _)| (name, value))).unwrap();
    for (.., line) in cases {
        assert!(printed.lines().any(|printed| printed == line), "`{line}` is not in: {printed}");
    }
}

#[test]
fn wrong_variables_are_refused_with_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value, error) in [
        ("MODEL", "5", "model (HOUSTON_MODEL): invalid type: found unsigned int `5`, expected a string"),
        ("LOG", "-5", "log (HOUSTON_LOG): invalid type: found signed int `-5`, expected a string"),
        ("LOG", "1.50", "log (HOUSTON_LOG): invalid type: found float `1.5`, expected a string"),
        ("LOG", "true", "log (HOUSTON_LOG): invalid type: found bool true, expected a string"),
        ("LOG", "{a=b}", "log (HOUSTON_LOG): invalid type: found map, expected a string"),
        ("LOG", "[a]", "log (HOUSTON_LOG): invalid type: found sequence, expected a string"),
        ("WEB__HOSTS", "[ ]", "web.hosts (HOUSTON_WEB__HOSTS): ``: this is not a URL"),
        (
            "CONSOLE__OIDC__SCOPES",
            "[[], a",
            "console.oidc.scopes (HOUSTON_CONSOLE__OIDC__SCOPES): invalid type: found string \"[[], a\", expected a sequence",
        ),
        (
            "LOG_FORMAT",
            "jsn",
            "log_format (HOUSTON_LOG_FORMAT): there is no value `jsn`; there are: text, json; did you mean `json`?",
        ),
        (
            "SERVER__HEARTBEAT_MS",
            "1e3",
            "server.heartbeat_ms (HOUSTON_SERVER__HEARTBEAT_MS): invalid type: found string \"1e3\", expected u64",
        ),
        (
            "MODELS__QUALITY__X",
            "256",
            "models.quality.x (HOUSTON_MODELS__QUALITY__X): invalid value unsigned int `256`, expected u8",
        ),
        (
            "SERVER__CLIENTS__PROXIES",
            "[10.0.0.0/8, x]",
            "server.clients.proxies.1 (HOUSTON_SERVER__CLIENTS__PROXIES__1): invalid IP address syntax",
        ),
        (
            "SERVER",
            "5",
            "server (HOUSTON_SERVER): invalid type: found unsigned int `5`, expected struct Config",
        ),
        (
            "SERVER__CORS__ORIGIN",
            "[]",
            "server.cors.origin (HOUSTON_SERVER__CORS__ORIGIN): there is no key `origin`; there are: origins; did you \
             mean `origins`?",
        ),
    ] {
        let printed = settings(folder.path(), &[(name, value)]).unwrap_err();
        assert!(printed.starts_with(&format!("houston: {error}")), "{name}={value}: {printed}");
    }
}

#[test]
fn wrong_variables_that_may_be_secrets_are_hidden() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value, error) in [
        (
            "PROVIDERS__GROQ__TOOLS",
            "sk-secret",
            "providers.groq.tools (HOUSTON_PROVIDERS__GROQ__TOOLS): the value (hidden) has the wrong type, expected a \
             boolean",
        ),
        (
            "PROVIDERS__GROQ__WIRE",
            "sk-secret",
            "providers.groq.wire (HOUSTON_PROVIDERS__GROQ__WIRE): the value (hidden) is invalid, allowed are ",
        ),
        (
            "CELLS__CELLS",
            "[{database_url=secret, name=5}]",
            "cells.cells.0.name (HOUSTON_CELLS__CELLS__0__NAME): the value (hidden)",
        ),
    ] {
        let printed = settings(folder.path(), &[(name, value)]).unwrap_err();
        assert!(printed.starts_with(&format!("houston: {error}")), "{name}={value}: {printed}");
        assert!(!printed.contains("secret"), "{printed}");
    }
}

#[test]
fn wrong_files_are_refused_with_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    for (file, text, key, reason) in [
        ("server", "heartbeat_ms = -5", "server.heartbeat_ms", "invalid value signed int `-5`, expected u64"),
        (
            "server",
            "clients = 5",
            "server.clients",
            "invalid type: found signed int `5`, expected struct Clients",
        ),
        ("server", "address = ['a']", "server.address", "invalid type: found sequence, expected a string"),
        ("models", "titles = true", "models.titles", "invalid type: found bool true, expected \"auto\""),
        ("packs", "[x]\ntools = []", "packs.x", "missing field `description`"),
        (
            "guards",
            "[[rule]]\ntool = 'x'\nwhy = 5",
            "guards.rule.0.why",
            "invalid type: found signed int `5`",
        ),
        (
            "sandbox",
            "shell = 'bublewrap'",
            "sandbox.shell",
            "there is no value `bublewrap`; there are: none, bubblewrap",
        ),
        ("cells", "cells = 5", "cells.cells", "the value (hidden) has the wrong type, expected a sequence"),
        ("server", "x =\n", "settings", "TOML parse error at line 1, column 4\n  |\n1 | x =\n  |    ^\n"),
        ("providers", "[groq]\nkey = sk-secret", "settings", "TOML parse error at line 2, column 7: "),
    ] {
        let path = folder.path().join(format!("{file}.toml"));
        std::fs::write(&path, text).unwrap();
        let printed = settings(folder.path(), &[]).unwrap_err();
        let expected = format!("houston: {key} ({}): {reason}", path.display());
        assert!(printed.starts_with(&expected), "{printed}");
        assert!(!printed.contains("secret"), "{printed}");
        std::fs::remove_file(path).unwrap();
    }
}
