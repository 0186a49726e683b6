//! The part of the Postgres protocol that is needed to check whether the server is ready and to create a database.
//!
//! Message formats: <https://www.postgresql.org/docs/current/protocol-message-formats.html>.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Protocol 3.0.
const PROTOCOL: i32 = 196_608;
/// Read time-out. Creating a database copies files; nothing else here takes long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest accepted message in bytes; real ones are far shorter.
const LONGEST: usize = 1 << 20;

/// How a connection attempt ended.
#[derive(Debug)]
pub(crate) enum Greeting {
    /// The database is open.
    Open(Connection),
    /// The server refused.
    Refused(Refusal),
    /// The server does not listen, or the connection broke.
    Silent,
}

/// An error response of the server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) sqlstate: String,
    pub(crate) message: String,
}

/// A connection as user `houston`.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
}

impl Connection {
    /// Connects to `database`.
    ///
    /// # Errors
    /// Only `PermissionDenied`, when the caller may not open the socket.
    pub(crate) fn open(socket: &Path, database: &str) -> io::Result<Greeting> {
        match Self::greet(socket, database) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
            Err(_) => Ok(Greeting::Silent),
            Ok(greeting) => Ok(greeting),
        }
    }

    fn greet(socket: &Path, database: &str) -> io::Result<Greeting> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut connection = Self { stream };
        let mut hello = PROTOCOL.to_be_bytes().to_vec();
        for word in ["user", "houston", "database", database, ""] {
            hello.extend_from_slice(word.as_bytes());
            hello.push(0);
        }
        connection.send(None, &hello)?;
        Ok(match connection.finish()? {
            None => Greeting::Open(connection),
            Some(refusal) => Greeting::Refused(refusal),
        })
    }

    /// Runs one statement. Returns the refusal if the server refuses it.
    pub(crate) fn run(&mut self, statement: &str) -> io::Result<Option<Refusal>> {
        let mut text = statement.as_bytes().to_vec();
        text.push(0);
        self.send(Some(b'Q'), &text)?;
        let refusal = self.finish()?;
        if refusal.is_some() {
            self.finish()?; // a refused statement is followed by "ready", a refused connection is not
        }
        Ok(refusal)
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len() + 4).map_err(io::Error::other)?;
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message)
    }

    /// Reads messages up to "ready for query" or an error response.
    fn finish(&mut self) -> io::Result<Option<Refusal>> {
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
            if !(4..LONGEST).contains(&length) {
                return Err(ErrorKind::InvalidData.into());
            }
            let mut body = vec![0; length - 4];
            self.stream.read_exact(&mut body)?;
            match kind {
                b'Z' => return Ok(None),
                b'E' => return Ok(Some(Refusal::parse(&body))),
                _ => {}
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // "Terminate", so that Postgres does not log a lost connection.
        let _ = self.send(Some(b'X'), &[]);
    }
}

impl Refusal {
    fn parse(body: &[u8]) -> Self {
        let mut refusal = Self::default();
        for field in body.split(|byte| *byte == 0) {
            match field.split_first() {
                Some((b'C', text)) => refusal.sqlstate = String::from_utf8_lossy(text).into_owned(),
                Some((b'M', text)) => refusal.message = String::from_utf8_lossy(text).into_owned(),
                _ => {}
            }
        }
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn refusals_are_read() {
        let body = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
        let expected = Refusal {
            sqlstate: "57P03".to_owned(),
            message: "the database system is starting up".to_owned(),
        };
        assert_eq!(Refusal::parse(body), expected);
    }
}
