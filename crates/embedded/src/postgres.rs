//! Creating the Postgres cluster, starting Postgres, and checking whether it is ready.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::{Error, Result, file, tail};
use crate::layout::Layout;
use crate::privilege::Identity;
use crate::process::{Answer, POLL, Process, Supervised, stop_leftover};
use crate::server::Server;
use crate::spawner::Spawner;
use crate::wire::{Connection, Greeting, Refusal};

/// `cannot_connect_now`: starting, recovering or stopping.
const STARTING: &str = "57P03";
/// `invalid_catalog_name`: the server is ready, but the database does not exist.
const NO_DATABASE: &str = "3D000";
/// `too_many_connections`: all connections are in use, so the server is ready.
const FULL: &str = "53300";
/// `duplicate_database`: another process has created it meanwhile.
const DUPLICATE: &str = "42P04";
/// Time for the children of a killed postmaster to notice and end.
const LINGER: Duration = Duration::from_secs(20);

/// Everything needed to start Postgres, also repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Postgres {
    pub(crate) program: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) identity: Identity,
    pub(crate) fsync: bool,
    pub(crate) max_connections: u16,
    pub(crate) more_settings: Vec<String>,
}

impl Postgres {
    /// Creates the cluster under another name and then renames it, so that an interrupted `initdb` leaves no partial cluster.
    pub(crate) fn create_cluster(&self, spawner: &Spawner) -> Result<()> {
        let draft = self.layout.folder().join("pg.init");
        remove_draft(&draft)?;
        fs::DirBuilder::new().mode(0o700).create(&draft).map_err(file("create", &draft))?;
        self.identity.change_owner(&draft)?;

        let program = self.program.with_file_name("initdb");
        let mut command = Command::new(&program);
        command.args(["--username=houston", "--auth=trust", "--encoding=UTF8"]);
        // In the plain C locale `lower('É')` is `É`, so search would not find it. macOS has no C.UTF-8.
        if cfg!(target_os = "linux") {
            command.arg("--locale=C.UTF-8");
        } else {
            command.args(["--locale=en_US.UTF-8", "--lc-collate=C"]);
        }
        if !self.fsync {
            command.arg("--no-sync");
        }
        command.arg("-D").arg(&draft);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir("/");
        self.identity.apply(&mut command, Signal::KILL);
        let child = spawner.spawn(command);
        let output = child.and_then(Child::wait_with_output).map_err(file("run", &program))?;
        if !output.status.success() {
            let (folder, status) = (draft.display(), output.status);
            let output = tail(&[output.stdout, output.stderr].concat());
            return Err(Error::new(format!(
                "cannot create a database cluster in {folder}: initdb ended with {status}:\n{output}"
            )));
        }
        fs::rename(&draft, self.layout.data(Server::Postgres)).map_err(file("rename", &draft))?;
        let folder = self.layout.folder();
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(file("save", folder))
    }

    fn settings(&self) -> Vec<String> {
        let mut settings = vec![
            format!("unix_socket_directories={}", self.layout.sockets().display()),
            format!("max_connections={}", self.max_connections),
            // To move users to another cell.
            "max_prepared_transactions=4".to_owned(),
        ];
        let fixed = [
            "listen_addresses=",
            "port=5432", // names the socket
            "unix_socket_permissions=0700",
            "shared_buffers=128MB",
            "wal_compression=on",
            "max_wal_size=2GB",
            "jit=off", // the statements are short
        ];
        settings.extend(fixed.map(str::to_owned));
        if cfg!(target_os = "linux") {
            // After a crash: one sync of the file system instead of one per file (0.2 s instead of 8.7 s).
            settings.push("recovery_init_sync_method=syncfs".to_owned());
        }
        if !self.fsync {
            // Commits still reach the kernel before they are acknowledged: `kill -9` loses nothing, but a power cut may.
            settings.extend(["fsync=off", "full_page_writes=off"].map(str::to_owned));
        }
        settings.extend(self.more_settings.iter().cloned());
        settings
    }
}

