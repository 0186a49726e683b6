//! The first page: what an operator should look at now.

use askama::Template;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{join_all, join3, try_join4};
use houston_domain::error_group::ErrorGroup;
use houston_domain::health::HealthStatus;
use houston_domain::scope::Scope;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::error_group::ErrorGroupsResponse;
use houston_protocol::health::HealthResponse;
use houston_protocol::model::{ModelResponse, ModelsResponse};
use houston_protocol::overview::OverviewResponse;
use houston_protocol::page::Page;
use houston_protocol::question::QuestionResponse;
use serde::Deserialize;
use serde_json::json;

use crate::api::Result;
use crate::chart::Chart;
use crate::failure::{Answer, html};
use crate::health::{Check, checks};
use crate::query::Query;
use crate::shell::{OVERVIEW, Shell};
use crate::viewer::Viewer;
use crate::{show, threads};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    whose: &'static str,
    /// The page with the numbers of the others, and its name; empty: there is none.
    other_href: String,
    other: &'static str,
    tiles: Vec<Tile>,
    chart: Chart,
    groups: Vec<ErrorGroup>,
    checks: Vec<Check>,
    questions: Vec<QuestionResponse>,
    models: Vec<ModelResponse>,
    threads: Vec<AgentableResponse>,
}

/// A number with a name.
struct Tile {
    /// Empty: no page has what was counted, since lists of runs are those of one tenant.
    href: String,
    label: &'static str,
    value: String,
    below: String,
    tone: &'static str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Whose {
    /// `tenant`: also for viewers who may see the numbers of all.
    of: String,
}

/// `GET {prefix}`.
pub(crate) async fn show(viewer: Viewer, Query(Whose { of }): Query<Whose>) -> Answer {
    let of_tenant = of == "tenant";
    let now = viewer.console.now();
    // At once: no request needs the answer of another.
    let ((counts, health, groups), asked, models, threads) = try_join4(
        for_operators(&viewer, of_tenant),
        viewer.api.get::<Page<QuestionResponse>>("/v1/questions?limit=100"),
        viewer.api.get::<ModelsResponse>("/v1/models"),
        newest(&viewer),
    )
    .await?;
    let mut tiles: Vec<Tile> = Vec::new();
    tiles.extend(health.as_ref().map(|health| health_tile(&viewer, health, now)));
    tiles.extend(counts.iter().flat_map(|counts| count_tiles(&viewer, counts)));
    tiles.push(questions_tile(&viewer, &asked, now));
    let bad = |check: &Check| check.status.tone != "good";
    // A link to the other numbers, for viewers who may see those of all tenants and of their own.
    let sees_both = viewer.may(Scope::Operate) && viewer.may(Scope::Installation);
    let (other_href, other) = match (sees_both, of_tenant) {
        (false, _) => (String::new(), ""),
        (true, true) => (viewer.path(""), "all tenants"),
        (true, false) => (viewer.path("?of=tenant"), "this tenant only"),
    };
    Ok(html(&Overview {
        // Also while there is nothing to draw: the first run may end while the page is open.
        shell: viewer.shell(OVERVIEW, "Overview").live().with_charts(),
        whose: match counts.as_ref().map(|counts| counts.of.as_str()) {
            Some("installation") => "the whole installation",
            Some(_) => "this tenant",
            None => "",
        },
        other_href,
        other,
        tiles,
        chart: counts.as_ref().map(|counts| chart(counts, now)).unwrap_or_default(),
        groups: groups.map(|all| all.data).unwrap_or_default().into_iter().take(5).collect(),
        checks: health
            .map(|health| checks(&health, &[], now).into_iter().filter(bad).collect())
            .unwrap_or_default(),
        questions: asked.data.into_iter().take(5).collect(),
        models: models.data.into_iter().filter(|of| of.measured.is_some()).collect(),
        threads,
    }))
}

type ForOperators = (Option<OverviewResponse>, Option<HealthResponse>, Option<ErrorGroupsResponse>);

/// What only viewers see who may see how the installation works.
async fn for_operators(viewer: &Viewer, of_tenant: bool) -> Result<ForOperators> {
    if !viewer.may(Scope::Operate) {
        return Ok((None, None, None));
    }
    let path = if of_tenant { "/v1/overview?of=tenant" } else { "/v1/overview" };
    let (counts, health, groups) = join3(
        viewer.api.get::<OverviewResponse>(path),
        viewer.api.get::<HealthResponse>("/v1/health"),
        viewer.api.get::<ErrorGroupsResponse>("/v1/errors"),
    )
    .await;
    Ok((Some(counts?), health.ok(), groups.ok()))
}

