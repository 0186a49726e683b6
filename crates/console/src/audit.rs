//! The audit log: who changed what, and what was refused.

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use houston_protocol::audit::AuditRecordResponse;
use houston_protocol::page::Page;
use serde::Deserialize;

use crate::query::Query;
use crate::shell::{Section, Shell, html};
use crate::show::{self, Status, When, with_query};
use crate::viewer::Viewer;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Place {
    #[serde(default)]
    cursor: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    shell: Shell,
    records: Vec<Record>,
    older: String,
    newer: String,
}

struct Record {
    at: When,
    status: Status,
    operation: String,
    target: String,
    target_short: String,
    actor: String,
    actor_short: String,
    request: String,
}

/// `GET {prefix}/audit`.
pub(crate) async fn show(viewer: Viewer, Query(Place { cursor }): Query<Place>) -> Response {
    let path = with_query("/v1/audit", &[("limit", "100"), ("cursor", &cursor)]);
    let page: Page<AuditRecordResponse> = match viewer.api.get(&path).await {
        Ok(page) => page,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    let (now, here) = (viewer.console.now(), viewer.path("/audit"));
    let shell = viewer.shell(Section::Audit, "Audit log");
    html(&Audit {
        shell: if cursor.is_empty() { shell.live() } else { shell },
        records: page.data.into_iter().map(|of| record(of, now)).collect(),
        older: page.next_cursor.map(|next| with_query(&here, &[("cursor", &next)])).unwrap_or_default(),
        newer: if cursor.is_empty() { String::new() } else { here },
    })
}

fn record(of: AuditRecordResponse, now: DateTime<Utc>) -> Record {
    let (text, tone) = match (of.status, of.code) {
        (0, None) => ("command".to_owned(), "good"),
        (0, Some(code)) => (format!("command: {code}"), "warn"),
        (200..400, _) => ("done".to_owned(), "good"),
        (status, Some(code)) => (format!("{status} {code}"), "warn"),
        (status, None) => (status.to_string(), "warn"),
    };
    let target = of.target.unwrap_or_default();
    Record {
        at: show::when(of.at, now),
        status: Status { text, tone },
        operation: of.operation.replace('_', " "),
        target_short: show::short(&show::line(&target, 80)),
        target,
        actor_short: of.actor_name.map_or_else(|| show::short(&of.actor), |name| show::line(&name, 60)),
        actor: of.actor,
        request: of.request_id.unwrap_or_default(),
    }
}
