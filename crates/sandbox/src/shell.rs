//! [`Shell`]: runs a command of the system under `bwrap` (bubblewrap), where it can read the programs of the system and
//! nothing else, and can reach nothing.

mod kill;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};

use self::kill::kill;

/// Bytes of each of the two outputs. A command that writes more is ended.
pub const MAX_SHELL_OUTPUT: usize = 64 << 10;
/// Bytes of the folder that a command may write, and of its `/tmp`.
const MAX_FOLDER: &str = "67108864";
/// How often a thread looks whether its command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a probe may take.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// Folders of programs and libraries that are links to their namesakes below `/usr` where systems have merged them.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Runs commands, each in an empty folder that is gone afterwards, or in one that the caller names. Clones share the limit of commands.
#[derive(Debug, Clone)]
pub struct Shell {
    bwrap: PathBuf,
    commands: Arc<Semaphore>,
}

/// What a command has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRun {
    /// How it ended.
    pub end: ShellEnd,
    /// What it wrote to its standard output; what is not UTF-8 is replaced.
    pub output: String,
    /// What it wrote to its standard error.
    pub errors: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellEnd {
    /// With this code; a command that a signal ended has 128 and the signal.
    Code(i32),
    /// Its time was over: all its processes were killed.
    TimedOut,
    /// It wrote more than [`MAX_SHELL_OUTPUT`]: all its processes were killed.
    Flooded,
    /// `bwrap` itself was killed.
    Killed,
}

/// Why no command can be run.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// There is no such program.
    #[error("`bwrap` is not on the PATH: install the package bubblewrap")]
    Missing,
    /// It could not be started.
    #[error("cannot start bwrap: {0}")]
    Start(#[source] std::io::Error),
    /// It started, but does not do what it must.
    #[error("bwrap does not work on this machine: {0}")]
    Broken(String),
}

