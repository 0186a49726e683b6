//! Webhooks and their deliveries.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use futures_util::future::try_join;
use houston_domain::webhook::Delivery;
use houston_protocol::page::Page;
use houston_protocol::webhook::{WebhookList, WebhookResponse, WebhookTestResponse};
use serde::Deserialize;
use serde_json::Map;

use crate::failure::{Answer, html};
use crate::query::{Pages, Query};
use crate::shell::{Shell, WEBHOOKS};
use crate::show::{self, Choice, Fact, Status, fact, segment, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "webhooks.html")]
struct Webhooks {
    shell: Shell,
    webhooks: Vec<WebhookResponse>,
}

fn status(of: &WebhookResponse) -> Status {
    match (of.enabled, &of.disabled_because) {
        (true, _) => show::switch(true, "enabled", ""),
        (false, None) => show::switch(false, "", "disabled"),
        (false, Some(reason)) => Status { text: format!("disabled: {reason}"), tone: "bad" },
    }
}

/// `GET {prefix}/webhooks`.
pub(crate) async fn list(viewer: Viewer) -> Answer {
    let all: WebhookList = viewer.api.get("/v1/webhooks").await?;
    Ok(html(&Webhooks { shell: viewer.shell(WEBHOOKS, "Webhooks"), webhooks: all.data }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    state: String,
    cursor: String,
    /// What a test said.
    tested: String,
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct Webhook {
    shell: Shell,
    href: String,
    of: WebhookResponse,
    facts: Vec<Fact>,
    states: Vec<Choice>,
    deliveries: Vec<Delivery>,
    pages: Pages,
}

/// `GET {prefix}/webhooks/{id}`.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>, Query(search): Query<Search>) -> Answer {
    let id = segment(&id);
    let path = format!("/v1/webhooks/{id}");
    let query = [("limit", "50"), ("state", search.state.as_str()), ("cursor", search.cursor.as_str())];
    let deliveries = with_query(&format!("{path}/deliveries"), &query);
    let (of, page) =
        try_join(viewer.api.get::<WebhookResponse>(&path), viewer.api.get::<Page<Delivery>>(&deliveries))
            .await?;
    let href = viewer.path(&format!("/webhooks/{id}"));
    let at = |state: &str, cursor: &str| with_query(&href, &[("state", state), ("cursor", cursor)]);
    let state = |name: &str| {
        let value = if name == "all" { "" } else { name };
        Choice { href: at(value, ""), current: search.state == value, name: name.to_owned() }
    };
    let said = Some(search.tested.as_str()).filter(|said| !said.is_empty()).map(|said| show::line(said, 300));
    Ok(html(&Webhook {
        shell: viewer.shell(WEBHOOKS, "Webhook").noting("", said.as_deref()),
        facts: vec![
            fact("Topics", of.topics.join(", ")),
            fact("Description", of.description.clone()),
            fact("Only of user", of.user_id.map(|user| user.to_string()).unwrap_or_default()),
            fact("Only of kind", of.kind.clone().unwrap_or_default()),
            fact("Only of", of.agentable_id.clone().unwrap_or_default()),
        ],
        of,
        states: ["all", "pending", "delivered", "dead"].map(state).into(),
        deliveries: page.data,
        pages: Pages::new(page.next_cursor, &search.cursor, |cursor| at(&search.state, cursor)),
        href,
    }))
}

/// How a delivery looks.
fn tone(of: &Delivery) -> &'static str {
    match of.state.as_str() {
        "delivered" => "good",
        "dead" => "bad",
        _ if of.attempts > 0 => "warn",
        _ => "idle",
    }
}

/// `POST {prefix}/webhooks/{id}/test`.
pub(crate) async fn test(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let here = format!("/webhooks/{}", segment(&id));
    let tested: WebhookTestResponse = viewer.api.post(&format!("/v1{here}/test"), &Map::new()).await?;
    let said = match tested.accepted {
        true => format!("The test event was accepted within {} ms.", tested.duration_ms),
        false => format!("The test event was not accepted: {}.", tested.error.unwrap_or_default()),
    };
    Ok(Redirect::to(&with_query(&viewer.path(&here), &[("tested", &said)])).into_response())
}

/// `POST {prefix}/webhooks/{id}/redeliver/{delivery}`.
pub(crate) async fn redeliver(viewer: Viewer, Path((id, delivery)): Path<(String, String)>) -> Answer {
    let (id, delivery) = (segment(&id), segment(&delivery));
    let path = format!("/v1/webhooks/{id}/deliveries/{delivery}/redeliver");
    viewer.post(&path, &format!("/webhooks/{id}")).await
}
