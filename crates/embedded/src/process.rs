//! One supervised child process, and stopping a server that an earlier owner left running.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::{Error, Result, file, tail};
use crate::layout::Layout;
use crate::privilege::{self, Identity};
use crate::server::Server;
use crate::spawner::Spawner;

/// Pause between two checks of a socket or a child.
pub(crate) const POLL: Duration = Duration::from_millis(2);
/// Time without an answer after which a server counts as failed to start.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
/// Time from the stop signal to SIGKILL.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a server is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It accepts connections.
    Ready,
    /// It is loading its data. This is waited for without a time-out.
    Loading,
    /// It does not answer.
    Silent,
}

/// A child process; dropping stops it with its stop signal.
#[derive(Debug)]
pub(crate) struct Process {
    server: Server,
    child: Child,
    stop_signal: Signal,
    log: PathBuf,
    stopped: bool,
}

impl Process {
    /// Spawns `command` as `identity`, with its output appended to its log. `stop_signal` makes it end in an orderly way; the
    /// kernel sends it as well when the owner dies.
    pub(crate) fn spawn(
        server: Server,
        mut command: Command,
        identity: Identity,
        stop_signal: Signal,
        layout: &Layout,
        spawner: &Spawner,
    ) -> Result<Self> {
        let log = layout.log(server);
        let (out, err) = open_log(&log)?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).current_dir("/");
        identity.apply(&mut command, stop_signal);
        let program = PathBuf::from(command.get_program());
        let child = spawner.spawn(command).map_err(file("run", &program))?;
        Ok(Self { server, child, stop_signal, log, stopped: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        // An error means that the child was reaped elsewhere, so it has ended; the next `stop` reports it.
        self.child.try_wait().ok().flatten()
    }

    /// Waits until `ask` returns [`Answer::Ready`]. Fails when the child ends, or does not answer for [`SILENCE`].
    pub(crate) fn wait(&mut self, socket: &Path, mut ask: impl FnMut() -> Result<Answer>) -> Result<()> {
        let mut last_answer = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                // Empty if it cannot be read: the error names the file anyway.
                let tail = tail(&fs::read(&self.log).unwrap_or_default());
                return Err(Error::Exited { server: self.server, status, log: self.log.clone(), tail });
            }
            match ask()? {
                Answer::Ready => return Ok(()),
                Answer::Loading => last_answer = Instant::now(),
                Answer::Silent if last_answer.elapsed() < SILENCE => {}
                Answer::Silent => return Err(no_answer(self.server, socket, &self.log)),
            }
            sleep(POLL);
        }
    }

    /// Asks the child to stop, without waiting.
    pub(crate) fn ask_to_stop(&mut self) {
        if self.ended().is_none() {
            // It may have ended meanwhile, which is the purpose of the signal.
            let _ = privilege::signal(self.pid(), self.stop_signal);
        }
    }

    /// Stops the child and waits for its end, with SIGKILL after 20 s.
    pub(crate) fn stop(&mut self) -> Result<()> {
        if !self.stopped {
            self.ask_to_stop();
            self.stopped = true;
        }
        let asked = Instant::now();
        loop {
            let ended = if asked.elapsed() < PATIENCE {
                self.child.try_wait()
            } else {
                self.child.kill().and_then(|()| self.child.wait()).map(Some)
            };
            match ended {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => sleep(POLL),
                Err(_) => return Err(Error::unstoppable(self.server, self.pid())),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The error cannot be reported here; the next owner stops what remains.
        let _ = self.stop();
    }
}

/// How a server is started.
pub(crate) trait Supervised: std::fmt::Debug + Send + Sync {
    /// Starts it, after one that an earlier owner left running was stopped.
    fn spawn(&self, spawner: &Spawner) -> Result<Process>;

    /// Waits until it is ready. May start it again.
    fn wait(&self, process: &mut Process, spawner: &Spawner) -> Result<()>;
}

/// The error of a server that runs but does not answer.
pub(crate) fn no_answer(server: Server, socket: &Path, log: &Path) -> Error {
    let (socket, seconds, log) = (socket.display(), SILENCE.as_secs(), log.display());
    Error::new(format!("{server} did not answer on {socket} within {seconds} s; see {log}"))
}

/// Stops a server that a killed owner left running, by its `pid_file`. The caller holds the folder's lock, so the process
/// has no living owner.
///
/// The server is recognised by a program name in `names` and by `mark` among its arguments, and stopped with `signal`.
/// Returns the pid of the file if there is one: it now belongs to no process, a zombie or an unrelated process.
pub(crate) fn stop_leftover(
    server: Server,
    pid_file: &Path,
    names: &[&str],
    mark: &Path,
    signal: Signal,
) -> Result<Option<u32>> {
    let Ok(text) = fs::read_to_string(pid_file) else { return Ok(None) };
    let pid: Option<u32> = text.lines().next().and_then(|line| line.trim().parse().ok());
    let Some(pid) = pid.filter(|pid| *pid > 1) else { return Ok(None) };
    let began = Instant::now();
    while is_running(pid, names, mark) {
        let waited = began.elapsed();
        let signal = if waited > PATIENCE { Signal::KILL } else { signal };
        let sent = privilege::signal(pid, signal);
        let refused = sent.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if refused || waited > PATIENCE * 2 {
            return Err(Error::unstoppable(server, pid));
        }
        sleep(POLL * 10);
    }
    Ok(Some(pid))
}

/// Whether `pid` is that server. A zombie has no command line, and a reused pid has another one.
fn is_running(pid: u32, names: &[&str], mark: &Path) -> bool {
    if cfg!(target_os = "linux") {
        // Slim images have no `ps`.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        let program = Path::new(words.next().unwrap_or_default()).file_name();
        return program.is_some_and(|program| names.iter().any(|name| program == *name))
            && words.any(|word| Path::new(word) == mark);
    }
    let output = Command::new("ps").args(["-o", "args=", "-p", &pid.to_string()]).output();
    let line = output.map(|output| output.stdout).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    names.iter().any(|name| line.contains(name)) && line.contains(&*mark.to_string_lossy())
}

/// Renames the log of the previous run, so that it can still be read.
pub(crate) fn rotate_log(log: &Path) -> Result<()> {
    match fs::rename(log, log.with_extension("previous.log")) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(file("rename", log)(source)),
        _ => Ok(()),
    }
}

/// Opens the log for a child's stdout and stderr. Restarts within one run append to the same log.
fn open_log(log: &Path) -> Result<(File, File)> {
    let out = File::options().create(true).append(true).mode(0o600).open(log).map_err(file("create", log))?;
    let err = out.try_clone().map_err(file("open", log))?;
    Ok((out, err))
}
