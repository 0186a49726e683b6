//! Accepts connections and serves them until the server is stopped: HTTP/1.1 over sockets without Nagle's algorithm
//! (`TCP_NODELAY`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use futures_util::future::join_all;
use houston_domain::cell::Cells;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::cells;
use crate::state::log_throttle::LogThrottle;
use crate::state::peers::Peer;
use crate::state::{App, State};

/// Pause after a connection could not be accepted, usually because no file descriptor is free.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// How long a start waits for connections to Postgres.
const WARM_UP: Duration = Duration::from_secs(2);

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
        let warm = join_all(apps.iter().map(|app| app.api_store().warm_up()));
        // Without Postgres the process serves as well as it can.
        let _ = tokio::time::timeout(WARM_UP, stop.run_until_cancelled(warm)).await;
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
                        serve_connection(socket, connected.peer, router, stop).await;
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

/// Time limit for receiving a request's head, and for idling between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a write may block because the client does not read, before the connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Buffer size of each connection in bytes, for reading and for writing.
const MAX_BUFFER_BYTES: usize = 16 * 1024;

/// Serves one connection until it ends; after `stop`, until the current request is answered.
pub(crate) async fn serve_connection(socket: TcpStream, peer: Peer, routes: Router, stop: CancellationToken) {
    if let Err(error) = prepare(&socket) {
        tracing::debug!(%error, "socket options not set");
    }
    let io = TokioIo::new(WriteTimeoutSocket { socket, stalled: None });
    let answers = service_fn(move |mut request: Request<Incoming>| {
        let mut routes = routes.clone();
        request.extensions_mut().insert(peer);
        Box::pin(async move { routes.call(request).await })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(io, answers);
    let ended = tokio::select! {
        ended = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let mut socket = connection.into_parts().io.into_inner();
    match ended {
        Ok(()) => {
            // An error here does not matter: everything was sent.
            let _ = socket.shutdown().await;
        }
        Err(error) => {
            tracing::debug!(%error, "connection broke");
            if error.is_user() || socket.stalled.is_some() {
                // Close with a reset: the client must not take an aborted stream for a finished one, and unsent data
                // need not be kept.
                let _ = socket.socket.set_zero_linger();
            }
        }
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // A phone that leaves its network sends no FIN. Without this option its streams would stay open for 15 minutes.
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(socket, WRITE_TIMEOUT.as_millis() as u32)?;
    Ok(())
}

/// A socket whose writes fail when they block for too long. It has a timer only while a write blocks.
#[derive(Debug)]
struct WriteTimeoutSocket {
    socket: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WriteTimeoutSocket {
    /// Passes on the result of a write, and fails if writes have been pending for [`WRITE_TIMEOUT`].
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timer = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_TIMEOUT)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WriteTimeoutSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeoutSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::stream::AgUi;
    use crate::events::stream::EventStream;

    /// Bytes of the future that `make` returns.
    fn future_size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    /// What exists while a stream waits for events. Hyper's two buffers of 8 KiB per connection come on top.
    #[test]
    fn waiting_stream_holds_little_memory() {
        let connection = future_size(|(socket, peer, routes, stop): (TcpStream, Peer, Router, _)| {
            serve_connection(socket, peer, routes, stop)
        });
        let stream = size_of::<EventStream<AgUi>>();
        assert!(connection <= 1536 && stream <= 768, "connection {connection}, stream {stream} bytes");
    }
}
