//! Commands for operators: list, state, cancel, doctor, keys, help and completions.

use std::process::Output;
use std::time::Instant;

use serde_json::Value;

use crate::people::People;
use crate::test_houston::{PATIENCE, TestHouston, houston_command};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn in_folder(folder: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = houston_command();
    command.arg("--folder").arg(folder).args(arguments);
    for name in ["DATABASE_URL", "HOUSTON_REDIS_URL", "HOUSTON_JOBS"] {
        command.env_remove(name);
    }
    command.env("HOUSTON_MODEL", "simulated").output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_the_ids_that_other_commands_take() {
    let (people, _) = People::start().await;
    let (one, other) = (people.houston.goal("Tokyo").await, people.houston.goal("Lima").await);
    people.talk(&one, "hello").await;
    let (stdout, _) = people.output(&["list", "goals"]);
    assert!(stdout.starts_with("ID") && stdout.contains(&one) && stdout.contains("Tokyo"), "{stdout}");
    let ids = |listed: &Value| -> Vec<String> {
        let rows = listed["data"].as_array().unwrap();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&people.json(&["list", "goals", "--json"])), [other, one.clone()]);
    let user = people.user(&one).await;
    let user = user.as_str().unwrap();
    assert_eq!(ids(&people.json(&["list", "goal", "--user", user, "--json"])), [one.as_str()]);
    assert!(ids(&people.json(&["list", "users", "--json"])).contains(&user.to_owned()));
    let runs = people.json(&["list", "runs", "--json", "--limit", "1"]);
    assert_eq!(
        (&runs["data"][0]["agentable_id"], &runs["has_more"]),
        (&Value::from(one), &Value::from(false))
    );
    assert_eq!(ids(&people.json(&["list", "--tenant", "nobody", "--json"])), [""; 0]);
    for what in ["agents", "teams"] {
        assert!(people.json(&["list", what, "--json"])["data"].is_array());
    }
    let wrong = people.run(&["list", "gaols"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("did you mean `goals`?"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_a_goal_and_a_run() {
    let (people, gate) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    assert_eq!(people.output(&["cancel", &goal]).0, "no run is open\n");
    for by_run in [false, true] {
        let message = people.houston.post(&goal, &format!("wait {by_run}"), "wait").await;
        let run = message["run_id"].as_str().unwrap().to_owned();
        people
            .houston
            .wait_until(&format!("/v1/runs/{run}"), "running", |run| run["status"] == "running")
            .await;
        let id = if by_run { &run } else { &goal };
        assert_eq!(people.json(&["cancel", id, "--json"])["cancelled_runs"][0], run.as_str());
        people
            .houston
            .wait_until(&format!("/v1/runs/{run}"), "cancelled", |run| run["status"] == "cancelled")
            .await;
    }
    gate.open();
    let unknown = people.run(&["cancel", &format!("run_{}", "0".repeat(32))]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("houston list"), "{unknown:?}");
}

#[test]
fn doctor_reports_what_is_missing_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = in_folder(folder.path(), &["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let check =
        |id: &str| found["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap();
    assert_eq!(check("settings")["status"], "ok");
    assert_eq!(check("sandbox")["status"], "ok", "{found}");
    assert_eq!((&check("postgres")["status"], &check("models")["status"]), (&"warn".into(), &"warn".into()));
    assert!(check("postgres")["todo"].as_str().unwrap().contains("houston dev"), "{found}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it creates nothing");

    let houston = TestHouston::start();
    let servers = houston.servers.lock().unwrap();
    let mut command = crate::test_houston::environment(houston_command(), &servers, houston.folder.path());
    let output = command.arg("doctor").output().unwrap();
    let stdout = text(&output.stdout);
    for line in
        ["ok      postgres", "ok      schema", "ok      row_security", "ok      api_keys", "ok      redis"]
    {
        assert!(stdout.contains(line), "`{stdout}` does not contain `{line}`");
    }
    let mut command = crate::test_houston::environment(houston_command(), &servers, houston.folder.path());
    let output = command.arg("doctor").env("DATABASE_URL", "postgres://x@127.0.0.1:1/x").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("postgres: start it, or correct DATABASE_URL"), "{output:?}");
}

#[test]
fn keys_are_listed_as_a_table_or_as_json() {
    let houston = TestHouston::start();
    let run = |arguments: &[&str]| {
        let servers = houston.servers.lock().unwrap();
        let mut command =
            crate::test_houston::environment(houston_command(), &servers, houston.folder.path());
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).to_owned()
    };
    assert!(run(&["key", "list"]).starts_with("ID "));
    let listed: Value = serde_json::from_str(&run(&["key", "list", "--json"])).unwrap();
    assert_eq!(
        (&listed["data"][0]["status"], &listed["data"][0]["tenant"]),
        (&"active".into(), &"test".into())
    );
    assert_eq!(listed["data"][0]["scopes"], serde_json::json!(["admin"]));
    let user = format!("user_{}", "0".repeat(32));
    let made = ["key", "create", "--scope", "read,post", "--user", &user, "--expires-in", "30m", "--json"];
    let made: Value = serde_json::from_str(&run(&made)).unwrap();
    assert_eq!(
        (&made["scopes"], &made["user_id"]),
        (&serde_json::json!(["read", "post"]), &user.as_str().into())
    );
    assert_eq!(made["key"].as_str().unwrap().len(), "hou_".len() + 72);
    for (wrong, says) in [
        (["--scope", "write"], "`write` is no scope"),
        (["--user", &user], "cannot have the scope `admin`"),
        (["--expires-in", "2w"], "`90d`, `12h` or `30m`"),
    ] {
        let servers = houston.servers.lock().unwrap();
        let mut command =
            crate::test_houston::environment(houston_command(), &servers, houston.folder.path());
        let output = command.args(["key", "create"]).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(says), "{output:?}");
    }
    let id = listed["data"][0]["id"].as_str().unwrap();
    let revoked: Value = serde_json::from_str(&run(&["key", "revoke", id, "--json"])).unwrap();
    assert_eq!(revoked["status"], "revoked");
}

#[test]
fn issuers_are_listed_and_revoked_like_keys() {
    let houston = TestHouston::start();
    let run = |arguments: &[&str]| {
        let servers = houston.servers.lock().unwrap();
        let mut command =
            crate::test_houston::environment(houston_command(), &servers, houston.folder.path());
        command.args(["key"]).args(arguments).output().unwrap()
    };
    let create = |jwks_url: &str, scope: &str| {
        let issuer = ["--issuer", "https://login.example.com/", "--audience", "houston"];
        run(&[&["create", "--jwks-url", jwks_url, "--scope", scope, "--json"], &issuer[..]].concat())
    };
    const URL: &str = "https://login.example.com/jwks.json";
    for (url, scope, says) in [
        (URL, "admin", "an issuer cannot have the scope `admin`"),
        ("http://login.example.com/", "read", "`jwks_url` must begin with `https://`"),
        ("https://", "read", "--jwks-url"),
    ] {
        let refused = create(url, scope);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(says), "{refused:?}");
    }
    let incomplete = run(&["create", "--issuer", "https://login.example.com/"]);
    assert!(text(&incomplete.stderr).contains("--audience"), "{incomplete:?}");

    let made: Value = serde_json::from_str(text(&create(URL, "read,post").stdout)).unwrap();
    let (key, claim) = (&made["key"], &made["issuer"]["user_claim"]);
    assert_eq!((key, claim), (&Value::Null, &"sub".into()), "no secret");
    let again = create(URL, "read,post");
    assert!(text(&again.stderr).contains("revoke that key first"), "{again:?}");
    let listed = run(&["list"]);
    assert!(text(&listed.stdout).contains("JWTs of https://login.example.com/"), "{listed:?}");
    assert!(run(&["revoke", made["id"].as_str().unwrap()]).status.success());
    assert!(create(URL, "read,post").status.success());
}

#[test]
fn reading_commands_create_no_database() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("none");
    let goal = format!("goal_{}", "0".repeat(32));
    let commands: [&[&str]; 7] = [
        &["state", &goal],
        &["list"],
        &["key", "list"],
        &["monitor"],
        &["cancel", &goal],
        &["prompt", &goal],
        &["export", &goal],
    ];
    for arguments in commands {
        let output = in_folder(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("houston dev") && stderr.contains("DATABASE_URL"), "{stderr}");
        assert!(!folder.exists(), "{arguments:?} created {}", folder.display());
    }
}

/// Regression: only `houston dev` used the key of the folder, so what it had sealed a worker beside it could not open.
#[test]
fn embedded_servers_of_a_folder_come_with_its_key() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("servers");
    let output = in_folder(&folder, &["serve", "--embedded", "--address", "127.0.0.1:0"]);
    assert!(text(&output.stderr).contains("there is no valid API key"), "{output:?}");
    assert!(folder.join("secrets-key").exists(), "as `houston dev` makes it");
}

