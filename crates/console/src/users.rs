//! Users, and what their agents cost.

use askama::Template;
use axum::extract::Path;
use futures_util::future::try_join4;
use houston_protocol::page::Page;
use houston_protocol::trigger::{TriggerList, TriggerResponse};
use houston_protocol::user::{UserCostsResponse, UserResponse};
use serde::Deserialize;

use crate::chart::Chart;
use crate::failure::{Answer, html};
use crate::query::{Pages, Query};
use crate::shell::{Shell, USERS};
use crate::show::{self, Choice, segment, with_query};
use crate::viewer::Viewer;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    external_id: String,
    cursor: String,
}

#[derive(Template)]
#[template(path = "users.html")]
struct Users {
    shell: Shell,
    search: String,
    users: Vec<UserResponse>,
    pages: Pages,
}

/// `GET {prefix}/users`.
pub(crate) async fn list(viewer: Viewer, Query(search): Query<Search>) -> Answer {
    let Search { external_id, cursor } = search;
    let query = [("limit", "50"), ("external_id", external_id.trim()), ("cursor", &cursor)];
    let page: Page<UserResponse> = viewer.api.get(&with_query("/v1/users", &query)).await?;
    Ok(html(&Users {
        shell: viewer.shell(USERS, "Users"),
        users: page.data,
        pages: Pages::of(page.next_cursor, &cursor, &viewer.path("/users")),
        search: external_id,
    }))
}

#[derive(Template)]
#[template(path = "user.html")]
struct User {
    shell: Shell,
    user: UserResponse,
    costs: UserCostsResponse,
    kinds: Vec<Choice>,
    triggers: Vec<TriggerResponse>,
    chart: Chart,
}

/// `GET {prefix}/users/{id}`.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let id = segment(&id);
    let path = format!("/v1/users/{id}");
    let (costs_path, triggers_path) = (format!("{path}/costs"), format!("{path}/triggers"));
    let (user, costs, kinds, triggers) = try_join4(
        viewer.api.get::<UserResponse>(&path),
        viewer.api.get::<UserCostsResponse>(&costs_path),
        crate::threads::kinds(&viewer),
        viewer.api.get::<TriggerList>(&triggers_path),
    )
    .await?;
    let threads = viewer.path("/threads");
    let of_kind = |name: String| Choice {
        href: with_query(&threads, &[("kind", &name), ("user", &id)]),
        name,
        current: false,
    };
    Ok(html(&User {
        shell: viewer.shell(USERS, show::line(&user.name, 80)).with_charts(),
        kinds: kinds.into_iter().map(of_kind).collect(),
        triggers: triggers.data,
        chart: Chart::of_costs(costs.days.iter().map(|of| (of.day, of.cost))),
        costs,
        user,
    }))
}
