//! A network in memory: names, addresses, servers, and a record of what was asked for.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_web::client::Builder;
use houston_web::network::{Dial, Dialled, Lookup, Stream};
use houston_web::{Client, ListedHost};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::certificate;

/// What a server does after a request.
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends the same bytes until the client is gone.
    Forever(Vec<u8>),
    Close,
}

type Handler = dyn Fn(&str) -> Vec<Step> + Send + Sync;

/// Names, servers and a record. Every address that is dialled reaches the one server.
pub(crate) struct Network {
    /// The answers for a name, one after the other; the last one stays.
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    handler: Box<Handler>,
    lookups: AtomicUsize,
    dialled: Mutex<Vec<SocketAddr>>,
    requests: Mutex<Vec<String>>,
    /// Instead of connecting: never answer, or report another end.
    pub(crate) mode: Mode,
    servers: Mutex<JoinSet<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    #[default]
    Connects,
    Hangs,
    Refuses,
    /// The other end of each connection has this address.
    EndsAt(SocketAddr),
}

impl Network {
    pub(crate) fn new(handler: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self {
            names: Mutex::default(),
            handler: Box::new(handler),
            lookups: AtomicUsize::new(0),
            dialled: Mutex::default(),
            requests: Mutex::default(),
            mode: Mode::default(),
            servers: Mutex::default(),
        }
    }

    /// Sets the answers for a name: `["1.1.1.1", "127.0.0.1 1.1.1.1"]` are two answers, the second with two addresses.
    pub(crate) fn name(self, name: &str, answers: &[&str]) -> Self {
        let addresses =
            |answer: &&str| answer.split_whitespace().map(|address| address.parse().unwrap()).collect();
        let answers = answers.iter().map(addresses).collect();
        self.names.lock().unwrap().insert(name.to_owned(), answers);
        self
    }

    pub(crate) fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// A client for the public internet in this network.
    pub(crate) fn guarded(self) -> (Client, Arc<Self>) {
        self.client(Client::guarded(certificate::trusting()))
    }

    /// A client for one host in this network.
    pub(crate) fn listed(self, host: &str) -> (Client, Arc<Self>) {
        let host = ListedHost::of(host).unwrap();
        self.client(Client::listed(vec![host], certificate::trusting()))
    }

    pub(crate) fn client(self, builder: Builder) -> (Client, Arc<Self>) {
        let network = Arc::new(self);
        (network.attached(builder), network)
    }

    /// Another client in this network.
    pub(crate) fn attached(self: &Arc<Self>, builder: Builder) -> Client {
        let wire = Arc::new(Wire(Arc::clone(self)));
        builder.lookup(Arc::clone(&wire) as Arc<dyn Lookup>).dial(wire).build()
    }

    /// The addresses that were dialled.
    pub(crate) fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Waits until all connections are closed.
    pub(crate) async fn closed(&self) {
        let mut servers = std::mem::take(&mut *self.servers.lock().unwrap());
        let all = async { while servers.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(30), all).await.expect("a connection stays open");
    }

    /// The requests that servers received: heads in small letters, then the bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// The network as a client sees it.
struct Wire(Arc<Network>);

impl Lookup for Wire {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.0.lookups.fetch_add(1, Ordering::Relaxed);
        let mut names = self.0.names.lock().unwrap();
        let answer = match names.get_mut(&host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers.first().cloned().unwrap_or_default()),
            None => Err(io::Error::other("no such name")),
        };
        async move { answer }.boxed()
    }
}

impl Dial for Wire {
    fn dial(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Dialled>> {
        self.0.dialled.lock().unwrap().push(to);
        let peer = match self.0.mode {
            Mode::Connects => to,
            Mode::EndsAt(peer) => peer,
            Mode::Hangs => return std::future::pending().boxed(),
            Mode::Refuses => return async { Err(io::ErrorKind::ConnectionRefused.into()) }.boxed(),
        };
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let network = Arc::clone(&self.0);
        let is_tls = matches!(to.port(), 443 | 8443);
        let server = async move {
            if is_tls {
                if let Ok(stream) = certificate::acceptor().accept(theirs).await {
                    network.serve(Box::new(stream)).await;
                }
            } else {
                network.serve(Box::new(theirs)).await;
            }
        };
        self.0.servers.lock().unwrap().spawn(server);
        async move { Ok(Dialled { stream: Box::new(ours), peer }) }.boxed()
    }
}

impl Network {
    async fn serve(&self, mut stream: Box<dyn Stream>) {
        while let Some(request) = received(&mut stream).await {
            self.requests.lock().unwrap().push(request.clone());
            for step in (self.handler)(&request) {
                let sent = match step {
                    Step::Send(bytes) => stream.write_all(&bytes).await,
                    Step::Wait(time) => {
                        tokio::time::sleep(time).await;
                        Ok(())
                    }
                    Step::Forever(bytes) => loop {
                        if let Err(error) = stream.write_all(&bytes).await {
                            break Err(error);
                        }
                    },
                    Step::Close => return,
                };
                if sent.is_err() {
                    return;
                }
            }
        }
    }
}

/// The next request of a connection; `None` at its end.
async fn received(stream: &mut Box<dyn Stream>) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase().replace("\r\n", "\n");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(format!("{head}\n\n{body}"));
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

/// A complete answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Step> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    vec![Step::Send([bytes.as_bytes(), body].concat())]
}

pub(crate) fn html(body: &str) -> Vec<Step> {
    answer(200, &[("content-type", "text/html; charset=utf-8")], body)
}

pub(crate) fn redirect(status: u16, to: &str) -> Vec<Step> {
    answer(status, &[("location", to)], "")
}

/// The path of a request, with its query.
pub(crate) fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}

/// The value of a header of a request; empty if there is none.
pub(crate) fn header<'r>(request: &'r str, name: &str) -> &'r str {
    let head = request.split("\n\n").next().unwrap_or_default();
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}
