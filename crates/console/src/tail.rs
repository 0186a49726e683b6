//! The events of a run as they come: the stream of the API, for the viewer's browser.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use houston_protocol::run::RunResponse;
use serde::Deserialize;

use crate::query::Query;
use crate::show::{plural, segment};
use crate::viewer::Viewer;

#[derive(Debug, Deserialize)]
pub(crate) struct From {
    /// From which position on; without, from the beginning of the run.
    #[serde(default)]
    after: Option<i64>,
}

/// `GET {prefix}/runs/{id}/events`. A browser that reconnects says where it was (`Last-Event-ID`); the API goes on there.
pub(crate) async fn events(viewer: Viewer, Path(id): Path<String>, Query(from): Query<From>) -> Response {
    let run: RunResponse = match viewer.api.get(&format!("/v1/runs/{}", segment(&id))).await {
        Ok(run) => run,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    let kind = &run.owner.kind;
    let after = from.after.map(|after| format!("?after={after}")).unwrap_or_default();
    let path = format!("/v1/{}/{}/events{after}", plural(kind), run.owner.id.public_id(kind));
    let mut response = viewer.api.stream(&path).await;
    if response.status() != StatusCode::OK {
        // An `EventSource` asks again after nothing but 204.
        return StatusCode::NO_CONTENT.into_response();
    }
    response.headers_mut().remove(header::SET_COOKIE);
    response
}
