//! A child process, usually `houston`: signals, output, readiness.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// How often a child is polled for its end or readiness.
const POLL: Duration = Duration::from_millis(5);

/// How long the last lines of a process that has ended are waited for, if something still has its outputs open.
const REST_ARRIVES_WITHIN: Duration = Duration::from_secs(2);

/// A running child. Dropping this kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: Arc<Log>,
}

/// Lines that a child printed to stdout and stderr.
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
    fn take(&self, output: impl Read) {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { break };
            self.lines.lock().lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            self.grown.notify_all();
        }
        self.lines.lock().closed += 1;
        self.grown.notify_all();
    }

    /// Waits until what a process printed before its end has been read. A child of it may keep the outputs open.
    fn wait_for_rest(&self) {
        let open = |lines: &mut Lines| lines.closed < 2;
        self.grown.wait_while_for(&mut self.lines.lock(), open, REST_ARRIVES_WITHIN);
    }
}

impl Process {
    /// Starts a command with empty input; its outputs go to the log.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
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

    /// The process id. It is not reused while this value exists.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.log.lines.lock().lines.join("\n")
    }

    /// Sends SIGKILL and waits for the end of the process.
    ///
    /// # Errors
    ///
    /// If the signal or the wait fails. It is no error if the process had already ended.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Sends a signal: INT is Ctrl-C, and after STOP the process is suspended until CONT.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn signal(&mut self, which: Signal) -> io::Result<()> {
        // After the wait, the id may belong to another process.
        let runs = self.child.try_wait()?.is_none();
        signal(which, runs.then(|| self.child.id()))
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// The exit status; `None` while the process runs.
    ///
    /// # Errors
    ///
    /// If the status cannot be read.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    ///
    /// If the process still runs after `patience`.
    pub fn wait(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.log.wait_for_rest();
                return Ok(status);
            }
            self.check(end, "its end")?;
            sleep(POLL);
        }
    }

    /// Waits for a line for which `matches` holds, including lines already printed; returns it.
    ///
    /// # Errors
    ///
    /// If the process ends, or `patience` passes, without such a line. The message contains the log.
    pub fn wait_for_line(&self, patience: Duration, matches: impl Fn(&str) -> bool) -> io::Result<String> {
        let end = Instant::now() + patience;
        let mut lines = self.log.lines.lock();
        let mut seen = 0;
        loop {
            if let Some(line) = lines.lines[seen..].iter().find(|line| matches(line)) {
                return Ok(line.clone());
            }
            seen = lines.lines.len();
            if lines.closed == 2 || Instant::now() >= end {
                drop(lines);
                return Err(self.timed_out("a line"));
            }
            self.log.grown.wait_until(&mut lines, end);
        }
    }

    /// Waits for the line with the HTTP address; needed if the process listens on port 0.
    ///
    /// # Errors
    ///
    /// If the process ends, or `patience` passes, before that. The message contains the log.
    pub fn wait_for_address(&self, patience: Duration) -> io::Result<SocketAddr> {
        let greets =
            |line: &str| ["serving on http://", "is up at http://"].iter().any(|it| line.contains(it));
        let line = self.wait_for_line(patience, greets)?;
        let address =
            line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        address.ok_or_else(|| io::Error::other(format!("no address in the greeting `{line}`")))
    }

    /// Waits until `GET path` at `address` returns 200.
    ///
    /// # Errors
    ///
    /// If the process ends, or `patience` passes, before that. The message contains the log.
    pub fn wait_for_ready(&mut self, address: SocketAddr, path: &str, patience: Duration) -> io::Result<()> {
        let end = Instant::now() + patience;
        while get(address, path).ok() != Some(200) {
            if self.child.try_wait()?.is_some() {
                return Err(self.timed_out("readiness, and it ended"));
            }
            self.check(end, "readiness")?;
            sleep(POLL);
        }
        Ok(())
    }

    fn check(&self, end: Instant, what: &str) -> io::Result<()> {
        if Instant::now() < end { Ok(()) } else { Err(self.timed_out(what)) }
    }

    fn timed_out(&self, what: &str) -> io::Error {
        io::Error::other(format!("waited in vain for {what}; output of the process:\n{}", self.log()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed or already ended: in both cases the wait returns.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends `signal` to a process; an error if there is none.
pub(crate) fn signal(signal: Signal, pid: Option<u32>) -> io::Result<()> {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(pid, signal)?)
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
