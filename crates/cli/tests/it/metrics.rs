//! What Prometheus reads of an installation, and what dashboards and alert rules make of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use houston_testkit::model_server::{Call, ModelServer, Reply};
use houston_testkit::process::Process;
use houston_testkit::sources::sources;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command};

/// The variable with which a process listens for scrapers.
pub(crate) const LISTEN: (&str, &str) = ("HOUSTON_METRICS_ADDRESS", "127.0.0.1:0");

/// An API and a worker that Prometheus may read, with a scripted model.
struct Scraped {
    houston: TestHouston,
    worker: Process,
    _model: ModelServer,
}

/// Creates a note on the message `note`.
fn script(call: &Call) -> Reply {
    let says = |text: &str| Reply::tool("send_message", json!({"content": text}));
    match call.last_user_text().as_str() {
        "note" if !call.tool_results().is_empty() => says("Noted."),
        "note" => Reply::tool("create_note", json!({"title": "Milk", "content": "buy it"})),
        said => says(said),
    }
}

impl Scraped {
    async fn start() -> Self {
        let houston = TestHouston::start_with(&[LISTEN]);
        let model = ModelServer::start(script).await.unwrap();
        let mut worker =
            environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path());
        worker.arg("work").envs([
            LISTEN,
            ("HOUSTON_MODEL", "anthropic/claude-haiku-4-5"),
            ("ANTHROPIC_BASE_URL", &model.url()),
            ("ANTHROPIC_API_KEY", "sk-test"),
        ]);
        let worker = Process::spawn(&mut worker).unwrap();
        worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        Self { houston, worker, _model: model }
    }

    async fn of_api(&self) -> String {
        scrape(&self.houston._serve).await
    }

    async fn of_worker(&self) -> String {
        scrape(&self.worker).await
    }
}

/// The text of a process's metrics.
pub(crate) async fn scrape(process: &Process) -> String {
    let line = process.wait_for_line(PATIENCE, |line| line.starts_with("metrics on ")).unwrap();
    let response = reqwest::get(line.trim_start_matches("metrics on ")).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
    response.text().await.unwrap()
}

