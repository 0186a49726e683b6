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
    let folder = tempfile::tempdir().unwrap();
    let tool = |name: &str| format!("GUARDS__TOOLS__{}__RATE_PER_MIN", name.to_uppercase());
    let (page, web) = (tool("fetch_page"), tool("search_web"));
    let variables = [
        ("LOG", "1e3"),
        ("METRICS_ADDRESS", ""),
        ("MODEL", "\"groq/a\\tb\""),
        ("MODEL_TOOLS", " false "),
        ("SERVER__HEARTBEAT_MS", "+007"),
        ("server__Retry_ms", " 12\t"),
        ("SERVER.POLL_MS", "13"),
        ("SERVER__ADDRESS", "[::1]:80"),
        ("SERVER__MAX_STREAMS", "18446744073709551615"),
        ("SERVER__CLIENTS__PROXIES", "[10.0.0.0/8, \"::1/128\",]"),
        ("WEB__HOSTS", "[ ]"),
        ("CONSOLE__BADGE", "'x'"),
        ("CONSOLE__OIDC__NAME", "\"a"),
        ("CONSOLE__OIDC__CLIENT_ID", "trueish"),
        ("CONSOLE__OIDC__SCOPES", "[[], a"),
        ("ORCHESTRATOR__BUDGET__PER_RUN", "0.50"),
        ("ORCHESTRATOR__BUDGET__PER_USER_DAY", "\"0.50\""),
        ("MODELS", "{quality={a=1, \"b\"=2}, titles = [groq, \"openai\"]}"),
        ("MODELS__AGENT", "groq, openai"),
        ("TEAMS", "5"),
        ("TEAMS__TIMEOUT_MS", "6"),
        ("RATES__", "7"),
        ("___RATES", "7"),
        ("URL", "read elsewhere"),
        (&page, "1"),
        (&web, "2"),
    ];
    // A list with an empty text, and a text that begins like a list.
    let refused = |name: &str| {
        let one: Vec<_> = variables.iter().filter(|(of, _)| *of == name).copied().collect();
        settings(folder.path(), &one).unwrap_err()
    };
    assert!(refused("WEB__HOSTS").contains("web.hosts (HOUSTON_WEB__HOSTS): ``: this is not a URL"));
    assert_eq!(
        refused("CONSOLE__OIDC__SCOPES"),
        "houston: console.oidc.scopes (HOUSTON_CONSOLE__OIDC__SCOPES): invalid type: found string \"[[], a\", expected a \
         sequence\n"
    );
    let fine: Vec<_> = variables
        .iter()
        .filter(|(name, _)| !["WEB__HOSTS", "CONSOLE__OIDC__SCOPES"].contains(name))
        .copied()
        .collect();
    let printed = settings(folder.path(), &fine).unwrap();
    for line in [
        "log = \"1e3\"  # HOUSTON_LOG",
        "metrics_address = \"\"  # HOUSTON_METRICS_ADDRESS",
        "model = \"groq/a\\tb\"  # HOUSTON_MODEL",
        "model_tools = false  # HOUSTON_MODEL_TOOLS",
        "server.heartbeat_ms = 7  # HOUSTON_SERVER__HEARTBEAT_MS",
        "server.retry_ms = 12  # HOUSTON_SERVER__RETRY_MS",
        "server.poll_ms = 13  # HOUSTON_SERVER__POLL_MS",
        "server.key_cache_s = 5  # jobs/server.toml",
        "server.address = \"[::1]:80\"  # HOUSTON_SERVER__ADDRESS",
        "server.max_streams = 18446744073709551615  # HOUSTON_SERVER__MAX_STREAMS",
        "server.clients.proxies = [\"10.0.0.0/8\",\"::1/128\"]  # HOUSTON_SERVER__CLIENTS__PROXIES",
        "console.badge = \"x\"  # HOUSTON_CONSOLE__BADGE",
        "console.oidc.name = \"\\\"a\"  # HOUSTON_CONSOLE__OIDC__NAME",
        "console.oidc.client_id = \"trueish\"  # HOUSTON_CONSOLE__OIDC__CLIENT_ID",
        "orchestrator.budget.per_run = \"0.5\"  # HOUSTON_ORCHESTRATOR__BUDGET__PER_RUN",
        "orchestrator.budget.per_user_day = \"0.50\"  # HOUSTON_ORCHESTRATOR__BUDGET__PER_USER_DAY",
        "models.quality.a = 1  # HOUSTON_MODELS__QUALITY__A",
        "models.quality.b = 2  # HOUSTON_MODELS__QUALITY__B",
        "models.quality.gpt-5 = 90  # jobs/models.toml",
        "models.titles = [\"groq\",\"openai\"]  # HOUSTON_MODELS__TITLES",
        "models.agent = \"groq, openai\"  # HOUSTON_MODELS__AGENT",
        "teams.timeout_ms = 6  # HOUSTON_TEAMS__TIMEOUT_MS",
        "guards.tools.fetch_page.rate_per_min = 1  # HOUSTON_GUARDS__TOOLS__FETCH_PAGE__RATE_PER_MIN",
        "guards.tools.search_web.rate_per_min = 2  # HOUSTON_GUARDS__TOOLS__SEARCH_WEB__RATE_PER_MIN",
    ] {
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
        ("CELLS__CELLS", "[{shards=postgres}]", "cells.cells.0.shards (HOUSTON_CELLS__CELLS__0__SHARDS): "),
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
