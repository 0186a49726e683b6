//! One client's connection: HTTP/1.1 over a socket that never waits for more before it sends.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::peers::Peer;

/// How long a request's head may take; also how long a connection may idle between requests.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may refuse to read anything before it is cut off.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// Of each connection, for reading and for writing.
const MOST_BUFFER: usize = 16 * 1024;

/// Serves one connection to its end; after `stop` it ends with the request at hand.
pub(crate) async fn drive(socket: TcpStream, peer: Peer, routes: Router, stop: CancellationToken) {
    if let Err(error) = prepare(&socket) {
        tracing::debug!(%error, "socket options not set");
    }
    let io = TokioIo::new(Impatient { socket, stalled: None });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_BUFFER)
        .serve_connection(io, Routes { routes, peer });
    let ended = tokio::select! {
        ended = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let mut impatient = connection.into_parts().io.into_inner();
    match ended {
        Ok(()) => {
            // Whether the client hears our goodbye makes no difference to us.
            let _ = impatient.shutdown().await;
        }
        Err(error) => {
            tracing::debug!(%error, "connection broke");
            if error.is_user() || impatient.stalled.is_some() {
                // A reset: the client must not take an aborted stream for a finished one, and what it did not
                // read need not be kept for it.
                let _ = impatient.socket.set_zero_linger();
            }
        }
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // A phone that has left its network says nothing. Without this its streams would be fed for a quarter of an
    // hour.
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(socket, WRITE_WITHIN.as_millis() as u32)?;
    Ok(())
}

/// The endpoints as hyper calls them.
struct Routes {
    routes: Router,
    peer: Peer,
}

impl hyper::service::Service<Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let mut routes = self.routes.clone();
        request.extensions_mut().insert(self.peer);
        Box::pin(async move { routes.call(request).await })
    }
}

/// A socket that fails when nothing can be written for too long. It keeps a timer only while it waits.
#[derive(Debug)]
struct Impatient {
    socket: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    /// Passes on what a write said, and fails instead of waiting for ever.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timer = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_WITHIN)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Impatient {
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
