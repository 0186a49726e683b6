//! `houston monitor` and `GET /v1/health` report the same health.

use std::process::Output;
use std::time::Duration;

use houston_testkit::process::Process;
use serde_json::Value;

use crate::test_houston::{TestHouston, environment, houston_command};

fn monitor(houston: &TestHouston, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path());
    command.arg("monitor").args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn parse_output(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn status_of<'h>(health: &'h Value, id: &str) -> &'h str {
    let checks = health["checks"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()["status"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_reports_missing_workers() {
    let houston = TestHouston::start();
    let never = houston.get("/v1/health").await;
    assert_eq!((&never["status"], &never["checks"][0]["id"]), (&"red".into(), &"monitor".into()), "{never}");

    let idle = monitor(&houston, &["--json"], &[]);
    assert_eq!(idle.status.code(), Some(0), "no work and no workers: {}", parse_output(&idle));
    assert_eq!(status_of(&parse_output(&idle), "workers"), "warn");

    let goal = houston.goal("health").await;
    let message = houston.post(&goal, "1", "hello").await;
    let due = monitor(&houston, &["--json"], &[]);
    assert_eq!(due.status.code(), Some(1));
    assert_eq!(status_of(&parse_output(&due), "workers"), "red");
    let shown = houston.get("/v1/health").await;
    assert_eq!(shown["status"], "red", "{shown}");
    assert_eq!(shown["checks"], {
        let mut checks = parse_output(&due)["checks"].as_array().unwrap().clone();
        checks.sort_by_key(|check| check["id"].as_str().unwrap().to_owned());
        for (check, api) in checks.iter_mut().zip(shown["checks"].as_array().unwrap()) {
            check["since"] = api["since"].clone();
            // The details count all tenants, and the key belongs to one.
            let detail = check.as_object_mut().unwrap().remove("detail").unwrap();
            assert!(!detail.as_str().unwrap().is_empty(), "{check}");
        }
        Value::from(checks)
    });

    // The API says when it became red, and what it was before.
    let newest = houston.get("/v1/health/history?check=workers&limit=1").await;
    assert_eq!(newest["data"][0]["status"], "red", "{newest}");
    assert!(newest["data"][0]["detail"].is_null(), "it is about all tenants: {newest}");
    assert!(newest["data"][0]["cell"].is_null(), "there is only one: {newest}");
    let next = newest["next_cursor"].as_str().unwrap();
    let older = houston.get(&format!("/v1/health/history?check=workers&limit=1&cursor={next}")).await;
    assert_eq!((&older["data"][0]["status"], &older["has_more"]), (&"warn".into(), &false.into()), "{older}");

    let _worker = houston.worker();
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    let fine = monitor(&houston, &[], &[]);
    let table = String::from_utf8(fine.stdout).unwrap();
    assert_eq!(fine.status.code(), Some(0), "{table}");
    assert!(table.starts_with("STATUS  CHECK"), "{table}");
    assert!(
        table.lines().any(|line| line.starts_with("ok      workers ") && line.ends_with("1 alive")),
        "{table}"
    );
    let shown = houston.get("/v1/health").await;
    assert_ne!(shown["status"], "red", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_requires_a_key() {
    let houston = TestHouston::start();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client.get(houston.url("/v1/health")).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 401);
}

#[test]
fn monitor_without_postgres_fails_at_once_with_exit_code_2() {
    let unset = houston_command().arg("monitor").env_remove("DATABASE_URL").output().unwrap();
    assert_eq!(unset.status.code(), Some(2));
    assert!(String::from_utf8(unset.stderr).unwrap().contains("DATABASE_URL"));
    let nowhere = "postgres://nobody@127.0.0.1:1/nothing";
    let away = houston_command().arg("monitor").env("DATABASE_URL", nowhere).output().unwrap();
    let stderr = String::from_utf8(away.stderr).unwrap();
    assert_eq!(away.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("127.0.0.1:1/nothing") && stderr.contains("refused"), "{stderr}");
    let wrong =
        houston_command().args(["monitor"]).env("HOUSTON_HEALTH_MONITOR__TICK__EVERY_S", "420").output();
    let wrong = wrong.unwrap();
    let stderr = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("every_s") && stderr.contains("divide an hour"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_monitors_leave_nothing_half_done() {
    let houston = TestHouston::start();
    let goal = houston.goal("stuck").await;
    let _worker = houston.worker();
    let message = houston.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":50}").await;
    let run = message["run_id"].as_str().unwrap().to_owned();
    houston
        .wait_until(&format!("/v1/runs/{run}"), "a call", |run| {
            run["iterations"] == 0 && run["status"] == "running"
        })
        .await;
    while houston.rings() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    houston
        .servers
        .lock()
        .unwrap()
        .sql(
            "update houston.runs set created_at = created_at - interval '31 minutes',
                    started_at = started_at - interval '31 minutes';
             update houston.events set created_at = created_at - interval '31 minutes';
             update houston.messages set created_at = created_at - interval '31 minutes'",
        )
        .unwrap();
    for nth in 0..12 {
        let mut command =
            environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path());
        let mut victim = Process::spawn(command.arg("monitor")).unwrap();
        tokio::time::sleep(Duration::from_millis(nth * 15)).await;
        victim.kill().unwrap();
    }
    monitor(&houston, &[], &[]);
    let ended =
        houston.wait_until(&format!("/v1/runs/{run}"), "its end", |run| run["ended_at"].is_string()).await;
    assert_eq!(ended["error"]["code"], "HEALTH_MONITOR_STUCK", "{ended}");
    assert_eq!(houston.rings(), 1, "an effect is never repeated");
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert!(history.to_string().contains("outcome unknown"), "{history}");
    let next = houston.post(&goal, "2", "hello").await;
    assert_eq!(houston.wait_until_answered(&next).await["status"], "answered");
}

/// The latest closed session of a goal.
async fn session(houston: &TestHouston, goal: &str) -> Value {
    houston.get(&format!("/v1/goals/{goal}/sessions")).await["data"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_reports_and_repairs_overdue_summaries() {
    let houston = TestHouston::start();
    let worker = houston.worker();
    let goals = [
        houston.goal("young").await,
        houston.goal("held").await,
        houston.goal("late").await,
        houston.goal("bad").await,
    ];
    for goal in &goals {
        let message = houston.post(goal, goal, "Where is Tokyo?").await;
        assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    }
    drop(worker);
    houston.sql("select houston.close_session(agentable_id, 'reset') from houston.session_states");
    // Three sessions closed 20 minutes ago: one claimed by a worker, one unclaimed, one with an expired claim.
    houston.sql(
        "update houston.sessions s
            set closed_at = now() - interval '20 minutes',
                summary_due_at = now() + case a.title when 'held' then 1 else -1 end * interval '5 minutes',
                summary_attempts = case a.title when 'bad' then 6 else 1 end
           from houston.agentables a where a.id = s.agentable_id and a.title <> 'young'",
    );
    let of = |output: &Output| {
        let checks = parse_output(output)["checks"].as_array().unwrap().clone();
        let check = checks.into_iter().find(|check| check["id"] == "session_summaries").unwrap();
        (check["status"].as_str().unwrap().to_owned(), check["detail"].as_str().unwrap().to_owned())
    };
    let (status, detail) = of(&monitor(&houston, &["--json"], &[]));
    assert_eq!(status, "warn", "{detail}");
    assert!(
        detail.starts_with("1 closed sessions have waited for their summary for more than 15 min"),
        "{detail}"
    );
    let pending: Vec<bool> = [
        session(&houston, &goals[0]).await,
        session(&houston, &goals[1]).await,
        session(&houston, &goals[2]).await,
        session(&houston, &goals[3]).await,
    ]
    .map(|session| session["pending"] == true)
    .to_vec();
    assert_eq!(pending, [true, true, true, false], "a summary that could not be written keeps its extract");
    let bad = session(&houston, &goals[3]).await;
    assert_eq!(bad["summary_source"], "extract", "{bad}");
    assert!(bad["summary"].as_str().unwrap().contains("Where is Tokyo?"), "{bad}");
    let found = "select count(*) from houston.sessions where search @@ 'tokyo'::tsquery";
    assert_eq!(houston.sql(found), "1", "and is found by it");

    houston.sql("update houston.sessions set closed_at = closed_at - interval '1 hour'");
    let (status, detail) = of(&monitor(&houston, &["--json"], &[]));
    assert_eq!(status, "red", "{detail}");
    assert!(detail.contains("do workers run"), "{detail}");

    let _worker = houston.worker_with(&[("HOUSTON_SESSION_ARCHIVE__EVERY_MS", "100")]);
    for goal in [&goals[0], &goals[2]] {
        let is_written = |found: &Value| found["data"][0]["pending"] == false;
        houston.wait_until(&format!("/v1/goals/{goal}/sessions"), "its summary", is_written).await;
    }
    let (status, detail) = of(&monitor(&houston, &["--json"], &[]));
    assert_eq!((status.as_str(), detail.as_str()), ("ok", "no closed session waits for its summary"));
}
