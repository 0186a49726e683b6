//! Users, and what their agents cost.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join4;
use houston_protocol::page::Page;
use houston_protocol::trigger::TriggerList;
use houston_protocol::user::{UserCostsResponse, UserResponse};
use rust_decimal::prelude::ToPrimitive as _;
use serde::Deserialize;
use serde_json::json;

use crate::api::Refused;
use crate::failure::html;
use crate::query::Query;
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
    older: String,
    newer: String,
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
pub(crate) async fn list(viewer: Viewer, Query(search): Query<Search>) -> Response {
    let Search { external_id, cursor } = search;
    let query = [("limit", "50"), ("external_id", external_id.trim()), ("cursor", &cursor)];
    let page: Page<UserResponse> = match viewer.api.get(&with_query("/v1/users", &query)).await {
        Ok(page) => page,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
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
    html(&Users {
        shell: viewer.shell(Section::Users, "Users"),
        users: page.data.into_iter().map(row).collect(),
        older: page.next_cursor.map(|next| with_query(&here, &[("cursor", &next)])).unwrap_or_default(),
        newer: if cursor.is_empty() { String::new() } else { here },
        search: external_id,
    })
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
    /// For the chart: seconds, and the series.
    x: String,
    series: String,
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
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Response {
    match page(&viewer, &segment(&id)).await {
        Ok(page) => html(&page),
        Err(refused) => viewer.failed(refused).into_response(),
    }
}

async fn page(viewer: &Viewer, id: &str) -> Result<User, Refused> {
    let path = format!("/v1/users/{id}");
    let (costs_path, triggers_path) = (format!("{path}/costs"), format!("{path}/triggers"));
    let (user, costs, kinds, triggers) = join4(
        viewer.api.get::<UserResponse>(&path),
        viewer.api.get::<UserCostsResponse>(&costs_path),
        crate::threads::kinds(viewer),
        viewer.api.get::<TriggerList>(&triggers_path),
    )
    .await;
    let (user, costs, kinds, triggers) = (user?, costs?, kinds?, triggers?);
    let now = viewer.console.now();
    let threads = viewer.path("/threads");
    let of_kind =
        |name: String| OfKind { href: with_query(&threads, &[("kind", &name), ("user", id)]), name };
    let (x, series) = chart(&costs);
    let day = |day: &houston_protocol::user::DayCostResponse| Day {
        day: day.day.to_string(),
        calls: show::count(u64::try_from(day.model_calls).unwrap_or_default()),
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
        x,
        series,
    })
}

/// Cost by day, oldest first. Days without calls are gaps of nothing.
fn chart(costs: &UserCostsResponse) -> (String, String) {
    let (Some(first), Some(last)) = (costs.days.last(), costs.days.first()) else {
        return (String::new(), String::new());
    };
    let (mut x, mut values) = (Vec::new(), Vec::new());
    for day in first.day.iter_days().take_while(|day| *day <= last.day) {
        let of_day = costs.days.iter().find(|other| other.day == day);
        x.push(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp());
        values.push(of_day.and_then(|day| day.cost?.to_f64()).unwrap_or_default());
    }
    let series =
        json!([{"name": "US dollars", "colour": "--accent", "fill": "--accent-soft", "values": values}]);
    (json!(x).to_string(), series.to_string())
}
