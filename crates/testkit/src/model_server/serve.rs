//! Serves connections: reads a request, gets the script's reply, carries out its plan.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::batches::Batches;
use super::call::{Call, Wire};
use super::http::{self, json_response};
use super::journal::{Ending, Journal};
use super::plan::{Action, Plan, with_times};
use super::reply::Reply;

/// State shared by all connections.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) script: Arc<dyn Fn(&Call) -> Reply + Send + Sync>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) batches: Batches,
}

/// Accepts connections until it is dropped.
pub(crate) async fn accept(listener: TcpListener, server: Server) {
    let mut connections = JoinSet::new();
    loop {
        // For example out of file descriptors: retry.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let server = server.clone();
        connections.spawn(async move { server.connection(socket).await });
        // Errors of a connection are ignored; the journal records how its exchange ended.
        while connections.try_join_next().is_some() {}
    }
}

impl Server {
    async fn connection(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut buffer = BytesMut::new();
        while let Some(request) = http::read(&mut socket, &mut buffer).await? {
            let wire = match request.method_and_path() {
                ("POST", path) if path.ends_with("/chat/completions") => Wire::OpenAiChat,
                ("POST", path) if path.ends_with("/messages") => Wire::Anthropic,
                ("POST", path) if path.ends_with("/messages/batches") => {
                    let answer = self.submitted(&request.body);
                    socket.write_all(answer.as_bytes()).await?;
                    continue;
                }
                other => {
                    let answer = self.batches.find(other.1).unwrap_or_else(|| other_response(other));
                    socket.write_all(answer.as_bytes()).await?;
                    continue;
                }
            };
            // An answer may be held for long: release the memory of the request.
            buffer = BytesMut::from(&buffer[..]);
            if self.exchange(&mut socket, wire, request.body).await != Ending::Answered {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes a call that is answered later: its reply is made now.
    fn submitted(&self, body: &[u8]) -> String {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let call = self.call(body["requests"][0]["params"].to_string().into());
        let reply = (self.script)(&call);
        self.journal.end(call.number, Ending::Answered);
        self.batches.add(call.number, &reply)
    }

    /// A call that begins now.
    fn call(&self, body: Bytes) -> Call {
        Call { number: self.journal.begin(&body), body, json: OnceLock::new() }
    }

    /// Handles one call.
    async fn exchange(&self, socket: &mut TcpStream, wire: Wire, body: Bytes) -> Ending {
        let call = self.call(body);
        // If the server stops in mid-answer, dropping this records the end.
        let mut open = Open { journal: &self.journal, number: call.number, ending: Ending::Cut };
        let plan = Plan::of(&(self.script)(&call), wire, call.number);
        drop(call);
        open.ending = carry_out(socket, &plan).await;
        open.ending
    }
}

/// An open exchange; dropping this records its end.
struct Open<'j> {
    journal: &'j Journal,
    number: usize,
    ending: Ending,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.journal.end(self.number, self.ending);
    }
}

async fn carry_out(socket: &mut TcpStream, plan: &Plan) -> Ending {
    for action in &plan.actions {
        let done = match action {
            Action::Write(bytes) => socket.write_all(bytes).await,
            Action::WriteTimes(bytes, clock) => socket.write_all(&with_times(bytes, clock.elapsed())).await,
            Action::Cut => return Ending::Cut,
            Action::Hang => while_connected(socket, std::future::pending()).await,
            Action::Pause(time) => while_connected(socket, tokio::time::sleep(*time)).await,
            Action::Wait(gate) => while_connected(socket, gate.opened()).await,
        };
        if done.is_err() {
            return Ending::ClientLeft;
        }
    }
    Ending::Answered
}

/// Waits; fails as soon as the client closes the connection.
async fn while_connected(socket: &TcpStream, wait: impl Future<Output = ()>) -> io::Result<()> {
    let client_left = async {
        if let Ok(1..) = socket.peek(&mut [0]).await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = wait => Ok(()),
        () = client_left => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// The response to requests that are not model calls: the list of models, health, 404.
fn other_response((method, path): (&str, &str)) -> String {
    let (status, body) = match (method, path.rsplit('/').next().unwrap_or_default()) {
        ("GET", "models") => ("200 OK", r#"{"object":"list","data":[{"id":"scripted","object":"model"}]}"#),
        ("GET", "health") => ("200 OK", r#"{"status":"ok"}"#),
        _ => ("404 Not Found", r#"{"error":{"message":"not found","type":"invalid_request_error"}}"#),
    };
    json_response(status, "", body)
}
