//! Executes a test's own SQL: over a connection to the server's socket, or as a `psql` in the background.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// Protocol 3.0, <https://www.postgresql.org/docs/current/protocol-message-formats.html>.
const PROTOCOL: i32 = 196_608;

/// A database of a server. Without kept sessions it works across restarts of the server.
#[derive(Debug, Clone)]
pub struct Psql {
    program: PathBuf,
    url: String,
    /// Sessions for the next statements: a new one costs the server more than most statements of tests. `None` if each call
    /// has a session of its own, for servers that are stopped and killed.
    idle: Option<Arc<Mutex<Vec<Session>>>>,
}

/// The path of a client program. Prefers that in the server's folder: the distribution's may be a slow wrapper script.
pub(crate) fn program(name: &str, postmaster: Option<u32>) -> PathBuf {
    let beside = postmaster
        .and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
        .map(|postgres| postgres.with_file_name(name))
        .filter(|program| program.is_file());
    beside.unwrap_or_else(|| PathBuf::from(name))
}

impl Psql {
    /// For the database at `url`; `postmaster` is the process id of its server, if there is one. `stays`: whether the server stays
    /// up, so that sessions are kept between calls.
    pub(crate) fn of(url: &str, postmaster: Option<u32>, stays: bool) -> Self {
        Self { program: program("psql", postmaster), url: url.to_owned(), idle: stays.then(Arc::default) }
    }

    /// The URL of another database of the same server.
    pub(crate) fn url_of(&self, database: &str) -> String {
        let (start, rest) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let server = start.rsplit_once('/').map_or(start, |(server, _)| server);
        format!("{server}/{database}?{rest}")
    }

    /// A client for another database of the same server, which keeps sessions if this one does.
    pub(crate) fn for_database(&self, database: &str) -> Self {
        let idle = self.idle.as_ref().map(|_| Arc::default());
        Self { program: self.program.clone(), url: self.url_of(database), idle }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A `psql` command with these statements. It prints rows unaligned, one per line, with fields separated by `|`.
    pub(crate) fn command(&self, statements: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", &self.url, "-c", statements]);
        command
    }

    /// Executes statements in one transaction, in a session with the server's settings; returns the rows as `psql` prints
    /// them.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or rejects a statement: the error has its message.
    pub fn run(&self, statements: &str) -> io::Result<String> {
        let kept = self.idle().and_then(|mut idle| idle.pop()).filter(Session::is_open);
        let mut session = kept.map_or_else(|| Session::open(&self.url), Ok)?;
        let rows = session.execute(statements)?;
        if let Some(mut idle) = self.idle()
            // Its settings, locks and temporary tables go, as with the end of a session.
            && session.execute("discard all").is_ok()
        {
            idle.push(session);
        }
        Ok(rows.trim().to_owned())
    }

    /// Ends the sessions that are kept.
    pub(crate) fn end_sessions(&self) {
        if let Some(mut idle) = self.idle() {
            idle.clear();
        }
    }

    fn idle(&self) -> Option<MutexGuard<'_, Vec<Session>>> {
        self.idle.as_ref().map(|idle| idle.lock())
    }
}

/// A session over a unix socket, without a password.
#[derive(Debug)]
struct Session {
    stream: UnixStream,
}

