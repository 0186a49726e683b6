//! Looking names up and opening connections: what a client needs from the operating system.

use std::io;
use std::net::{IpAddr, SocketAddr};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Looks names up. Tests replace it.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of a host, in the order in which they should be tried.
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Opens connections. Tests replace it, count what is asked for, and connect to servers in memory.
pub trait Dial: Send + Sync + 'static {
    /// Connects to an address.
    fn dial(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Dialled>>;
}

/// A stream of bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// An open connection.
pub struct Dialled {
    /// The connection.
    pub stream: Box<dyn Stream>,
    /// The other end.
    pub peer: SocketAddr,
}

/// The operating system's resolver.
pub(crate) struct SystemLookup {
    /// Whether names are complete: the resolver then appends no domain of the local network.
    pub(crate) complete: bool,
}

impl Lookup for SystemLookup {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = if self.complete { format!("{host}.") } else { host };
        let lookup = async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        };
        lookup.boxed()
    }
}

/// TCP.
pub(crate) struct Tcp;

impl Dial for Tcp {
    fn dial(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Dialled>> {
        let dial = async move {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            let peer = stream.peer_addr()?;
            Ok(Dialled { stream: Box::new(stream), peer })
        };
        dial.boxed()
    }
}