/// The sum of all series of a metric whose line contains `labels`.
fn value(text: &str, metric: &str, labels: &str) -> f64 {
    let of_metric = |line: &&str| line.split(['{', ' ']).next() == Some(metric) && line.contains(labels);
    text.lines().filter(of_metric).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// The names of all series, and those of the metrics without any.
fn names(text: &str) -> BTreeSet<String> {
    let declared = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let declared = declared.flat_map(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        ends.iter().map(move |end| format!("{name}{end}"))
    });
    declared.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_what_an_installation_did() {
    let scraped = Scraped::start().await;
    let houston = &scraped.houston;
    let goal = houston.goal("Tokyo").await;
    let message = houston.post(&goal, "one", "note").await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    houston.watch(&format!("/v1/goals/{goal}/events?after=0")).await;

    let api = scraped.of_api().await;
    let queue = r#"queue="interactive""#;
    assert_eq!(value(&api, "houston_runs_enqueued_total", queue), 1.0, "{api}");
    let posts = r#"route="/v1/{kinds}/{id}/messages",method="POST",status="2xx""#;
    assert_eq!(value(&api, "houston_http_request_duration_seconds_count", posts), 1.0, "{api}");
    assert_eq!(value(&api, "houston_sse_resumes_total", ""), 1.0, "{api}");
    for purpose in ["requests", "runs", "background"] {
        assert!(value(&api, "houston_db_pool_connections", purpose) > 0.0, "{api}");
    }
    assert!(value(&api, "houston_db_pool_acquires_total", "requests") > 0.0, "{api}");
    assert!(value(&api, "houston_db_pool_wait_seconds_total", "requests") > 0.0, "{api}");
    assert!(!api.contains("\nhouston_worker_slots{"), "an API has no slots: {api}");

    // The run's end reaches the client before the worker has counted it.
    let deadline = Instant::now() + PATIENCE;
    let mut worker = scraped.of_worker().await;
    while value(&worker, "houston_runs_finished_total", queue) < 1.0 {
        assert!(Instant::now() < deadline, "{worker}");
        worker = scraped.of_worker().await;
    }
    assert_eq!(value(&worker, "houston_attempts_total", r#"outcome="ended""#), 1.0, "{worker}");
    assert_eq!(value(&worker, "houston_run_duration_seconds_count", queue), 1.0, "{worker}");
    assert_eq!(value(&worker, "houston_schedule_latency_seconds_count", queue), 1.0, "{worker}");
    // The note, and the message to the user.
    assert_eq!(value(&worker, "houston_tool_calls_total", r#"outcome="ok""#), 2.0, "{worker}");
    let model = r#"provider="anthropic",model="claude-haiku-4-5""#;
    let of_model = |metric: &str| value(&worker, metric, model);
    let requests = of_model("houston_llm_requests_total");
    assert!(requests >= 2.0, "{worker}");
    assert_eq!(of_model("houston_llm_time_to_first_token_seconds_count"), requests, "{worker}");
    assert!(
        of_model("houston_llm_tokens_total") > 0.0 && of_model("houston_llm_cost_usd_total") > 0.0,
        "{worker}"
    );
    assert!(value(&worker, "houston_worker_slots", "free") > 0.0, "{worker}");
    assert!(value(&worker, "houston_worker_heartbeat_age_seconds", "") < 60.0, "{worker}");
    assert!(!worker.contains("\nhouston_api_up "), "a worker has no API: {worker}");
    for text in [&api, &worker] {
        for secret in ["sk-test", &houston.key, goal.trim_start_matches("goal_"), "Tokyo"] {
            assert!(!text.contains(secret), "`{secret}` is in the metrics: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_measured_in_each_process() {
    let houston = TestHouston::start_with(&[LISTEN]);
    let goal = houston.goal("Tokyo").await;
    houston.post(&goal, "one", "hello").await;
    let text = scrape(&houston._serve).await;
    assert_eq!(value(&text, "houston_queue_depth", r#"queue="interactive",state="ready""#), 1.0, "{text}");
    assert_eq!(value(&text, "houston_queue_depth", r#"state="running""#), 0.0, "{text}");
    assert!(value(&text, "houston_queue_oldest_age_seconds", "interactive") > 0.0, "{text}");
    assert_eq!(value(&text, "houston_queue_paused", ""), 0.0, "{text}");
    assert_eq!(value(&text, "houston_api_up", ""), 1.0, "{text}");
    // The connection to Redis may not be open yet.
    assert!(text.contains("\nhouston_redis_up{cell="), "{text}");
    for of_each_cell in ["houston_postgres_up", "houston_database_bytes"] {
        assert!(value(&text, of_each_cell, "cell=") >= 1.0, "{of_each_cell}: {text}");
    }
    // There is no worker, so nothing was checked.
    assert!(value(&text, "houston_health_check_status", r#"check="monitor""#) >= 2.0, "{text}");

    let paused = {
        let servers = houston.servers.lock().unwrap();
        environment(houston_command(), &servers, houston.folder.path())
            .args(["queues", "pause", "interactive"])
            .output()
            .unwrap()
    };
    assert!(paused.status.success(), "{paused:?}");
    // What was read is used again for some seconds.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = scrape(&houston._serve).await;
        // In each cell.
        if value(&text, "houston_queue_paused", "interactive") >= 1.0 {
            assert_eq!(value(&text, "houston_queue_paused", "background"), 0.0, "{text}");
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("houston_")).map(str::to_owned).collect()
}

/// The expressions of a dashboard's panels and variables.
fn expressions(value: &Value, found: &mut String) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| match value.as_str() {
            Some(text) if ["expr", "query", "definition"].contains(&key.as_str()) => {
                found.push_str(text);
                found.push('\n');
            }
            _ => expressions(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboards_and_rules_name_metrics_that_exist() {
    // Series of routes, models and workers appear with the first event.
    let scraped = Scraped::start().await;
    let goal = scraped.houston.goal("Tokyo").await;
    let message = scraped.houston.post(&goal, "one", "note").await;
    scraped.houston.wait_until_answered(&message).await;
    let mut there = names(&scraped.of_api().await);
    there.extend(names(&scraped.of_worker().await));
    let rules = std::fs::read_to_string(deploy().join("prometheus/rules.yml")).unwrap();
    let mut used = named(&rules);
    for name in ["overview", "llm", "internals"] {
        let dashboard = std::fs::read_to_string(deploy().join(format!("grafana/{name}.json"))).unwrap();
        let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let variables: Vec<_> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(variables, ["datasource", "queue"], "{name}");
        let mut found = String::new();
        expressions(&dashboard, &mut found);
        used.extend(named(&found));
    }
    let missing: Vec<_> = used.difference(&there).collect();
    assert!(missing.is_empty(), "no process has {missing:?}; there are {there:?}");
    assert!(used.len() > 20, "this test finds too few names: {used:?}");

    // Each metric is explained, and nothing else.
    let guide = std::fs::read_to_string(deploy().join("README.md")).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `houston_")?.split('`').next());
    let explained: BTreeSet<String> = rows.map(|name| format!("houston_{name}")).collect();
    let base = |name: &String| {
        let end = ["_bucket", "_sum", "_count"].into_iter().find(|end| name.ends_with(end));
        name.trim_end_matches(end.unwrap_or("")).to_owned()
    };
    assert_eq!(explained, there.iter().map(base).collect());
}

#[test]
fn each_alert_has_a_section_and_each_section_an_alert() {
    let rules = std::fs::read_to_string(deploy().join("prometheus/rules.yml")).unwrap();
    let after = |key: &str| -> Vec<String> {
        rules.lines().filter_map(|line| line.trim().strip_prefix(key)).map(str::to_owned).collect()
    };
    let alerts = after("- alert: ");
    assert!(alerts.len() >= 12, "this test finds too few alerts: {alerts:?}");
    let expected: Vec<String> =
        alerts.iter().map(|alert| format!("deploy/README.md#{}", alert.to_lowercase())).collect();
    assert_eq!(after("runbook_url: "), expected);
    let root = deploy().join("..").canonicalize().unwrap();
    let documents = sources(&root, "deploy", "md").unwrap();
    let guide = documents.iter().find(|document| document.path == "deploy/README.md").unwrap();
    let sections = guide.anchors().into_iter().filter(|anchor| anchor.starts_with("houston"));
    let sections: BTreeSet<String> = sections.map(|anchor| format!("deploy/README.md#{anchor}")).collect();
    assert_eq!(sections, expected.into_iter().collect());
}

#[test]
fn each_alert_is_tested_to_fire_and_not_to_fire() {
    let read = |path: &str| std::fs::read_to_string(deploy().join(path)).unwrap();
    let cases = read("../crates/xtask/deploy/rules_test.yml")
        + &read("../crates/xtask/deploy/rules_of_days_test.yml");
    let lines: Vec<&str> = cases.lines().map(str::trim).collect();
    let expects = |alert: &str, fires: bool| {
        let name = format!("alertname: {alert}");
        let expected = if fires { "exp_alerts:" } else { "exp_alerts: []" };
        lines.windows(2).any(|pair| pair == [name.as_str(), expected])
    };
    let rules = read("prometheus/rules.yml");
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let missing: Vec<_> = alerts
        .flat_map(|alert| [(alert, true), (alert, false)])
        .filter(|(alert, fires)| !expects(alert, *fires))
        .collect();
    assert!(missing.is_empty(), "no case says that these fire (true) or do not (false): {missing:?}");
}
