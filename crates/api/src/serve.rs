//! Accepting connections, and letting go of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection;
use crate::router::routes;
use crate::state::{App, State};
use crate::summary::Summary;

/// The pause after a connection could not be accepted: file descriptors do not come back at once.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Serves until `stop`, then accepts nothing more, aborts what streams, and returns when the requests at hand are
/// answered. The caller decides how long to wait for that, and when [`State::draining`] tells balancers and
/// streams beforehand.
pub async fn serve(listener: TcpListener, state: State, stop: CancellationToken) {
    let app = App::new(state);
    let router = routes(Arc::clone(&app));
    app.peers.note_limit();
    let (connections, failures) = (TaskTracker::new(), Summary::default());
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((socket, address)) => {
                    let (app, router, stop) = (Arc::clone(&app), router.clone(), stop.clone());
                    connections.spawn(async move {
                        // One that is too many is closed.
                        if let Some(connected) = app.peers.connect(address.ip()) {
                            connection::drive(socket, connected.peer, router, stop).await;
                        }
                    });
                }
                Err(error) => {
                    if let Some(times) = failures.note() {
                        tracing::warn!(%error, times, "connection not accepted");
                    }
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = accept => {}
        () = app.streams.poll(app.store(), &app.state.config) => {}
        () = app.keys.watch(app.store()) => {}
    }
    drop(listener);
    app.state.draining.cancel();
    connections.close();
    connections.wait().await;
}
