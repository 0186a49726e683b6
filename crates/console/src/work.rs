//! Queues and workers: where work waits, and who takes it.

use askama::Template;
use axum::extract::{Path, Query};
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::scope::Scope;
use houston_protocol::queue::{QueueResponse, QueuesResponse};
use houston_protocol::worker::{WorkerResponse, WorkersResponse};
use serde::Deserialize;

use crate::failure::{Answer, html};
use crate::shell::{Section, Shell};
use crate::show::{self, Status, When, segment, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    shell: Shell,
    whose: &'static str,
    queues: Vec<Queue>,
    can_change: bool,
}

struct Queue {
    lane: String,
    status: Status,
    paused: bool,
    depth: String,
    oldest: String,
    running: String,
    slots: String,
    retrying: String,
    put_off: String,
    waiting: String,
    pending: String,
    href: String,
}

/// The lane that the viewer drains.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Draining {
    #[serde(default)]
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
        count => format!(" Runs of workers that died, which go on once the lane does: {}.", show::count(count)),
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
        shell: viewer.shell(Section::Queues, "Queues").live().noting("", note.as_deref()),
        whose,
        can_change: viewer.may(Scope::Installation),
        queues: all.data.into_iter().map(|of| queue(&viewer, of)).collect(),
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

fn queue(viewer: &Viewer, of: QueueResponse) -> Queue {
    let more = if of.capped { "+" } else { "" };
    Queue {
        href: viewer.path(&format!("/queues/{}", segment(&of.lane))),
        status: state(&of),
        paused: of.paused,
        depth: format!("{}{more}", show::count(of.depth)),
        oldest: if of.depth == 0 { String::new() } else { show::took(TimeDelta::seconds(of.oldest_age_s)) },
        running: show::count(of.running),
        slots: of.slots.map(show::count).unwrap_or_default(),
        retrying: show::count(of.retrying),
        put_off: show::count(of.put_off),
        waiting: show::count(of.waiting),
        pending: show::count(of.scaling.pending_slots),
        lane: of.lane,
    }
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
    workers: Vec<Worker>,
}

struct Worker {
    status: Status,
    name: String,
    id: String,
    version: String,
    lanes: String,
    busy: String,
    beat: When,
    lease: When,
    started: When,
    drain_href: String,
}

/// `GET {prefix}/workers`.
pub(crate) async fn workers(viewer: Viewer) -> Answer {
    let all: WorkersResponse = viewer.api.get("/v1/workers").await?;
    let now = viewer.console.now();
    Ok(html(&Workers {
        shell: viewer.shell(Section::Workers, "Workers").live(),
        workers: all.data.into_iter().map(|of| worker(&viewer, of, now)).collect(),
    }))
}

fn worker(viewer: &Viewer, of: WorkerResponse, now: DateTime<Utc>) -> Worker {
    let is_asked = of.drain_requested_at.is_some() || of.draining_since.is_some();
    let tone = match of.status.as_str() {
        "alive" if is_asked => "warn",
        "alive" => "good",
        "draining" => "warn",
        _ => "bad",
    };
    let total = of.slots.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let id = of.id.to_string();
    Worker {
        drain_href: match of.status.as_str() {
            "alive" if !is_asked => viewer.path(&format!("/workers/{id}/drain")),
            _ => String::new(),
        },
        status: Status { text: if is_asked { "draining".to_owned() } else { of.status }, tone },
        name: of.name,
        version: of.version.unwrap_or_default(),
        lanes: of.lanes.join(", "),
        busy: format!("{}{total}", show::count(of.slots.busy)),
        beat: show::when(of.beat_at, now),
        lease: show::when(of.lease_until, now),
        started: show::when(of.started_at, now),
        id,
    }
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
