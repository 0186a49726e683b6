//! The part of HTTP/1.1 that clients of models use: requests with a content length, one after the other.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Maximum size of a head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Maximum size of a body, in bytes.
const MAX_BODY: usize = 64 << 20;

/// A request, unparsed.
#[derive(Debug)]
pub(crate) struct Request {
    head: Bytes,
    pub(crate) body: Bytes,
}

impl Request {
    /// The method, and the path without its query.
    pub(crate) fn method_and_path(&self) -> (&str, &str) {
        let line = std::str::from_utf8(&self.head).unwrap_or_default().lines().next().unwrap_or_default();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        (method, target.split('?').next().unwrap_or_default())
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Reads the next request of a connection; `None` if the client has closed it.
pub(crate) async fn read(socket: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<Request>> {
    let head = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            break buffer.split_to(end + 4).freeze();
        }
        if buffer.len() > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let text = std::str::from_utf8(&head).map_err(io::Error::other)?;
    let length = header(text, "content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
    if length > MAX_BODY || header(text, "transfer-encoding").is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    buffer.reserve(length.saturating_sub(buffer.len()));
    while buffer.len() < length {
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Request { head, body: buffer.split_to(length).freeze() }))
}

/// A response with a JSON body; `headers` are further lines.
pub(crate) fn json_response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
