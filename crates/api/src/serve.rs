//! Accepts connections and serves them until the server is stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection;
use crate::log_throttle::LogThrottle;
use crate::router::routes;
use crate::state::{App, State};

/// Pause after a connection could not be accepted, usually because no file descriptor is free.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`; then accepts no more connections, aborts event streams, and returns when the current requests
/// are answered. The caller bounds that wait, and may cancel [`State::draining`] earlier to turn load balancers and
/// streams away.
pub async fn serve(listener: TcpListener, state: State, stop: CancellationToken) {
    let app = App::new(state);
    let router = routes(Arc::clone(&app));
    app.peers.log_limit();
    let (connections, failures) = (TaskTracker::new(), LogThrottle::default());
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((socket, address)) => {
                    let (app, router, stop) = (Arc::clone(&app), router.clone(), stop.clone());
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
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = accept => {}
        () = app.streams.poll(app.api_store(), &app.state.config) => {}
        () = app.keys.watch_revocations(app.api_store()) => {}
    }
    drop(listener);
    app.state.draining.cancel();
    connections.close();
    connections.wait().await;
}
