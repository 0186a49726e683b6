//! Wrong usage and invalid settings: exit code 2, and an error that says what is wrong, where, and what to do.

use std::process::{Command, Output};

use crate::test_houston::houston_command;

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command: Command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").args(arguments);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn refused(arguments: &[&str], variables: &[(&str, &str)], words: &[&str]) {
    let output = run(arguments, variables);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "`{stderr}` does not contain `{word}`");
    }
}

#[test]
fn serve_and_work_embed_only_on_request() {
    refused(&["serve"], &[], &["DATABASE_URL", "--embedded"]);
    refused(&["work"], &[("DATABASE_URL", "postgres://x@localhost/x")], &["HOUSTON_REDIS_URL", "--embedded"]);
}

#[test]
fn invalid_setting_names_key_origin_and_allowed_values() {
    let show = ["config", "show"];
    let variable = "HOUSTON_ORCHESTRATOR__LIMITS__MAX_ITERATIONS";
    refused(&show, &[(variable, "many")], &["orchestrator.limits.max_iterations", variable, "many"]);
    refused(&show, &[("HOUSTON_ORCHESTRATOR__LIMIT", "3")], &["limit", "limits"]);
    refused(&show, &[("HOUSTON_SERVER__ADDRESS", "here")], &["server.address", "127.0.0.1:8080"]);
    refused(&show, &[("HOUSTON_ORCHESTRATOR__LEASE__TRUST_S", "30")], &["trust_s", "less than ttl_s"]);
    refused(&show, &[("HOUSTON_MODEL", "groq, opnai")], &["model", "HOUSTON_MODEL", "did you mean openai?"]);
    let agent = "HOUSTON_MODELS__AGENT";
    refused(&show, &[(agent, "antropic")], &["models.agent", agent, "did you mean anthropic?"]);
    refused(&show, &[("HOUSTON_MODELS__AGENT__STRATEGY", "best")], &["models.agent", "smartest", "fallback"]);
}

#[test]
fn redirected_log_of_dev_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = std::fs::File::create(&path).unwrap();
    log.set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = houston_command();
    command
        .arg("dev")
        .env("DATABASE_URL", "none")
        .env("HOUSTON_REDIS_URL", "redis://127.0.0.1:1")
        .stdout(log);
    assert_eq!(command.output().unwrap().status.code(), Some(2));
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn invalid_settings_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    refused(&["config", "show", "--jobs", "/nope"], &[], &["/nope", "No such file", "--jobs"]);
    refused(&["config", "show"], &[("HOUSTON_JOBS", "/nope")], &["/nope", "HOUSTON_JOBS"]);
    refused(&["config", "show", "--jobs", env!("CARGO_BIN_EXE_houston")], &[], &["Not a directory"]);
    std::fs::write(folder.path().join("orchestratr.toml"), "").unwrap();
    refused(
        &["config", "show", "--jobs", path],
        &[],
        &["orchestratr.toml", "did you mean `orchestrator.toml`?"],
    );
}

#[test]
fn user_settings_are_read_from_the_user_folder() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("houston");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("server.toml"), "heartbeat_ms = 5").unwrap();
    let xdg = [("XDG_CONFIG_HOME", home.path().to_str().unwrap())];
    let output = run(&["config", "show", "--origin"], &xdg);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let line = format!("server.heartbeat_ms = 5  # {}", folder.join("server.toml").display());
    assert!(stdout.contains(&line), "{stdout}");
    std::fs::write(folder.join("sever.toml"), "").unwrap();
    refused(&["config", "show"], &xdg, &["sever.toml", "did you mean `server.toml`?"]);
}

#[test]
fn settings_are_printed_with_their_origin() {
    let variables = [("HOUSTON_SERVER__HEARTBEAT_MS", "3"), ("HOUSTON_MODELS__TITLES", "groq, openai")];
    let output = run(&["config", "show", "--origin"], &variables);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("orchestrator.limits.max_iterations = 20  # jobs/orchestrator.toml"), "{stdout}");
    assert!(stdout.contains("server.heartbeat_ms = 3  # HOUSTON_SERVER__HEARTBEAT_MS"), "{stdout}");
    assert!(stdout.contains("models.agent = \"auto\"  # jobs/models.toml"), "{stdout}");
    assert!(stdout.contains("models.titles = \"groq, openai\"  # HOUSTON_MODELS__TITLES"), "{stdout}");

    let table = r#"{strategy="cheapest", models=["groq", "openai"], needs=["tools"]}"#;
    let output = run(&["config", "show", "--origin"], &[("HOUSTON_MODELS__AGENT", table)]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("models.agent.strategy = \"cheapest\"  # HOUSTON_MODELS__AGENT"), "{stdout}");
    assert!(stdout.contains(r#"models.agent.models = ["groq","openai"]"#), "{stdout}");
}
