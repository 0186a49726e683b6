//! Starting Redis (or Valkey), and checking whether it is ready.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::error::{Error, Result, file};
use crate::layout::Layout;
use crate::privilege::Identity;
use crate::process::{Answer, Process, Supervised, stop_leftover};
use crate::server::Server;
use crate::spawner::Spawner;

/// Read time-out.
const PATIENCE: Duration = Duration::from_secs(1);

/// Everything needed to start Redis, also repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Redis {
    pub(crate) program: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) identity: Identity,
    pub(crate) fsync: bool,
}

impl Supervised for Redis {
    /// Starts Redis; [`Self::wait`] for it next.
    fn spawn(&self, spawner: &Spawner) -> Result<Process> {
        let (data, socket) = (self.layout.data(Server::Redis), self.layout.socket(Server::Redis));
        if !data.exists() {
            fs::DirBuilder::new().mode(0o700).create(&data).map_err(file("create", &data))?;
        }
        self.identity.change_owner(&data)?;
        let pid_file = self.layout.pid_file(Server::Redis);
        stop_leftover(Server::Redis, &pid_file, &["redis-server", "valkey-server"], &socket, Signal::TERM)?;
        let mut command = Command::new(&self.program);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(&data).arg("--pidfile").arg(&pid_file);
        command.args(["--port", "0", "--unixsocketperm", "700", "--daemonize", "no"]);
        command.args(["--appendonly", "yes", "--appendfsync", if self.fsync { "everysec" } else { "no" }]);
        // Hints must never be evicted. With an append-only file, snapshots are unnecessary.
        command.args(["--maxmemory-policy", "noeviction", "--save", ""]);
        // Keeps the arguments visible: the next owner recognises a server left running by them.
        command.args(["--set-proc-title", "no"]);
        Process::spawn(Server::Redis, command, self.identity, Signal::TERM, &self.layout, spawner)
    }

    /// Waits until it is ready. If it ends because its data cannot be loaded, as after a crash of the machine, the data are set
    /// aside and it starts without: it holds hints only, and Postgres has all that they say.
    fn wait(&self, process: &mut Process, spawner: &Spawner) -> Result<()> {
        let socket = self.layout.socket(Server::Redis);
        let ended = match process.wait(&socket, || ask(&socket)) {
            Err(ended @ Error::Exited { .. }) => ended,
            waited => return waited,
        };
        let Some(aside) = self.set_data_aside()? else { return Err(ended) };
        *process = self.spawn(spawner)?;
        process.wait(&socket, || ask(&socket))?;
        let note = format!("# houston: the data could not be loaded and were moved to {}\n", aside.display());
        let log = self.layout.log(Server::Redis);
        let opened = fs::File::options().append(true).open(&log);
        opened.and_then(|mut log| log.write_all(note.as_bytes())).map_err(file("write", &log))
    }
}

impl Redis {
    /// Moves the append-only file away, if there is one, in the place of what was moved before.
    fn set_data_aside(&self) -> Result<Option<PathBuf>> {
        let data = self.layout.data(Server::Redis);
        if fs::read_dir(&data).map_err(file("read", &data))?.next().is_none() {
            return Ok(None);
        }
        let aside = data.with_extension("damaged");
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(file("remove", &aside))?;
        }
        fs::rename(&data, &aside).map_err(file("move", &data))?;
        Ok(Some(aside))
    }
}

/// Sends PING. Redis accepts connections before its data is loaded, and answers `-LOADING` until then.
pub(crate) fn ask(socket: &Path) -> Result<Answer> {
    match ping(socket) {
        Ok(answer) if &answer == b"+PONG" => Ok(Answer::Ready),
        Ok(_) => Ok(Answer::Loading),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(file("connect to", socket)(error))
        }
        Err(_) => Ok(Answer::Silent),
    }
}

fn ping(socket: &Path) -> io::Result<[u8; 5]> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
