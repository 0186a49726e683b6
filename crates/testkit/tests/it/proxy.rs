//! Faults of the proxy, on open and new connections.

use std::io::ErrorKind;
use std::time::Duration;

use houston_testkit::fault_proxy::{Fault, FaultProxy, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing must arrive for a connection to count as silent.
const SILENCE: Duration = Duration::from_millis(200);

/// Starts a server that echoes.
async fn echo() -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Tcp(listener.local_addr().unwrap());
    let tasks = TaskTracker::new();
    tasks.clone().spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tasks.spawn(async move {
                let (mut from, mut to) = socket.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    target
}

async fn open(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn proxied() -> (FaultProxy, TcpStream) {
    let proxy = FaultProxy::start(echo().await).await.unwrap();
    let mut socket = open(&proxy).await;
    assert_eq!(echoes(&mut socket, b"hello").await.unwrap(), b"hello");
    (proxy, socket)
}

async fn echoes(socket: &mut TcpStream, words: &[u8]) -> std::io::Result<Vec<u8>> {
    socket.write_all(words).await?;
    let mut received = vec![0; words.len()];
    timeout(PATIENCE, socket.read_exact(&mut received)).await.expect("silence")?;
    Ok(received)
}

/// Reads to the end of the connection.
async fn rest(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut received = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut received)).await.expect("no end")?;
    Ok(received)
}

#[tokio::test]
async fn latency_delays_both_ways_and_ends() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Latency(Duration::from_millis(100)));
    let began = Instant::now();
    echoes(&mut socket, b"slow").await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200));
    proxy.set(Fault::None);
    assert_eq!(echoes(&mut socket, b"quick").await.unwrap(), b"quick");
}

#[tokio::test]
async fn throttled_connection_is_slow() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Throttle(2000));
    let began = Instant::now();
    echoes(&mut socket, &[7; 600]).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn stalled_data_arrives_after_the_stall() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Stall);
    let mut late = open(&proxy).await;
    socket.write_all(b"kept").await.unwrap();
    late.write_all(b"late").await.unwrap();
    let mut received = [0; 4];
    assert!(timeout(SILENCE, socket.read_exact(&mut received)).await.is_err());
    proxy.set(Fault::None);
    timeout(PATIENCE, socket.read_exact(&mut received)).await.unwrap().unwrap();
    assert_eq!(&received, b"kept");
    timeout(PATIENCE, late.read_exact(&mut received)).await.unwrap().unwrap();
    assert_eq!(&received, b"late");
}

#[tokio::test]
async fn reset_applies_to_open_and_new_connections() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Reset);
    assert_eq!(rest(&mut socket).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut next = open(&proxy).await;
    assert_eq!(rest(&mut next).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.set(Fault::None);
    assert_eq!(echoes(&mut open(&proxy).await, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn black_hole_resets_connections_that_lost_data() {
    let (proxy, mut socket) = proxied().await;
    let mut silent = open(&proxy).await;
    echoes(&mut silent, b"here").await.unwrap();
    proxy.set(Fault::BlackHole);
    socket.write_all(b"lost").await.unwrap();
    assert!(timeout(SILENCE, socket.read(&mut [0])).await.is_err());
    proxy.set(Fault::None);
    assert_eq!(rest(&mut socket).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(echoes(&mut silent, b"still").await.unwrap(), b"still");
}

#[tokio::test]
async fn connection_is_cut_after_the_given_bytes() {
    let (proxy, socket) = proxied().await;
    proxy.set(Fault::CutAfter(3));
    for mut socket in [socket, open(&proxy).await] {
        assert_eq!(echoes(&mut socket, b"ab").await.unwrap(), b"ab");
        socket.write_all(b"c").await.unwrap();
        // The third byte may or may not have been echoed before the cut.
        let rest = rest(&mut socket).await.unwrap();
        assert!(b"c".starts_with(&rest), "{rest:?}");
    }
}

#[tokio::test]
async fn unix_sockets_are_reached_and_drop_closes_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let proxy = FaultProxy::start(Target::Unix(path.clone())).await.unwrap();
    assert!(rest(&mut open(&proxy).await).await.is_err(), "no server listens yet");

    let listener = UnixListener::bind(&path).unwrap();
    let mut client = open(&proxy).await;
    let (mut server, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    client.write_all(b"hi").await.unwrap();
    let mut received = [0; 2];
    timeout(PATIENCE, server.read_exact(&mut received)).await.unwrap().unwrap();
    let address = proxy.address();
    drop(proxy);
    assert_eq!(timeout(PATIENCE, server.read(&mut received)).await.unwrap().unwrap(), 0);
    let gone = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}
