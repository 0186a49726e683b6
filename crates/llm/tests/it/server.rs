//! A server on loopback whose behaviour each test defines.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A connection whose request was read.
pub(crate) struct Connection {
    pub(crate) request: String,
    pub(crate) socket: TcpStream,
}

impl Connection {
    /// Sends data immediately.
    pub(crate) fn send(&mut self, text: &str) {
        let _ = self.socket.write_all(text.as_bytes());
        let _ = self.socket.flush();
    }

    /// Sends the head of a chunked stream.
    pub(crate) fn begin(&mut self) {
        self.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    }

    /// Sends one event as one chunk.
    pub(crate) fn event(&mut self, data: &str) {
        self.send(&chunk(data));
    }

    /// Sends a complete answer.
    pub(crate) fn answer(&mut self, status: &str, headers: &str, body: &str) {
        self.send(&format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()));
    }

    /// Waits until the client closes the connection.
    pub(crate) fn wait_for_close(&mut self) {
        let mut byte = [0];
        while matches!(self.socket.read(&mut byte), Ok(1)) {}
    }

    /// Reads the next request on the same connection; `false` when there is none.
    pub(crate) fn next(&mut self) -> bool {
        self.request = read_request(&mut self.socket);
        !self.request.is_empty()
    }
}

/// An event, encoded as one chunk.
pub(crate) fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn read_request(socket: &mut TcpStream) -> String {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text.into_owned();
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return String::new(),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Handles each connection with `serve` on a thread of its own. Returns the base URL and the results of `serve`, one
/// per connection.
pub(crate) fn server<T: Send + 'static>(
    serve: impl Fn(Connection) -> T + Send + Sync + Clone + 'static,
) -> (String, Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (report, reports) = channel();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (serve, report) = (serve.clone(), report.clone());
            thread::spawn(move || {
                let mut socket = socket.unwrap();
                socket.set_nodelay(true).unwrap();
                let request = read_request(&mut socket);
                let _ = report.send(serve(Connection { request, socket }));
            });
        }
    });
    (base, reports)
}
