//! Unreachable servers, outdated schemas, two releases side by side: each is reported clearly, and nothing is lost.

use std::time::{Duration, Instant};

use houston_testkit::installation::TestInstallation;
use houston_testkit::process::Process;
use serde_json::Value;

use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command};

/// How many lines of a log contain the words.
fn count(log: &str, words: &str) -> usize {
    log.lines().filter(|line| line.contains(words)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_redis_at_start_is_logged_once_and_runs_finish() {
    let houston = TestHouston::start();
    houston.servers.lock().unwrap().kill_redis().unwrap();
    let worker = houston.worker();
    let (address, serve) = houston.serve();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ready = client.get(format!("http://{address}/readyz")).send().await.unwrap();
    let ready = ready.text().await.unwrap();
    assert!(ready.contains("polling postgres each second"), "{ready}");

    let goal = houston.goal("no redis").await;
    for round in 0..3 {
        let message = houston.post(&goal, &round.to_string(), "hello").await;
        assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    }
    // Every connection has been retried several times.
    for (name, log) in [("work", worker.log()), ("serve", serve.log())] {
        assert_eq!(count(&log, "redis is unavailable"), 1, "{name}: {log}");
    }
    tokio::task::block_in_place(|| houston.servers.lock().unwrap().restart_redis().unwrap());
    worker.wait_for_line(PATIENCE, |line| line.contains("redis is available again")).unwrap();
    let message = houston.post(&goal, "later", "hello").await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!(count(&worker.log(), "redis is available again"), 1, "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_outage_is_logged_once_by_each_process() {
    let houston = TestHouston::start();
    let worker = houston.worker();
    let goal = houston.goal("redis goes").await;
    let message = houston.post(&goal, "1", "hello").await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    houston.servers.lock().unwrap().kill_redis().unwrap();
    worker.wait_for_line(PATIENCE, |line| line.contains("redis is unavailable")).unwrap();
    for round in 2..5 {
        let message = houston.post(&goal, &round.to_string(), "hello").await;
        assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    }
    assert_eq!(count(&worker.log(), "redis is unavailable"), 1, "{}", worker.log());
    houston
        .wait_until("/readyz", "polling", |ready| ready["checks"]["redis"] == "polling postgres each second")
        .await;
    // Its runs went on without Redis, so that is no reason of it.
    let found = houston.wait_until(&why(&goal), "its end", |found| decides(found, "idle")).await;
    assert_eq!(found["reasons"].as_array().unwrap().len(), 1, "{found}");
    why_names_redis_while_it_is_away(&houston, worker).await;
}

/// The path at which the API says why a goal does not go on.
fn why(goal: &str) -> String {
    format!("/v1/goals/{goal}/why")
}

/// Whether this cause decides.
fn decides(found: &Value, cause: &str) -> bool {
    found["reasons"][0]["cause"] == cause
}

/// Redis is away, and comes back.
async fn why_names_redis_while_it_is_away(houston: &TestHouston, mut worker: Process) {
    let began = Instant::now();
    // A worker that seems to live, and takes nothing: what is posted waits.
    worker.kill().unwrap();
    houston.sql("update houston.workers set alive_until = now() + interval '1 hour'");
    // Only what waits for some seconds has this cause: if the machine was busy for longer, the next goal has it.
    let mut names = (1..).map(|nth| format!("waits {nth}"));
    let found = loop {
        let name = names.next().unwrap();
        let goal = houston.goal(&name).await;
        houston.post(&goal, &format!("message of {name}"), "hello").await;
        let is_said = |found: &Value| !decides(found, "queued");
        let found = houston.wait_until(&why(&goal), "a cause", is_said).await;
        if decides(&found, "redis_away") {
            break found;
        }
        assert!(began.elapsed() < PATIENCE, "{found}");
    };
    let todo = found["reasons"][0]["todo"].as_str().unwrap();
    assert!(todo.contains("Start Redis again"), "{found}");
    tokio::task::block_in_place(|| houston.servers.lock().unwrap().restart_redis().unwrap());
    houston.wait_until("/readyz", "Redis", |ready| ready["checks"]["redis"] == "hints").await;
    // That is one cell; each reconnects by itself.
    let began = Instant::now();
    loop {
        let name = names.next().unwrap();
        let goal = houston.goal(&name).await;
        houston.post(&goal, &format!("message of {name}"), "hello").await;
        let found = houston.get(&why(&goal)).await;
        if decides(&found, "queued") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn unreachable_postgres_at_start_is_retried_then_fails() {
    let mut command = houston_command();
    command
        .arg("work")
        .env("DATABASE_URL", "postgres://someone:secret@127.0.0.1:1/houston")
        .env("HOUSTON_REDIS_URL", "redis://127.0.0.1:1")
        .env("HOUSTON_ORCHESTRATOR__STARTUP__WAIT_S", "2")
        .env("HOUSTON_ORCHESTRATOR__STARTUP__RETRY_S", "1");
    let mut process = Process::spawn(&mut command).unwrap();
    let status = process.wait(PATIENCE).unwrap();
    let log = process.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(count(&log, "waiting for postgres at 127.0.0.1:1/houston") >= 2, "{log}");
    let last = log.lines().last().unwrap();
    assert!(last.contains("postgres at 127.0.0.1:1/houston did not answer for 2 s"), "{log}");
    assert!(last.contains("refused"), "the cause: {log}");
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn postgres_that_starts_late_is_found() {
    let mut servers = TestInstallation::start_with_own_postgres(async |_| {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let migrated = environment(houston_command(), &servers, folder.path()).arg("migrate").output().unwrap();
    assert!(migrated.status.success());
    servers.kill_postgres().unwrap();
    let mut command = environment(houston_command(), &servers, folder.path());
    command.arg("work").env("HOUSTON_ORCHESTRATOR__STARTUP__RETRY_S", "1");
    let worker = Process::spawn(&mut command).unwrap();
    worker.wait_for_line(PATIENCE, |line| line.contains("waiting for postgres")).unwrap();
    servers.restart_postgres().unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
}

#[test]
fn outdated_schema_error_says_what_to_do() {
    let servers = TestInstallation::start_with_own_postgres(async |_| {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output =
            environment(houston_command(), &servers, folder.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for command in ["work", "serve", "monitor"] {
        let (code, stderr) = run(&[command]);
        assert_eq!(code, Some(1), "{command}: {stderr}");
        assert!(stderr.contains("run `houston migrate`"), "{command}: {stderr}");
    }
    assert_eq!(run(&["migrate"]).0, Some(0));
    servers
        .sql(
            "insert into houston.migrations (version, description, success, checksum, execution_time)
             values (29990101000000, 'of the future', true, '\\x00', 0)",
        )
        .unwrap();
    let (code, stderr) = run(&["work"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("29990101000000") && stderr.contains("install the newer Houston"), "{stderr}");
}

/// Two releases share a queue, and the older one cannot parse the hints of the newer. Postgres has the facts, so both
/// go on.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_hints_of_a_newer_release_only_cost_a_sweep() {
    let houston = TestHouston::start();
    let worker = houston.worker();
    let goal = houston.goal("two releases").await;
    let first = houston.post(&goal, "1", "hello").await;
    assert_eq!(houston.wait_until_answered(&first).await["status"], "answered");
    let uuid =
        houston.servers.lock().unwrap().sql("select id from houston.agentables where kind = 'goal'").unwrap();
    let socket = houston.servers.lock().unwrap().redis_url().replace("redis+unix://", "");
    let send_hint = |lane: &str, member: &str| {
        let mut command = std::process::Command::new("redis-cli");
        command.args(["-s", &socket, "ZADD", &format!("houston:hints:{lane}"), "1", member]);
        assert!(command.output().unwrap().status.success());
    };
    let foreign = [
        format!(r#"{{"v":2,"kind":"run","id":"{uuid}","shard":7}}"#),
        r#"{"v":2,"kind":"archive","tenant":"x"}"#.to_owned(),
        format!(r#"{{"v":1,"kind":"archive","id":"{uuid}"}}"#),
        "not even json".to_owned(),
    ];
    for lane in ["interactive", "background", "maintenance"] {
        for member in &foreign {
            send_hint(lane, member);
        }
    }
    // A known hint with an unknown field is processed.
    send_hint("interactive", &format!(r#"{{"v":1,"kind":"run","id":"{uuid}","hurry":true}}"#));
    // A message of the newer release, with a hint of version 2: the sweep finds it.
    let post = format!("select houston.post_message('{uuid}', 'from the newer release')");
    let stored = houston.servers.lock().unwrap().sql(&format!("begin; {post}; commit")).unwrap();
    send_hint("interactive", &foreign[0]);
    let id = format!("msg_{}", stored.trim().replace('-', ""));
    let path = format!("/v1/messages/{id}");
    houston.wait_until(&path, "an answer", |found| found["status"] == "answered").await;
    // The lanes become empty: unknown hints are dropped, and the worker keeps running.
    let left = || {
        let lanes = ["interactive", "background", "maintenance"].map(|lane| {
            let key = format!("houston:hints:{lane}");
            let output =
                std::process::Command::new("redis-cli").args(["-s", &socket, "ZCARD", &key]).output();
            String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
        });
        lanes.join(" ")
    };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while left() != "0 0 0" {
        assert!(tokio::time::Instant::now() < deadline, "left in the lanes: {}: {}", left(), worker.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let last = houston.post(&goal, "2", "hello").await;
    assert_eq!(houston.wait_until_answered(&last).await["status"], "answered");
    assert_eq!(houston.agent_texts(&goal).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_outage_and_recovery_are_logged_once() {
    let houston = TestHouston::own_postgres_with(&[]);
    let worker = houston.worker_with(&[
        ("HOUSTON_LOG", "info,houston_worker=debug"),
        ("HOUSTON_ORCHESTRATOR__SWEEP__EVERY_MS", "200"),
    ]);
    tokio::task::block_in_place(|| {
        houston.servers.lock().unwrap().kill_postgres().unwrap();
        worker.wait_for_line(PATIENCE, |line| line.contains("the sweep still fails")).unwrap();
        houston.servers.lock().unwrap().restart_postgres().unwrap();
        worker.wait_for_line(PATIENCE, |line| line.contains("postgres answers again")).unwrap();
    });
    assert_eq!(count(&worker.log(), "the sweep failed"), 1, "{}", worker.log());
    assert!(count(&worker.log(), "could not register the worker") <= 1, "{}", worker.log());
    assert_eq!(count(&worker.log(), "while testing the connection"), 0, "{}", worker.log());
}
