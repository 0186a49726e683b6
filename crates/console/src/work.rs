//! Queues and workers: where work waits, and who takes it.

use askama::Template;
use axum::extract::{Path, Query};
use chrono::TimeDelta;
use houston_domain::scope::Scope;
use houston_protocol::queue::{QueueResponse, QueuesResponse};
use houston_protocol::worker::{WorkerResponse, WorkersResponse};
use serde::Deserialize;

use crate::failure::{Answer, html};
use crate::shell::{QUEUES, Shell, WORKERS};
use crate::show::{self, Status, segment, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    shell: Shell,
    whose: &'static str,
    queues: Vec<QueueResponse>,
    can_change: bool,
}

/// The lane that the viewer drains.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Draining {
    drain: String,
}

/// Runs that living workers hold.
fn at_work(of: &QueueResponse) -> i64 {
    of.running - of.orphaned
}

/// How far the draining of a paused lane is.
fn drained(of: &QueueResponse) -> String {
    let dead = match of.orphaned {
        0 => String::new(),
        count => {
            format!(" Runs of workers that died, which go on once the lane does: {}.", show::count(count))
        }
    };
    match at_work(of) {
        0 => format!("The lane {} is drained: none of its runs is at work.{dead}", of.lane),
        running => format!(
            "The lane {} is paused. Runs of it still at work: {}. It is drained once there are none.{dead}",
            of.lane,
            show::count(running)
        ),
    }
}

/// `GET {prefix}/queues`.
pub(crate) async fn queues(viewer: Viewer, Query(Draining { drain }): Query<Draining>) -> Answer {
    let all: QueuesResponse = viewer.api.get("/v1/queues").await?;
    let whose = match all.data.first().map(|queue| queue.of.as_str()) {
        Some("installation") => "of the whole installation",
        _ => "of this tenant",
    };
    let note = all.data.iter().find(|of| of.lane == drain && of.paused && is_whole(of)).map(drained);
    Ok(html(&Queues {
        shell: viewer.shell(QUEUES, "Queues").live().noting("", note.as_deref()),
        whose,
        can_change: viewer.may(Scope::Installation),
        queues: all.data,
    }))
}

/// Whether all runs of the lane are counted. A viewer who sees one tenant does not know whether those of others are at work.
fn is_whole(of: &QueueResponse) -> bool {
    of.of == "installation"
}

fn state(of: &QueueResponse) -> Status {
    let is_late = of.oldest_age_s >= 60;
    let (text, tone) = match (of.paused, of.depth) {
        (true, _) if at_work(of) > 0 => {
            let text = format!("draining, {} still at work", show::count(at_work(of)));
            return Status { text, tone: "warn" };
        }
        (true, _) if is_whole(of) => ("paused (drained)", "warn"),
        (true, _) => ("paused", "warn"),
        (false, 0) => ("empty", "good"),
        (false, _) if is_late => ("late", "bad"),
        (false, _) => ("in work", "busy"),
    };
    Status { text: text.to_owned(), tone }
}

/// For how long its oldest has waited.
fn oldest(of: &QueueResponse) -> String {
    if of.depth == 0 { String::new() } else { show::took(TimeDelta::seconds(of.oldest_age_s)) }
}

/// `POST {prefix}/queues/{lane}/pause`.
pub(crate) async fn pause(viewer: Viewer, Path(lane): Path<String>) -> Answer {
    viewer.post(&format!("/v1/queues/{}/pause", segment(&lane)), "/queues").await
}

/// `POST {prefix}/queues/{lane}/drain`: pauses it, and says what is still at work.
pub(crate) async fn drain_lane(viewer: Viewer, Path(lane): Path<String>) -> Answer {
    let back = with_query("/queues", &[("drain", &lane)]);
    viewer.post(&format!("/v1/queues/{}/pause", segment(&lane)), &back).await
}

/// `POST {prefix}/queues/{lane}/resume`.
pub(crate) async fn resume(viewer: Viewer, Path(lane): Path<String>) -> Answer {
    viewer.post(&format!("/v1/queues/{}/resume", segment(&lane)), "/queues").await
}

/// `POST {prefix}/workers/{id}/drain`.
pub(crate) async fn drain(viewer: Viewer, Path(id): Path<String>) -> Answer {
    viewer.post(&format!("/v1/workers/{}/drain", segment(&id)), "/workers").await
}

#[derive(Template)]
#[template(path = "workers.html")]
struct Workers {
    shell: Shell,
    workers: Vec<WorkerResponse>,
}

/// `GET {prefix}/workers`.
pub(crate) async fn workers(viewer: Viewer) -> Answer {
    let all: WorkersResponse = viewer.api.get("/v1/workers").await?;
    Ok(html(&Workers { shell: viewer.shell(WORKERS, "Workers").live(), workers: all.data }))
}

/// Whether it ends, or was asked to.
fn is_draining(of: &WorkerResponse) -> bool {
    of.drain_requested_at.is_some() || of.draining_since.is_some()
}

fn health(of: &WorkerResponse) -> Status {
    let tone = match of.status.as_str() {
        "alive" if !is_draining(of) => "good",
        "alive" | "draining" => "warn",
        _ => "bad",
    };
    Status { text: if is_draining(of) { "draining".to_owned() } else { of.status.clone() }, tone }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paused_lane_drains_until_none_of_its_runs_is_at_work() {
        let lane = |of: &str, running: i64| -> QueueResponse {
            serde_json::from_value(json!({
                "lane": "background", "of": of, "depth": 4, "oldest_age_s": 90, "running": running + 2, "orphaned": 2,
                "retrying": 0, "put_off": 0, "waiting": 0, "slots": null, "paused": true, "capped": false,
                "scaling": {"pending_slots": 0, "wanted_slots": running},
            }))
            .unwrap()
        };
        assert_eq!(state(&lane("installation", 1200)).text, "draining, 1,200 still at work");
        assert!(drained(&lane("installation", 1)).contains("still at work: 1."));
        assert_eq!(state(&lane("installation", 0)).text, "paused (drained)");
        let drained = drained(&lane("installation", 0));
        assert!(
            drained.contains("is drained")
                && drained.contains("workers that died")
                && drained.contains(": 2.")
        );
        assert_eq!(state(&lane("tenant", 0)).text, "paused", "others may have runs of it at work");
    }
}
