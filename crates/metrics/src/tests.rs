use std::time::Duration;

use houston_domain::agentable::Lane;
use houston_domain::health::HealthStatus;
use houston_domain::model::{ModelError, ModelErrorCode, Usage};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};

use super::*;
use crate::cells::{PostgresSample, QueueSample};
use crate::models::MAX_MODELS;
use crate::runs::Attempt;

#[test]
fn events_are_counted_with_their_labels() {
    let metrics = Metrics::default();
    metrics.http.answered("/v1/runs/{id}", "GET", 404, Duration::from_millis(7));
    metrics.http.answered("/v1/runs/{id}", "BREW", 700, Duration::ZERO);
    metrics.runs.enqueued(Lane::Interactive);
    metrics.runs.attempted(Lane::Background, Attempt::Retrying);
    metrics.runs.finished(Lane::Background, RunStatus::DeadLettered, Duration::from_secs(2));
    metrics.runs.finished(Lane::Background, RunStatus::Waiting, Duration::from_secs(2));
    metrics.tools.answered(&ToolResponse::failure(ToolErrorCode::Timeout, "late"));
    let model = metrics.models.of("openai", "gpt-5");
    let usage = Usage { input_tokens: 10, output_tokens: 3, ..Usage::default() };
    model.answered(&usage, Some(0.25), Duration::from_secs(1));
    model.failed(&ModelError::new(ModelErrorCode::RateLimited, "slow down"), Duration::from_secs(1));
    let text = metrics.text().unwrap();
    for line in [
        r#"houston_http_request_duration_seconds_count{route="/v1/runs/{id}",method="GET",status="4xx"} 1"#,
        r#"houston_http_request_duration_seconds_count{route="/v1/runs/{id}",method="other",status="5xx"} 1"#,
        r#"houston_runs_enqueued_total{queue="interactive"} 1"#,
        r#"houston_runs_enqueued_total{queue="background"} 0"#,
        r#"houston_attempts_total{queue="background",outcome="retrying"} 1"#,
        r#"houston_retries_total{queue="background"} 1"#,
        r#"houston_dead_total{queue="background"} 1"#,
        r#"houston_runs_finished_total{queue="background",outcome="dead_lettered"} 1"#,
        r#"houston_run_duration_seconds_count{queue="background"} 1"#,
        r#"houston_tool_calls_total{outcome="timeout"} 1"#,
        r#"houston_llm_requests_total{provider="openai",model="gpt-5",code="ok"} 1"#,
        r#"houston_llm_requests_total{provider="openai",model="gpt-5",code="RATE_LIMITED"} 1"#,
        r#"houston_llm_tokens_total{provider="openai",model="gpt-5",type="input"} 10"#,
        r#"houston_llm_cost_usd_total{provider="openai",model="gpt-5"} 0.25"#,
        r#"houston_build_info{version="0.1.0"} 1"#,
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}

#[test]
fn models_beyond_the_limit_share_their_series() {
    let metrics = Metrics::default();
    for n in 0..MAX_MODELS + 20 {
        metrics.models.of("openai", &format!("model-{n}")).answered(&Usage::default(), None, Duration::ZERO);
    }
    let text = metrics.text().unwrap();
    let requests = text
        .lines()
        .filter(|line| line.starts_with("houston_llm_requests_total{") && line.contains(r#""ok""#));
    assert_eq!(requests.count(), MAX_MODELS + 1);
    let other = r#"houston_llm_requests_total{provider="other",model="other",code="ok"} 20"#;
    assert!(text.lines().any(|line| line == other), "{text}");
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let metrics = Metrics::default();
    assert!(!metrics.text().unwrap().contains("\nhouston_api_up "), "a worker has no API");
    metrics.sampled.set_api(true);
    let lease = metrics.worker.lease();
    let text = metrics.text().unwrap();
    assert!(text.contains("\nhouston_worker_heartbeat_age_seconds 0."), "{text}");
    assert!(text.contains("\nhouston_api_up 1\n"), "{text}");
    drop(lease);
    let text = metrics.text().unwrap();
    assert!(!text.contains("\nhouston_worker_heartbeat_age_seconds "), "{text}");
}

#[test]
fn cell_that_is_away_takes_only_its_own_series() {
    let metrics = Metrics::default();
    let queue = QueueSample { depth: [2, 0, 1], oldest_s: 1.5, paused: true };
    let sample = PostgresSample {
        queues: [queue; 3],
        checks: vec![("clock".to_owned(), HealthStatus::Warn), ("old".to_owned(), HealthStatus::Ok)],
        is_monitored: true,
        bytes: Some(7),
    };
    for cell in ["here", "away"] {
        metrics.cells.set_postgres(cell, Some(&sample));
        metrics.cells.set_redis(cell, true);
    }
    metrics.cells.set_postgres("away", None);
    metrics.cells.set_redis("away", false);
    let text = metrics.text().unwrap();
    let of_here = [
        r#"houston_queue_depth{cell="here",queue="interactive",state="ready"} 2"#,
        r#"houston_queue_oldest_age_seconds{cell="here",queue="maintenance"} 1.5"#,
        r#"houston_queue_paused{cell="here",queue="background"} 1"#,
        r#"houston_database_bytes{cell="here"} 7"#,
        r#"houston_health_check_status{cell="here",check="clock"} 1"#,
        r#"houston_health_check_status{cell="here",check="monitor"} 0"#,
        r#"houston_postgres_up{cell="here"} 1"#,
        r#"houston_redis_up{cell="here"} 1"#,
    ];
    for line in of_here {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    let of_away: Vec<&str> = text.lines().filter(|line| line.contains("away")).collect();
    assert_eq!(of_away, [r#"houston_postgres_up{cell="away"} 0"#, r#"houston_redis_up{cell="away"} 0"#]);

    // A release without the check, and a monitor that is gone.
    let later = PostgresSample {
        checks: vec![("clock".to_owned(), HealthStatus::Red)],
        is_monitored: false,
        bytes: None,
        ..sample
    };
    metrics.cells.set_postgres("here", Some(&later));
    let text = metrics.text().unwrap();
    assert!(!text.contains(r#"check="old""#), "{text}");
    assert!(text.contains(r#"houston_health_check_status{cell="here",check="monitor"} 2"#), "{text}");
    assert!(text.contains(r#"houston_database_bytes{cell="here"} 7"#), "read once a minute: {text}");
}
