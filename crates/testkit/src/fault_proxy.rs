//! A TCP proxy that injects network faults between a service and its Postgres, Redis or model.
//!
//! A fault applies to the whole proxy: to open connections and to new ones.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::either::Either;

/// Size of the copy buffer, in bytes.
const PIECE: usize = 16 << 10;
/// How often a throttled connection moves bytes.
const TICK: Duration = Duration::from_millis(50);

/// The address of the server behind the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// A network fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// Delays each piece of data by this time, in both directions.
    Latency(Duration),
    /// Limits each direction of each connection to this many bytes per second.
    Throttle(usize),
    /// Transmits nothing; data sent meanwhile arrives when the fault is over.
    Stall,
    /// Resets connections (RST), new ones as soon as they are accepted.
    Reset,
    /// Drops all data. Connections that lost data are reset when the fault is over, as if the sender had given up; the
    /// others continue.
    BlackHole,
    /// Closes each direction of each connection after this many further bytes.
    CutAfter(usize),
}

/// A running proxy. Dropping it closes its connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    _tasks: JoinSet<()>,
}

impl FaultProxy {
    /// Listens on a free loopback port for connections to `target`, which need not be reachable yet.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub async fn start(target: Target) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (fault, faults) = watch::channel(Fault::None);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, faults));
        Ok(Self { address, fault, _tasks: tasks })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// The current fault.
    pub fn fault(&self) -> Fault {
        *self.fault.borrow()
    }
}

async fn accept(listener: TcpListener, target: Target, faults: watch::Receiver<Fault>) {
    let mut connections = JoinSet::new();
    loop {
        // For example out of file descriptors: retry.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(TICK).await;
            continue;
        };
        connections.spawn(connection(client, target.clone(), faults.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(mut client: TcpStream, target: Target, mut faults: watch::Receiver<Fault>) {
    // During a black hole or stall a connection is not established.
    let fault = faults.wait_for(|fault| !matches!(fault, Fault::BlackHole | Fault::Stall)).await;
    let fault = fault.map_or(Fault::None, |fault| *fault);
    let server = if fault == Fault::Reset { None } else { connect(&target).await.ok() };
    let Some(mut server) = server else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = client.set_nodelay(true);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = tokio::io::split(&mut server);
    let is_reset = tokio::select! {
        is_reset = pump(from_client, to_server, faults.clone()) => is_reset,
        is_reset = pump(from_server, to_client, faults) => is_reset,
    };
    if is_reset {
        let _ = client.set_zero_linger();
    }
}

async fn connect(target: &Target) -> io::Result<Either<TcpStream, UnixStream>> {
    Ok(match target {
        Target::Tcp(address) => {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            Either::Left(socket)
        }
        Target::Unix(path) => Either::Right(UnixStream::connect(path).await?),
    })
}

/// Copies bytes in one direction until a side closes or a fault ends the connection. Whether both sides are to see a reset; else
/// the other side sees an orderly close.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut faults: watch::Receiver<Fault>,
) -> bool {
    let mut buffer = vec![0; PIECE];
    let (mut fault, mut switched, mut left, mut lost) = (Fault::None, true, 0, false);
    loop {
        if std::mem::take(&mut switched) {
            fault = *faults.borrow_and_update();
            if fault == Fault::Reset || lost && fault != Fault::BlackHole {
                return true;
            }
            left = if let Fault::CutAfter(bytes) = fault { bytes } else { 0 };
        }
        let most = match fault {
            Fault::Throttle(bytes) => (bytes / 20).clamp(1, PIECE),
            Fault::CutAfter(_) if left == 0 => return false,
            Fault::CutAfter(_) => left.min(PIECE),
            _ => PIECE,
        };
        let read = tokio::select! {
            biased;
            changed = faults.changed() => {
                if changed.is_err() {
                    return false;
                }
                switched = true;
                continue;
            }
            read = from.read(&mut buffer[..most]), if fault != Fault::Stall => read,
        };
        let Ok(count @ 1..) = read else { return false };
        match fault {
            Fault::BlackHole => {
                lost = true;
                continue;
            }
            Fault::Latency(time) => tokio::time::sleep(time).await,
            Fault::Throttle(_) => tokio::time::sleep(TICK).await,
            Fault::CutAfter(_) => left -= count,
            Fault::None | Fault::Stall | Fault::Reset => {}
        }
        let mut resets = faults.clone();
        tokio::select! {
            biased;
            _ = resets.wait_for(|fault| *fault == Fault::Reset) => return true,
            written = to.write_all(&buffer[..count]) => if written.is_err() { return false },
        }
    }
}
