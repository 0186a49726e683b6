//! The fault proxy does what it says, to connections that are open and to new ones.

use std::io::ErrorKind;
use std::time::Duration;

use houston_testkit::fault_proxy::{Fault, FaultProxy, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long something must not happen for it to count as not happening.
const SILENCE: Duration = Duration::from_millis(200);

/// Says back what it hears.
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
    assert_eq!(says_back(&mut socket, b"hello").await.unwrap(), b"hello");
    (proxy, socket)
}

async fn says_back(socket: &mut TcpStream, words: &[u8]) -> std::io::Result<Vec<u8>> {
    socket.write_all(words).await?;
    let mut heard = vec![0; words.len()];
    timeout(PATIENCE, socket.read_exact(&mut heard)).await.expect("silence")?;
    Ok(heard)
}

/// What comes until the end of the connection.
async fn rest(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut heard = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut heard)).await.expect("no end")?;
    Ok(heard)
}

#[tokio::test]
async fn latency_delays_both_ways_and_ends() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Latency(Duration::from_millis(100)));
    let began = Instant::now();
    says_back(&mut socket, b"slow").await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200));
    proxy.set(Fault::None);
    assert_eq!(says_back(&mut socket, b"quick").await.unwrap(), b"quick");
}

#[tokio::test]
async fn a_throttled_connection_takes_its_time() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Throttle(2000));
    let began = Instant::now();
    says_back(&mut socket, &[7; 600]).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_stall_keeps_what_was_sent() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Stall);
    let mut late = open(&proxy).await;
    socket.write_all(b"kept").await.unwrap();
    late.write_all(b"late").await.unwrap();
    let mut heard = [0; 4];
    assert!(timeout(SILENCE, socket.read_exact(&mut heard)).await.is_err());
    proxy.set(Fault::None);
    timeout(PATIENCE, socket.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"kept");
    timeout(PATIENCE, late.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"late");
}

#[tokio::test]
async fn a_reset_is_one_and_holds_for_new_connections() {
    let (proxy, mut socket) = proxied().await;
    proxy.set(Fault::Reset);
    assert_eq!(rest(&mut socket).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut next = open(&proxy).await;
    assert_eq!(rest(&mut next).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.set(Fault::None);
    assert_eq!(says_back(&mut open(&proxy).await, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn a_black_hole_swallows_and_resets_who_lost_something() {
    let (proxy, mut socket) = proxied().await;
    let mut silent = open(&proxy).await;
    says_back(&mut silent, b"here").await.unwrap();
    proxy.set(Fault::BlackHole);
    socket.write_all(b"lost").await.unwrap();
    assert!(timeout(SILENCE, socket.read(&mut [0])).await.is_err());
    proxy.set(Fault::None);
    assert_eq!(rest(&mut socket).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(says_back(&mut silent, b"still").await.unwrap(), b"still");
}

#[tokio::test]
async fn a_connection_is_cut_after_so_many_bytes() {
    let (proxy, socket) = proxied().await;
    proxy.set(Fault::CutAfter(3));
    for mut socket in [socket, open(&proxy).await] {
        assert_eq!(says_back(&mut socket, b"ab").await.unwrap(), b"ab");
        socket.write_all(b"c").await.unwrap();
        // Its third byte may or may not have come back when the cut came.
        let rest = rest(&mut socket).await.unwrap();
        assert!(b"c".starts_with(&rest), "{rest:?}");
    }
}

#[tokio::test]
async fn unix_sockets_are_reached_and_nothing_is_left_of_a_dropped_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let proxy = FaultProxy::start(Target::Unix(path.clone())).await.unwrap();
    assert!(rest(&mut open(&proxy).await).await.is_err(), "nobody is there yet");

    let listener = UnixListener::bind(&path).unwrap();
    let mut client = open(&proxy).await;
    let (mut server, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    client.write_all(b"hi").await.unwrap();
    let mut heard = [0; 2];
    timeout(PATIENCE, server.read_exact(&mut heard)).await.unwrap().unwrap();
    let address = proxy.address();
    drop(proxy);
    assert_eq!(timeout(PATIENCE, server.read(&mut heard)).await.unwrap().unwrap(), 0);
    let gone = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}
