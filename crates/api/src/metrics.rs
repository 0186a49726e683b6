//! `GET /metrics`, on an address of its own: it is for the operator's Prometheus, and asks for no key. The figures are of all
//! tenants, so no key of a tenant may read them, and the address of the API does not have them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::future::BoxFuture;
use houston_metrics::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::serve::serve_connection;

/// How many scrapers may be connected at once; others are closed.
const MAX_CONNECTIONS: usize = 32;
/// Pause after a connection could not be accepted.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Reads what only a scrape asks for, and returns the text of all metrics; an error is for the log.
pub type Scrape = Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Serves `GET /metrics` until `stop`.
pub async fn serve_metrics(listener: TcpListener, scrape: Scrape, stop: CancellationToken) {
    let router = Router::new().route("/metrics", get(move || answer(Arc::clone(&scrape))));
    let (permits, connections) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (socket, address): (_, IpAddr) = match accepted {
            Ok((socket, address)) => (socket, address.ip()),
            Err(error) => {
                tracing::warn!(%error, "a connection of a scraper was not accepted");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            let (router, stop) = (router.clone(), stop.clone());
            connections.spawn(async move {
                serve_connection(socket, address.into(), router, stop).await;
                drop(permit);
            });
        }
    }
}

async fn answer(scrape: Scrape) -> Response {
    match scrape().await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::warn!(error, "the metrics could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