impl Supervised for Postgres {
    /// Starts Postgres on an existing cluster; [`Self::wait`] for it next.
    fn spawn(&self, spawner: &Spawner) -> Result<Process> {
        let data = self.layout.data(Server::Postgres);
        self.identity.change_owner(&data)?;
        let pid_file = self.layout.pid_file(Server::Postgres);
        let stale = stop_leftover(Server::Postgres, &pid_file, &["postgres"], &data, Signal::INT)?;
        let mut command = Command::new(&self.program);
        if let Some(pid) = stale {
            // The old postmaster was killed with its owner: it is a zombie, or its pid belongs to another process. Postgres
            // only checks whether the pid exists, and would refuse to start. With the pid as that of its grandparent it
            // continues with the check that matters: whether the old shared memory is in use.
            command.env("PG_GRANDPARENT_PID", pid.to_string());
        }
        command.arg("-D").arg(&data);
        for setting in self.settings() {
            command.arg("-c").arg(setting);
        }
        Process::spawn(Server::Postgres, command, self.identity, Signal::INT, &self.layout, spawner)
    }

    /// Waits until the database `houston` accepts connections, and creates it if it does not exist. Starts Postgres again as
    /// long as children of a killed postmaster hold the shared memory.
    fn wait(&self, process: &mut Process, spawner: &Spawner) -> Result<()> {
        let socket = self.layout.socket(Server::Postgres);
        let began = Instant::now();
        loop {
            let answer = process.wait(&socket, || ask(&socket)?.map_or_else(|| create_database(&socket), Ok));
            match answer {
                Err(Error::Exited { tail, .. })
                    if tail.contains("pre-existing shared memory block") && began.elapsed() < LINGER =>
                {
                    std::thread::sleep(POLL * 25);
                    *process = self.spawn(spawner)?;
                }
                answer => return answer,
            }
        }
    }
}

/// Removes an unfinished cluster. Retries, because children of a killed `initdb` may still write.
fn remove_draft(draft: &Path) -> Result<()> {
    let began = Instant::now();
    while draft.exists() {
        match fs::remove_dir_all(draft) {
            Err(error) if began.elapsed() > LINGER => return Err(file("remove", draft)(error)),
            Err(_) => std::thread::sleep(POLL * 25),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// The major version that created the cluster in `data`, if there is one.
pub(crate) fn made_by(data: &Path) -> Result<Option<u32>> {
    let path = data.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file("read", &path)(error)),
    }
}

/// Whether the Postgres of another process is ready.
pub(crate) fn ask_other(socket: &Path) -> Result<Answer> {
    // Without the database: its owner is about to create it.
    Ok(ask(socket)?.unwrap_or(Answer::Loading))
}

/// Whether the Postgres at the socket is ready; `None`: it is, but does not have the database.
fn ask(socket: &Path) -> Result<Option<Answer>> {
    Ok(match Connection::open(socket, "houston").map_err(file("connect to", socket))? {
        Greeting::Open(_) => Some(Answer::Ready),
        Greeting::Silent => Some(Answer::Silent),
        Greeting::Refused(refusal) => match refusal.sqlstate.as_str() {
            STARTING => Some(Answer::Loading),
            FULL => Some(Answer::Ready),
            NO_DATABASE => None,
            _ => return Err(refused(socket, refusal)),
        },
    })
}

fn create_database(socket: &Path) -> Result<Answer> {
    let open = Connection::open(socket, "postgres").map_err(file("connect to", socket))?;
    let Greeting::Open(mut connection) = open else { return Ok(Answer::Silent) };
    match connection.run("create database houston").map_err(file("talk to", socket))? {
        Some(refusal) if refusal.sqlstate != DUPLICATE => Err(refused(socket, refusal)),
        _ => Ok(Answer::Ready),
    }
}

fn refused(socket: &Path, refusal: Refusal) -> Error {
    let (socket, Refusal { message, sqlstate, .. }) = (socket.display(), refusal);
    Error::new(format!(
        "PostgreSQL on {socket} refused user and database `houston`: {message} (SQLSTATE {sqlstate})"
    ))
}