#[test]
fn every_help_ends_with_the_options_of_every_command() {
    let help = |arguments: &[&str]| {
        let output = houston_command().args(arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        text(&output.stdout).to_owned()
    };
    let all = help(&[]);
    let listed = all.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"doctor") && names.contains(&"completions") && names.len() > 20, "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        let text = help(&[name]);
        let (own, global) = text.split_once("Options of every command:").unwrap_or_else(|| panic!("{text}"));
        assert!(
            global.contains("--jobs") && global.contains("--folder") && global.contains("--verbose"),
            "{text}"
        );
        assert!(
            !own.contains("--jobs") && !own.contains("--embedded")
                || ["serve", "work", "migrate"].contains(name),
            "{own}"
        );
    }
}

#[test]
fn shells_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = houston_command().args(["completions", shell]).output().unwrap();
        let script = text(&output.stdout);
        assert!(
            output.status.success() && script.contains("doctor") && script.contains("history"),
            "{shell}"
        );
    }
    assert_eq!(houston_command().args(["completions", "dos"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn man_pages_are_written_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = houston_command().arg("man").arg(&pages).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("houston.1").contains("houston\\-dev(1)"), "it refers to the others");
    assert!(page("houston-key-create.1").contains("tenant"));
    assert!(!pages.join("houston-help.1").exists());
}

#[test]
fn health_is_that_of_the_api_or_of_a_worker() {
    let houston = TestHouston::start();
    let health = |arguments: &[&str]| {
        let output = houston.command().arg("health").args(arguments).output().unwrap();
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let address = houston.address.to_string();
    let deadline = Instant::now() + PATIENCE;
    // On a busy machine the API may find Postgres slow.
    while health(&["--address", &address]) != (Some(0), "ready\n".to_owned()) {
        assert!(Instant::now() < deadline, "{:?}", health(&["--address", &address]));
    }
    let (code, says) = health(&["--address", "127.0.0.1:1"]);
    assert!(code == Some(1) && says.contains("the API at 127.0.0.1:1 does not answer"), "{says}");
    let (code, says) = health(&["--worker"]);
    assert!(code == Some(1) && says.contains("no worker of the host"), "{says}");
    houston
        .sql("insert into houston.health_changes values ('redis', '2026-11-01 09:00Z', 'warn', 'is away')");
    let (code, says) = health(&["--history"]);
    assert!(code == Some(0) && says.contains("2026-11-01T09:00:00Z  warn    redis"), "{says}");
    let (code, says) = health(&["--history", "--json"]);
    let mut listed: Value = serde_json::from_str(&says).unwrap();
    // Each cell has one.
    let change = &mut listed["data"][0];
    assert!(change.as_object_mut().unwrap().remove("cell").is_some(), "{says}");
    let expected = serde_json::json!({
        "check": "redis", "status": "warn", "at": "2026-11-01T09:00:00.000Z", "detail": "is away"
    });
    assert_eq!((code, &*change), (Some(0), &expected));
    assert_eq!(health(&["--json"]).0, Some(2), "only the history has a form for programs");
    let _worker = houston.worker();
    assert_eq!(health(&["--worker"]), (Some(0), "ready\n".to_owned()));
    houston.sql("update houston.workers set name = 'elsewhere-1'");
    assert_eq!(health(&["--worker"]).0, Some(1), "workers of other hosts do not count");
}