/// What the counts of the installation or the tenant say.
fn count_tiles(viewer: &Viewer, of: &OverviewResponse) -> Vec<Tile> {
    let oldest = match of.queued {
        0 => "nothing waits".to_owned(),
        _ => format!("oldest for {}", show::took(TimeDelta::seconds(of.oldest_age_s))),
    };
    let is_late = of.queued > 0 && of.oldest_age_s >= 60;
    let queued = format!("{}{}", show::count(of.queued), if of.capped { "+" } else { "" });
    let slots = of.slots.map(|slots| format!("of {} slots", show::count(slots))).unwrap_or_default();
    let put_off = format!("{} out of tokens", show::count(of.put_off));
    let (day, hour) = ("within 24 h".to_owned(), "in the last hour".to_owned());
    let whole = of.of == "installation";
    // Of the tenant: a number of all tenants leads to none of these.
    let list = |path: &str| if whole { String::new() } else { viewer.path(path) };
    // The page of the queues is of all tenants for viewers who may see them.
    let is_of_queues = whole || !viewer.may(Scope::Installation);
    let queues = if is_of_queues { viewer.path("/queues") } else { list("/runs?q=status:queued") };
    let any = |count: i64, tone| if count > 0 { tone } else { "" };
    let given_up = list("/runs?q=status:dead_lettered");
    let mut tiles = vec![
        tile(queues, "Queued", queued, oldest, if is_late { "warn" } else { "" }),
        tile(list("/runs?q=status:running"), "Running", show::count(of.busy), slots, ""),
        tile(list("/runs?q=status:retrying"), "Retrying", show::count(of.retrying), put_off, ""),
        tile(list("/errors"), "Failed", show::count(of.failed), day.clone(), any(of.failed, "warn")),
        tile(given_up, "Given up", show::count(of.dead_lettered), day, any(of.dead_lettered, "bad")),
        tile(list("/usage?hours=1"), "Spent", show::dollars(Some(of.cost_last_hour)), hour, ""),
    ];
    tiles.extend(of.workers.map(|workers| {
        let draining = format!("{} draining", workers.draining);
        let below = if workers.draining > 0 { draining } else { String::new() };
        let tone = if workers.alive == 0 { "bad" } else { "" };
        tile(viewer.path("/workers"), "Workers", show::count(workers.alive), below, tone)
    }));
    tiles
}

fn tile(href: String, label: &'static str, value: String, below: String, tone: &'static str) -> Tile {
    Tile { href, label, value, below, tone }
}

/// The hours of a chart.
const HOURS: i64 = 24;

/// Ended runs by hour, up to the present one; hours without any are 0.
fn chart(of: &OverviewResponse, now: DateTime<Utc>) -> Chart {
    if of.hours.is_empty() {
        return Chart::default();
    }
    let (mut x, mut good, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    let present = now.timestamp() / 3600;
    for begin in (present - HOURS + 1..=present).map(|hour| hour * 3600) {
        let hour = of.hours.iter().find(|hour| hour.hour.0.timestamp() == begin);
        x.push(begin);
        good.push(hour.map_or(0, |hour| hour.finished + hour.stopped + hour.cancelled));
        bad.push(hour.map_or(0, |hour| hour.failed + hour.dead_lettered));
    }
    Chart::new(
        &x,
        &json!([
            {"name": "ended", "colour": "--accent", "fill": "--accent-soft", "values": good},
            {"name": "failed", "colour": "--bad-fill", "values": bad},
        ]),
    )
}

fn health_tile(viewer: &Viewer, health: &HealthResponse, now: DateTime<Utc>) -> Tile {
    let bad = health.checks.iter().filter(|check| check.status != HealthStatus::Ok).count();
    let checked = health.checked_at.map(|at| format!("checked {}", show::when(at, now).ago));
    Tile {
        href: viewer.path("/health"),
        label: "Health",
        value: match bad {
            0 => "ok".to_owned(),
            1 => "1 check".to_owned(),
            bad => format!("{bad} checks"),
        },
        below: checked.unwrap_or_else(|| "not checked yet".to_owned()),
        tone: match health.status {
            HealthStatus::Ok => "",
            HealthStatus::Warn => "warn",
            HealthStatus::Red => "bad",
        },
    }
}

fn questions_tile(viewer: &Viewer, asked: &Page<QuestionResponse>, now: DateTime<Utc>) -> Tile {
    let count = asked.data.len();
    let oldest = asked.data.iter().map(|question| question.created_at).min();
    Tile {
        href: viewer.path("/waiting"),
        label: "Waiting for a person",
        value: if asked.has_more { format!("{count}+") } else { count.to_string() },
        below: oldest.map(|at| format!("oldest {}", show::when(at, now).ago)).unwrap_or_default(),
        tone: if count > 0 { "warn" } else { "" },
    }
}

/// The newest agentables of all kinds: their ids have the time of their creation.
async fn newest(viewer: &Viewer) -> Result<Vec<AgentableResponse>> {
    let kinds = threads::kinds(viewer).await?;
    let mut all = Vec::new();
    for some in kinds.chunks(threads::AT_ONCE) {
        for page in join_all(some.iter().map(|kind| threads::first(viewer, kind, "8"))).await {
            all.extend(page?.data);
        }
    }
    all.sort_by_key(|of| std::cmp::Reverse(of.created_at));
    all.truncate(8);
    Ok(all)
}
