//! Moves of shards between cells: each second all cells are asked which they know, and requests follow. A request that comes to
//! a cell from which its user has just gone is answered 404 there; then the cells are asked at once, and if the user is elsewhere,
//! the answer is 503: the request was not carried out, and is repeated.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use futures_util::future::join_all;
use houston_domain::cell::{Cells, MovedShards};

use crate::error::ApiError;
use crate::problem::ResponseError;
use crate::state::App;

/// How often the cells are asked.
const EVERY: Duration = Duration::from_secs(1);

/// Asks all cells for their moves, and lets requests follow. Whether anything has changed. A cell that is away is left out: the
/// other cell of each move knows it, too, unless it gave the shards to one that is away, whose users are unavailable anyway.
pub(crate) async fn refresh(apps: &Cells<Arc<App>>) -> bool {
    let ranges: Vec<_> = apps.ranges().map(|(range, _)| range).collect();
    let asked = join_all(apps.iter().map(|app| app.api_store().moves())).await;
    let mut moved = Vec::new();
    let mut is_whole = true;
    for answer in asked {
        let Ok(answer) = answer else {
            is_whole = false;
            continue;
        };
        moved.extend(answer.into_iter().filter_map(|(shards, version, name)| {
            let cell = ranges.iter().position(|range| *range == name)?;
            Some(MovedShards { shards, version, cell })
        }));
    }
    // What is known is not forgotten because a cell is away.
    if is_whole || !moved.is_empty() { apps.follow(&moved) } else { false }
}

/// What the client of a user who has just been moved is told: to repeat the request. It was not carried out.
pub(crate) fn again(path: &str, answer: &Response) -> Response {
    let request = answer.headers().get("x-request-id").and_then(|id| id.to_str().ok());
    let request = request.unwrap_or_default().to_owned();
    let mut failed = ApiError::Unavailable(None).into_response();
    if let Some(problem) = failed.extensions_mut().remove::<ResponseError>() {
        problem.write(path, &request, &mut failed);
    }
    failed
}

/// Asks again and again. With one cell it does nothing.
pub(crate) async fn follow(apps: &Cells<Arc<App>>) {
    if apps.count() == 1 {
        return std::future::pending().await;
    }
    loop {
        if refresh(apps).await {
            tracing::info!("users were moved between cells: requests follow");
        }
        tokio::time::sleep(EVERY).await;
    }
}
