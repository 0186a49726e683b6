//! The `houston` binary as a child: to be killed, stopped, continued and read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::signal::signal;

/// How often a child is asked whether it has ended, or is ready.
const POLL: Duration = Duration::from_millis(5);

/// A running child. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: Arc<Log>,
}

/// What a child printed on both outputs, line by line.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    closed: usize,
}

impl Log {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, output: impl Read) {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { break };
            self.lines().lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            self.grown.notify_all();
        }
        self.lines().closed += 1;
        self.grown.notify_all();
    }
}

impl Process {
    /// Starts `program` with these arguments. It sees the environment of the caller, changed by `environment`
    /// (`None` removes a variable), and no input.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, Option<&str>)],
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self::spawn(&mut command)
    }

    /// Starts a command that was made elsewhere; its outputs become the log, its input is empty.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let log = Arc::new(Log::default());
        let outputs = (child.stdout.take(), child.stderr.take());
        if let (Some(output), log) = (outputs.0, log.clone()) {
            thread::spawn(move || log.take(output));
        }
        if let (Some(output), log) = (outputs.1, log.clone()) {
            thread::spawn(move || log.take(output));
        }
        Ok(Self { child, log })
    }

    /// Its process id. It belongs to no other process as long as this value is there.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lines().lines.join("\n")
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// What the system says; not when it had ended already.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// SIGTERM: please end.
    ///
    /// # Errors
    ///
    /// When it has ended already.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal("TERM")
    }

    /// SIGINT, as Ctrl-C does it.
    ///
    /// # Errors
    ///
    /// When it has ended already.
    pub fn interrupt(&mut self) -> io::Result<()> {
        self.signal("INT")
    }

    /// SIGSTOP: it stands still, wherever it is, until [`Self::resume`].
    ///
    /// # Errors
    ///
    /// When it has ended already.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal("STOP")
    }

    /// SIGCONT.
    ///
    /// # Errors
    ///
    /// When it has ended already.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal("CONT")
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// When it still runs after `patience`.
    pub fn wait(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            self.check(end, "its end")?;
            sleep(POLL);
        }
    }

    /// Waits for a line that `is_it`, among those printed already too, and returns it.
    ///
    /// # Errors
    ///
    /// When it ended, or `patience` did, without such a line; the message has the log.
    pub fn wait_for_line(&self, patience: Duration, is_it: impl Fn(&str) -> bool) -> io::Result<String> {
        let end = Instant::now() + patience;
        let mut lines = self.log.lines();
        let mut seen = 0;
        loop {
            if let Some(line) = lines.lines[seen..].iter().find(|line| is_it(line)) {
                return Ok(line.clone());
            }
            seen = lines.lines.len();
            if lines.closed == 2 || Instant::now() >= end {
                drop(lines);
                return Err(self.impatient("a line"));
            }
            let left = end.saturating_duration_since(Instant::now());
            lines = self.log.grown.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until it says where it serves HTTP. Told to listen at port 0, it takes one that nobody else has.
    ///
    /// # Errors
    ///
    /// When it ended, or `patience` did, before that; the message has the log.
    pub fn wait_for_address(&self, patience: Duration) -> io::Result<SocketAddr> {
        const GREETING: &str = "serving on http://";
        let line = self.wait_for_line(patience, |line| line.contains(GREETING))?;
        let address = line.split(GREETING).nth(1).and_then(|address| address.trim().parse().ok());
        address.ok_or_else(|| io::Error::other(format!("no address in the greeting `{line}`")))
    }

    /// Waits until `GET path` at `address` is answered with 200.
    ///
    /// # Errors
    ///
    /// When it ended, or `patience` did, before that; the message has the log.
    pub fn wait_for_ready(&mut self, address: SocketAddr, path: &str, patience: Duration) -> io::Result<()> {
        let end = Instant::now() + patience;
        while get(address, path).ok() != Some(200) {
            if self.child.try_wait()?.is_some() {
                return Err(self.impatient("readiness, and it ended"));
            }
            self.check(end, "readiness")?;
            sleep(POLL);
        }
        Ok(())
    }

    fn check(&self, end: Instant, what: &str) -> io::Result<()> {
        if Instant::now() < end { Ok(()) } else { Err(self.impatient(what)) }
    }

    fn impatient(&self, what: &str) -> io::Error {
        io::Error::other(format!("waited in vain for {what}; the process said:\n{}", self.log()))
    }

    fn signal(&mut self, name: &str) -> io::Result<()> {
        // Waited for, its id may belong to another.
        let runs = self.child.try_wait()?.is_none();
        signal(name, runs.then(|| self.child.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Dead already, or about to be: in both cases it can be waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// SIGTERM to a child whose handle the caller holds, and has not waited for.
///
/// # Errors
///
/// When there is no such process.
pub fn terminate(pid: u32) -> io::Result<()> {
    signal("TERM", Some(pid))
}

/// The status of `GET path`.
fn get(address: SocketAddr, path: &str) -> io::Result<u16> {
    let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut head = [0; 12];
    socket.read_exact(&mut head)?;
    let status = std::str::from_utf8(&head[9..]).ok().and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
