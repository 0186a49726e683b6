//! Users, and what their agents cost.

use askama::Template;
use axum::extract::Path;
use futures_util::future::try_join4;
use houston_protocol::page::Page;
use houston_protocol::trigger::TriggerList;
use houston_protocol::user::{UserCostsResponse, UserResponse};
use serde::Deserialize;

use crate::api::Refused;
use crate::chart::Chart;
use crate::failure::{Answer, html};
use crate::query::{Pages, Query};
use crate::shell::{Section, Shell};
use crate::show::{self, Fact, When, fact, segment, with_query};
use crate::triggers;
use crate::viewer::Viewer;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    external_id: String,
    #[serde(default)]
    cursor: String,
}

#[derive(Template)]
#[template(path = "users.html")]
struct Users {
    shell: Shell,
    search: String,
    users: Vec<Row>,
    pages: Pages,
}

struct Row {
    href: String,
    id: String,
    short: String,
    name: String,
    external_id: String,
    time_zone: String,
    cost: String,
    at: When,
}

/// `GET {prefix}/users`.
pub(crate) async fn list(viewer: Viewer, Query(search): Query<Search>) -> Answer {
    let Search { external_id, cursor } = search;
    let query = [("limit", "50"), ("external_id", external_id.trim()), ("cursor", &cursor)];
    let page: Page<UserResponse> = viewer.api.get(&with_query("/v1/users", &query)).await?;
    let (now, here) = (viewer.console.now(), viewer.path("/users"));
    let row = |user: UserResponse| {
        let id = user.id.to_string();
        Row {
            href: viewer.path(&format!("/users/{id}")),
            short: show::short(&id),
            name: show::line(&user.name, 80),
            external_id: user.external_id.unwrap_or_default(),
            time_zone: user.time_zone,
            cost: show::cost(user.total_llm_cost, user.unpriced_calls),
            at: show::when(user.created_at, now),
            id,
        }
    };
    Ok(html(&Users {
        shell: viewer.shell(Section::Users, "Users"),
        users: page.data.into_iter().map(row).collect(),
        pages: Pages::of(page.next_cursor, &cursor, &here),
        search: external_id,
    }))
}

#[derive(Template)]
#[template(path = "user.html")]
struct User {
    shell: Shell,
    id: String,
    name: String,
    facts: Vec<Fact>,
    created: When,
    kinds: Vec<OfKind>,
    triggers: Vec<triggers::Row>,
    days: Vec<Day>,
    chart: Chart,
}

/// The threads of the user of one kind.
struct OfKind {
    name: String,
    href: String,
}

struct Day {
    day: String,
    calls: String,
    cost: String,
}

/// `GET {prefix}/users/{id}`.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    Ok(html(&page(&viewer, &segment(&id)).await?))
}

async fn page(viewer: &Viewer, id: &str) -> Result<User, Refused> {
    let path = format!("/v1/users/{id}");
    let (costs_path, triggers_path) = (format!("{path}/costs"), format!("{path}/triggers"));
    let (user, costs, kinds, triggers) = try_join4(
        viewer.api.get::<UserResponse>(&path),
        viewer.api.get::<UserCostsResponse>(&costs_path),
        crate::threads::kinds(viewer),
        viewer.api.get::<TriggerList>(&triggers_path),
    )
    .await?;
    let now = viewer.console.now();
    let threads = viewer.path("/threads");
    let of_kind =
        |name: String| OfKind { href: with_query(&threads, &[("kind", &name), ("user", id)]), name };
    let day = |day: &houston_protocol::user::DayCostResponse| Day {
        day: day.day.to_string(),
        calls: show::count(day.model_calls),
        cost: show::cost(day.cost, day.unpriced_calls),
    };
    Ok(User {
        shell: viewer.shell(Section::Users, show::line(&user.name, 80)).with_charts(),
        id: user.id.to_string(),
        name: user.name,
        facts: vec![
            fact("External id", user.external_id.unwrap_or_default()),
            fact("Time zone", user.time_zone),
            fact("Cost of all model calls", show::cost(costs.total_llm_cost, costs.unpriced_calls)),
        ],
        created: show::when(user.created_at, now),
        kinds: kinds.into_iter().map(of_kind).collect(),
        triggers: triggers.data.iter().map(|of| triggers::Row::new(viewer, of, now)).collect(),
        days: costs.days.iter().map(day).collect(),
        chart: Chart::of_costs(costs.days.iter().map(|of| (of.day, of.cost))),
    })
}
