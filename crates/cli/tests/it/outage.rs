//! Servers that are away, schemas that do not fit, releases side by side: each is told clearly, and nothing is lost.

use std::time::Duration;

use houston_testkit::installation::TestInstallation;
use houston_testkit::process::Process;

use crate::house::{House, PATIENCE, environment, houston};

/// How many lines of a log say it.
fn count(log: &str, words: &str) -> usize {
    log.lines().filter(|line| line.contains(words)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_away_at_the_start_is_told_once_and_work_is_done() {
    let house = House::start();
    house.servers.lock().unwrap().kill_redis().unwrap();
    let worker = house.worker();
    let (address, serve) = house.serve();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ready = client.get(format!("http://{address}/readyz")).send().await.unwrap();
    let ready = ready.text().await.unwrap();
    assert!(ready.contains("polling postgres each second"), "{ready}");

    let goal = house.goal("no redis").await;
    for round in 0..3 {
        let message = house.post(&goal, &round.to_string(), "hello").await;
        assert_eq!(house.answered(&message).await["status"], "answered");
    }
    // By now every connection has tried several times.
    for (name, log) in [("work", worker.log()), ("serve", serve.log())] {
        assert_eq!(count(&log, "redis is away"), 1, "{name}: {log}");
    }
    tokio::task::block_in_place(|| house.servers.lock().unwrap().restart_redis().unwrap());
    worker.wait_for_line(PATIENCE, |line| line.contains("redis is back")).unwrap();
    let message = house.post(&goal, "later", "hello").await;
    assert_eq!(house.answered(&message).await["status"], "answered");
    assert_eq!(count(&worker.log(), "redis is back"), 1, "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_away_later_is_told_once_by_each_process() {
    let house = House::start();
    let worker = house.worker();
    let goal = house.goal("redis goes").await;
    let message = house.post(&goal, "1", "hello").await;
    assert_eq!(house.answered(&message).await["status"], "answered");
    house.servers.lock().unwrap().kill_redis().unwrap();
    worker.wait_for_line(PATIENCE, |line| line.contains("redis is away")).unwrap();
    for round in 2..5 {
        let message = house.post(&goal, &round.to_string(), "hello").await;
        assert_eq!(house.answered(&message).await["status"], "answered");
    }
    assert_eq!(count(&worker.log(), "redis is away"), 1, "{}", worker.log());
    house
        .until("/readyz", "polling", |ready| ready["checks"]["redis"] == "polling postgres each second")
        .await;
}

#[test]
fn postgres_away_at_the_start_is_waited_for_aloud_and_then_given_up_with_host_and_cause() {
    let mut command = houston();
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
fn postgres_that_comes_while_it_is_waited_for_is_found() {
    let mut servers = TestInstallation::start_with_own_postgres(async |_| {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let migrated = environment(houston(), &servers, folder.path()).arg("migrate").output().unwrap();
    assert!(migrated.status.success());
    servers.kill_postgres().unwrap();
    let mut command = environment(houston(), &servers, folder.path());
    command.arg("work").env("HOUSTON_ORCHESTRATOR__STARTUP__RETRY_S", "1");
    let worker = Process::spawn(&mut command).unwrap();
    worker.wait_for_line(PATIENCE, |line| line.contains("waiting for postgres")).unwrap();
    servers.restart_postgres().unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
}

#[test]
fn a_schema_that_does_not_fit_names_what_to_do() {
    let servers = TestInstallation::start_with_own_postgres(async |_| {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = environment(houston(), &servers, folder.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for command in ["work", "serve", "monitor"] {
        let (code, told) = run(&[command]);
        assert_eq!(code, Some(1), "{command}: {told}");
        assert!(told.contains("run `houston migrate`"), "{command}: {told}");
    }
    assert_eq!(run(&["migrate"]).0, Some(0));
    servers
        .sql(
            "insert into houston.migrations (version, description, success, checksum, execution_time)
             values (29990101000000, 'of the future', true, '\\x00', 0)",
        )
        .unwrap();
    let (code, told) = run(&["work"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("29990101000000") && told.contains("install the newer Houston"), "{told}");
}

/// Two releases on one queue: the newer one rings in words the older one does not know. Postgres has the facts, so
/// both go on.
#[tokio::test(flavor = "multi_thread")]
async fn hints_of_a_newer_release_cost_the_older_one_a_sweep_and_nothing_else() {
    let house = House::start();
    let worker = house.worker();
    let goal = house.goal("two releases").await;
    let first = house.post(&goal, "1", "hello").await;
    assert_eq!(house.answered(&first).await["status"], "answered");
    let uuid =
        house.servers.lock().unwrap().sql("select id from houston.agentables where kind = 'goal'").unwrap();
    let socket = house.servers.lock().unwrap().redis_url().replace("redis+unix://", "");
    let ring = |lane: &str, member: &str| {
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
            ring(lane, member);
        }
    }
    // A field more in a hint it knows is no reason to drop it.
    ring("interactive", &format!(r#"{{"v":1,"kind":"run","id":"{uuid}","hurry":true}}"#));
    // Stored by the newer release, which rang in version 2: the sweep finds it.
    let post = format!("select houston.post_message('{uuid}', 'from the newer release')");
    let stored = house.servers.lock().unwrap().sql(&format!("begin; {post}; commit")).unwrap();
    ring("interactive", &foreign[0]);
    let id = format!("msg_{}", stored.trim().replace('-', ""));
    let path = format!("/v1/messages/{id}");
    house.until(&path, "an answer", |found| found["status"] == "answered").await;
    // The lanes are empty: what is not understood does not come back for ever, and the worker lives.
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
    let last = house.post(&goal, "2", "hello").await;
    assert_eq!(house.answered(&last).await["status"], "answered");
    assert_eq!(house.said(&goal).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_away_later_is_told_once_and_so_is_its_return() {
    let house = House::start_with_own_postgres();
    let worker = house.worker_with(&[
        ("HOUSTON_LOG", "info,houston_worker=debug"),
        ("HOUSTON_ORCHESTRATOR__SWEEP__EVERY_MS", "200"),
    ]);
    tokio::task::block_in_place(|| {
        house.servers.lock().unwrap().kill_postgres().unwrap();
        worker.wait_for_line(PATIENCE, |line| line.contains("the sweep still fails")).unwrap();
        house.servers.lock().unwrap().restart_postgres().unwrap();
        worker.wait_for_line(PATIENCE, |line| line.contains("postgres answers again")).unwrap();
    });
    assert_eq!(count(&worker.log(), "the sweep failed"), 1, "{}", worker.log());
    assert!(count(&worker.log(), "could not register the worker") <= 1, "{}", worker.log());
    assert_eq!(count(&worker.log(), "while testing the connection"), 0, "{}", worker.log());
}