impl Shell {
    /// A shell with the `bwrap` on `PATH` that runs at most `commands` at once; others wait.
    ///
    /// # Errors
    /// [`ShellError::Missing`].
    pub fn find(commands: usize) -> Result<Self, ShellError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found =
            std::env::split_paths(&path).map(|folder| folder.join("bwrap")).find(|path| path.is_file());
        Ok(Self::new(found.ok_or(ShellError::Missing)?, commands))
    }

    /// A shell with the `bwrap` at this path.
    pub fn new(bwrap: PathBuf, commands: usize) -> Self {
        let most = commands.clamp(1, Semaphore::MAX_PERMITS);
        Self { bwrap, commands: Arc::new(Semaphore::new(most)) }
    }

    /// Whether commands can be run here: runs one.
    ///
    /// # Errors
    /// [`ShellError`] says why not.
    pub async fn check(&self) -> Result<(), ShellError> {
        let run = self.run("echo ready", "", CHECK_TIME).await?;
        match (run.end, run.output.as_str()) {
            (ShellEnd::Code(0), "ready\n") => Ok(()),
            (ShellEnd::TimedOut, _) => Err(ShellError::Broken("it takes too long".to_owned())),
            _ => Err(ShellError::Broken(run.errors.lines().next().unwrap_or("it says nothing").to_owned())),
        }
    }

    /// Runs `command` with `/bin/sh` and `input` as its standard input, for at most `time`. Dropping the future kills all
    /// processes of the command.
    ///
    /// # Errors
    /// [`ShellError::Start`] when nothing was run.
    pub async fn run(&self, command: &str, input: &str, time: Duration) -> Result<ShellRun, ShellError> {
        self.run_in(None, command, input, time).await
    }

    /// As [`Self::run`], in the folder at this path of the machine, which the command may change and sees as `/work`.
    pub async fn run_in(
        &self,
        folder: Option<&Path>,
        command: &str,
        input: &str,
        time: Duration,
    ) -> Result<ShellRun, ShellError> {
        let _permit = self.commands.acquire().await;
        let is_dropped = Dropped(Arc::new(AtomicBool::new(false)));
        let (done, finished) = oneshot::channel();
        let (stop, mut program) = (Arc::clone(&is_dropped.0), self.program(folder, command, time));
        let input = input.as_bytes().to_vec();
        // A thread of its own: bwrap dies with the thread that has started it, and so with this process.
        thread::spawn(move || {
            let run = program.spawn().map(|child| supervise(child, input, time, &stop));
            let _ = done.send(run);
        });
        match finished.await {
            Ok(Ok(run)) => Ok(run),
            Ok(Err(error)) => Err(ShellError::Start(error)),
            Err(_) => Err(ShellError::Broken("its thread has ended".to_owned())),
        }
    }

    fn program(&self, folder: Option<&Path>, command: &str, time: Duration) -> Command {
        let mut program = Command::new(&self.bwrap);
        program
            .args("--unshare-all --unshare-user --disable-userns --die-with-parent --new-session".split(' '));
        program.args("--cap-drop ALL --hostname sandbox --clearenv --setenv PATH /usr/bin:/bin".split(' '));
        // What programs keep for themselves is not among the files that stay.
        program.args(["--setenv", "HOME", if folder.is_some() { "/tmp" } else { "/work" }]);
        program.args(["--setenv", "LANG", "C.UTF-8"]);
        program.args(["--ro-bind", "/usr", "/usr"]);
        for folder in MERGED {
            let (path, link) = (format!("/{folder}"), format!("usr/{folder}"));
            if Path::new(&path).is_symlink() {
                program.args(["--symlink", &link, &path]);
            } else {
                program.args(["--ro-bind-try", &path, &path]);
            }
        }
        // Debian keeps which program is `awk` there.
        program.args(["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]);
        program.args(["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]);
        // The settings of the kernel belong to the user 0, which this process may be.
        program.args(["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]);
        program.args(["--dev", "/dev", "--size", MAX_FOLDER, "--tmpfs", "/tmp"]);
        match folder {
            Some(folder) => program.arg("--bind").arg(folder).arg("/work"),
            None => program.args(["--size", MAX_FOLDER, "--tmpfs", "/work"]),
        };
        program.args(["--chdir", "/work", "--remount-ro", "/"]);
        program.args(["/usr/bin/prlimit", "--core=0", "--as=1073741824", "--nproc=128", "--nofile=256"]);
        program.arg("--fsize=67108864").arg(format!("--cpu={}", time.as_secs().max(1)));
        program.args(["/bin/sh", "-c", command]);
        program.env_clear().current_dir("/").process_group(0);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        program
    }
}

/// Sets its flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for a command, and kills it when it must end. With `bwrap` die all processes of the command: it is the parent of
/// the first of their own table of processes.
fn supervise(mut child: Child, input: Vec<u8>, time: Duration, stop: &AtomicBool) -> ShellRun {
    let began = Instant::now();
    let flooded = Arc::new(AtomicBool::new(false));
    if let Some(mut pipe) = child.stdin.take() {
        // A command that reads nothing closes the pipe when it ends.
        thread::spawn(move || pipe.write_all(&input));
    }
    let output = child.stdout.take().map(|pipe| reader(pipe, Arc::clone(&flooded)));
    let errors = child.stderr.take().map(|pipe| reader(pipe, Arc::clone(&flooded)));
    let mut killed = None;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) => {}
            Err(_) => break None,
        }
        if killed.is_none() {
            let is_flooded = flooded.load(Ordering::Relaxed);
            if is_flooded || began.elapsed() >= time || stop.load(Ordering::Relaxed) {
                killed = Some(if is_flooded { ShellEnd::Flooded } else { ShellEnd::TimedOut });
                kill(&mut child);
            }
        }
        thread::sleep(LOOK_EVERY);
    };
    let text = |reader: Option<JoinHandle<Vec<u8>>>| {
        let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (output, errors) = (text(output), text(errors));
    // A command may have ended by itself after it wrote too much.
    let is_flooded = flooded.load(Ordering::Relaxed);
    let end = match killed {
        Some(end) => end,
        None if is_flooded => ShellEnd::Flooded,
        None => status.and_then(|status| status.code()).map_or(ShellEnd::Killed, ShellEnd::Code),
    };
    ShellRun { end, output, errors }
}

/// Reads a pipe to its end; keeps [`MAX_SHELL_OUTPUT`] bytes, and sets `flooded` if there are more.
fn reader(mut pipe: impl Read + Send + 'static, flooded: Arc<AtomicBool>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut kept, mut part) = (Vec::new(), [0; 8192]);
        while let Ok(count @ 1..) = pipe.read(&mut part) {
            let room = MAX_SHELL_OUTPUT - kept.len();
            kept.extend_from_slice(&part[..count.min(room)]);
            if count > room {
                flooded.store(true, Ordering::Relaxed);
            }
        }
        kept
    })
}