impl Session {
    /// Connects to the database at `url`: `postgres://<user>@<host>:<port>/<database>?host=<folder of the socket>&…`.
    fn open(url: &str) -> io::Result<Self> {
        let wrong = || {
            io::Error::new(ErrorKind::InvalidInput, format!("{url} has no user, port, database or socket"))
        };
        let (start, parameters) = url.split_once('?').ok_or_else(wrong)?;
        let (server, database) = start.rsplit_once('/').ok_or_else(wrong)?;
        let (user, host) =
            server.rsplit('/').next().and_then(|server| server.split_once('@')).ok_or_else(wrong)?;
        let (_, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let folder = parameters.split('&').find_map(|parameter| parameter.strip_prefix("host="));
        let socket = Path::new(folder.ok_or_else(wrong)?).join(format!(".s.PGSQL.{port}"));
        let mut session = Self { stream: UnixStream::connect(socket)? };
        let mut hello = PROTOCOL.to_be_bytes().to_vec();
        for word in ["user", user, "database", database, ""] {
            hello.extend_from_slice(word.as_bytes());
            hello.push(0);
        }
        session.send(&[], &hello)?;
        session.rows()?;
        Ok(session)
    }

    /// Whether the server has not closed it. It sends nothing else between statements.
    fn is_open(&self) -> bool {
        // Nothing is the end, and something says why it ends.
        let read = self.stream.set_nonblocking(true).and_then(|()| (&self.stream).read(&mut [0]));
        let is_silent = read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        is_silent && self.stream.set_nonblocking(false).is_ok()
    }

    /// Executes statements in one transaction; returns their rows, each with a line feed at its end.
    fn execute(&mut self, statements: &str) -> io::Result<String> {
        self.send(b"Q", &[statements.as_bytes(), b"\0"].concat())?;
        self.rows()
    }

    fn send(&mut self, kind: &[u8], body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len() + 4).map_err(io::Error::other)?;
        self.stream.write_all(&[kind, &length.to_be_bytes(), body].concat())
    }

    /// Reads up to the end of the statements, or of the connection if the server refuses it.
    fn rows(&mut self) -> io::Result<String> {
        let (mut rows, mut refusal) = (Vec::new(), None);
        loop {
            let mut head = [0; 5];
            match self.stream.read_exact(&mut head) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(refusal.unwrap_or(error));
                }
                read => read?,
            }
            let [kind, length @ ..] = head;
            let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
            let mut body = vec![0; length.checked_sub(4).ok_or(ErrorKind::InvalidData)?];
            self.stream.read_exact(&mut body)?;
            match kind {
                b'D' => add_row(&mut rows, &body).ok_or(ErrorKind::InvalidData)?,
                b'E' => refusal = Some(io::Error::other(message(&body))),
                b'G' | b'H' => return Err(io::Error::new(ErrorKind::Unsupported, "use `psql` for `copy`")),
                // A transaction that the statements left open ends with the session.
                b'Z' if refusal.is_none() => return Ok(String::from_utf8_lossy(&rows).into_owned()),
                b'Z' => return Err(refusal.unwrap_or_else(|| ErrorKind::InvalidData.into())),
                _ => {}
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // So that Postgres does not log a lost connection.
        let _ = self.send(b"X", &[]);
    }
}

/// Adds the fields of a row, separated by `|`; null is empty.
fn add_row(rows: &mut Vec<u8>, body: &[u8]) -> Option<()> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    for nth in 0..u16::from_be_bytes(*count) {
        if nth > 0 {
            rows.push(b'|');
        }
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (field, after) =
            after.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0))?;
        rows.extend_from_slice(field);
        rest = after;
    }
    rows.push(b'\n');
    Some(())
}

/// The text of an error as `psql` prints it, without the statement.
fn message(body: &[u8]) -> String {
    let field = |kind: u8| {
        let field = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[kind]));
        field.map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let more = [(b'D', "DETAIL"), (b'H', "HINT"), (b'W', "CONTEXT")];
    let more = more.iter().filter_map(|(kind, name)| Some(format!("\n{name}:  {}", field(*kind)?)));
    let severity = field(b'S').unwrap_or_default();
    format!("{severity}:  {}{}", field(b'M').unwrap_or_default(), more.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{add_row, message};

    #[test]
    fn rows_are_printed_as_psql_does() {
        let mut rows = Vec::new();
        add_row(&mut rows, b"\0\x03\0\0\0\x01a\xff\xff\xff\xff\0\0\0\x02bc").unwrap();
        add_row(&mut rows, b"\0\x01\0\0\0\x01d").unwrap();
        assert_eq!(rows, b"a||bc\nd\n");
        assert_eq!(add_row(&mut rows, b"\0\x01\0\0\0\x09d"), None);
    }

    #[test]
    fn errors_are_printed_as_psql_does() {
        let body = b"SERROR\0VERROR\0C23505\0Mduplicate key\0DKey (id)=(1) exists.\0\0";
        assert_eq!(message(body), "ERROR:  duplicate key\nDETAIL:  Key (id)=(1) exists.");
    }
}
