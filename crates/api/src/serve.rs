//! Accepts connections and serves them until the server is stopped.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use houston_domain::cell::Cells;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::log_throttle::LogThrottle;
use crate::state::{App, State};
use crate::{cells, connection};

/// Pause after a connection could not be accepted, usually because no file descriptor is free.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`; then accepts no more connections, aborts event streams, and returns when the current requests
/// are answered. The caller bounds that wait, and may cancel [`State::draining`] earlier to turn load balancers and
/// streams away.
///
/// With several cells, each has its own state. The caller lets the cells follow moves: `houston_store::moves`.
pub async fn serve(listener: TcpListener, states: impl Into<Cells<State>>, stop: CancellationToken) {
    serve_with(vec![listener], states, stop, |api| vec![api]).await;
}

/// As [`serve`], at several addresses. `sites` makes the router of each listener, in their order, from that of the API; a
/// listener without one is closed. A site that calls the API in the name of its own client takes the client's address along:
/// [`crate::carry_client`].
pub async fn serve_with(
    listeners: Vec<TcpListener>,
    states: impl Into<Cells<State>>,
    stop: CancellationToken,
    sites: impl FnOnce(Router) -> Vec<Router>,
) {
    let apps = App::of_cells(&states.into());
    let sites = sites(cells::router(&apps));
    serve_sites(listeners, apps, sites, stop).await;
}

/// Boxed, so that what serves requests is compiled with this crate and not with those that call it.
fn serve_sites(
    listeners: Vec<TcpListener>,
    apps: Cells<Arc<App>>,
    sites: Vec<Router>,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let app = Arc::clone(apps.home());
        app.peers.log_limit();
        let connections = TaskTracker::new();
        let accept = join_all(
            listeners
                .iter()
                .zip(sites)
                .map(|(listener, router)| accept(listener, router, &app, &connections, &stop)),
        );
        tokio::select! {
            () = stop.cancelled() => {}
            _ = accept => {}
            _ = join_all(apps.iter().map(|app| app.streams.poll(app.api_store(), &app.state.config))) => {}
            _ = join_all(apps.iter().map(|app| app.feeds.poll(app.api_store(), &app.state.config))) => {}
            _ = join_all(apps.iter().map(|app| app.keys.watch_revocations(app.api_store()))) => {}
        }
        drop(listeners);
        apps.iter().for_each(|app| app.state.draining.cancel());
        connections.close();
        connections.wait().await;
        for app in apps.iter() {
            app.records.close();
            app.records.wait().await;
        }
    })
}

/// Accepts connections of one address for ever.
async fn accept(
    listener: &TcpListener,
    router: Router,
    app: &Arc<App>,
    connections: &TaskTracker,
    stop: &CancellationToken,
) {
    let failures = LogThrottle::default();
    loop {
        match listener.accept().await {
            Ok((socket, address)) => {
                let (app, router, stop) = (Arc::clone(app), router.clone(), stop.clone());
                connections.spawn(async move {
                    // Above the limit the connection is closed.
                    if let Some(connected) = app.peers.connect(address.ip()) {
                        connection::serve_connection(socket, connected.peer, router, stop).await;
                    }
                });
            }
            Err(error) => {
                if let Some(times) = failures.count() {
                    tracing::warn!(%error, times, "connection not accepted");
                }
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
}
