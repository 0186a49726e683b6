//! [`Servers`]: the running servers, owned by this process or by another one.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::lock::{Lock, Note};
use crate::owned_servers::OwnedServers;
use crate::process::{Answer, POLL, SILENCE, no_answer};
use crate::server::Server;
use crate::{postgres, redis};

/// Time after which the lock file has been written by the current owner, not by an earlier one.
const SETTLED: Duration = Duration::from_secs(1);

/// A running Postgres and Redis. Dropping it stops them if this process owns them.
#[derive(Debug)]
pub struct Servers {
    layout: Layout,
    servers: Vec<Server>,
    database_url: Option<String>,
    redis_url: Option<String>,
    owned: Option<OwnedServers>,
}

impl Servers {
    /// Starts the servers that `config` asks for, or attaches to those another process runs in the same folder.
    ///
    /// Blocks until the servers accept connections: usually 0.1 s, about 1 s when the cluster must be created, minutes when a
    /// server must be installed or recovers. Do not call it on an async thread. `progress` gets a line of text before each
    /// step that takes time.
    ///
    /// The child processes live as long as the returned value, and at most as long as this process, whichever thread calls.
    ///
    /// # Errors
    ///
    /// [`Error`] when a program is missing and cannot be installed, the folder cannot be used, or a server does not start (60 s
    /// without an answer). Servers that were started are stopped before the error is returned.
    pub fn start(config: &Config, progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let layout = Layout::new(&config.folder)?;
        let servers = config.servers();
        let mut attaching = Attaching::new(&layout, &servers);
        loop {
            // Tried again each time: the owner may end meanwhile.
            if let Some(lock) = Lock::take(&layout.lock())? {
                let owned = OwnedServers::start(config, layout.clone(), lock, progress)?;
                return Ok(Self::new(layout, servers, Some(owned)));
            }
            if attaching.is_ready(progress)? {
                return Ok(Self::new(layout, servers, None));
            }
            sleep(POLL * 5);
        }
    }

    /// Whether `folder` has a Postgres cluster, running or not. Creates nothing.
    pub fn exist_in(folder: &Path) -> bool {
        folder.join("pg").join("PG_VERSION").exists()
    }

    /// The id of the process that runs servers in `folder` now. Creates nothing.
    pub fn running_in(folder: &Path) -> Option<u32> {
        let lock = folder.join("lock");
        // The holder of the lock runs them; without a holder the file may be that of an ended process.
        let taken = fs::File::open(&lock).ok()?.try_lock().is_err();
        Note::read(&lock).filter(|_| taken).map(|note| note.pid)
    }

    fn new(layout: Layout, servers: Vec<Server>, owned: Option<OwnedServers>) -> Self {
        let database_url = servers.contains(&Server::Postgres).then(|| layout.database_url());
        let redis_url = servers.contains(&Server::Redis).then(|| layout.redis_url());
        Self { layout, servers, database_url, redis_url, owned }
    }

    /// Connection URL of Postgres for sqlx and psql: user and database `houston`, over a unix socket. `None` if the
    /// configuration does not contain Postgres.
    pub fn database_url(&self) -> Option<&str> {
        self.database_url.as_deref()
    }

    /// Connection URL of Redis for the `redis` crate: `redis+unix:///…/redis.sock`. `None` if the configuration does not
    /// contain Redis.
    pub fn redis_url(&self) -> Option<&str> {
        self.redis_url.as_deref()
    }

    /// Whether this process owns the servers. Otherwise another process stops them.
    pub fn is_owner(&self) -> bool {
        self.owned.is_some()
    }

    /// Process id of Postgres' postmaster. `None` if it does not run or its pid file cannot be read.
    pub fn postgres_pid(&self) -> Option<u32> {
        self.pid(Server::Postgres)
    }

    /// Process id of Redis. `None` if it does not run or its pid file cannot be read.
    pub fn redis_pid(&self) -> Option<u32> {
        self.pid(Server::Redis)
    }

    fn pid(&self, server: Server) -> Option<u32> {
        if !self.servers.contains(&server) {
            return None;
        }
        if let Some(owned) = &self.owned {
            return owned.pid(server);
        }
        fs::read_to_string(self.layout.pid_file(server)).ok()?.lines().next()?.trim().parse().ok()
    }

    /// Stops Postgres (a fast shutdown: connections are cut, data is written) if it still runs, starts it again and
    /// waits until it is ready.
    ///
    /// # Errors
    ///
    /// [`Error::NotOwner`] when another process owns the servers, [`Error::Other`] without Postgres in the configuration, or the
    /// error of starting it.
    pub fn restart_postgres(&mut self) -> Result<()> {
        self.own()?.restart(Server::Postgres)
    }

    /// Stops Redis if it still runs, starts it again and waits until it is ready.
    ///
    /// # Errors
    ///
    /// [`Error::NotOwner`] when another process owns the servers, [`Error::Other`] without Redis in the configuration, or the error
    /// of starting it.
    pub fn restart_redis(&mut self) -> Result<()> {
        self.own()?.restart(Server::Redis)
    }

    /// Restarts servers that have ended by themselves, and returns them. Cheap when none has ended: the owner should call it
    /// every few seconds. Does nothing when another process owns the servers.
    ///
    /// # Errors
    ///
    /// [`Error`] when a server does not start. The other one keeps running.
    pub fn revive(&mut self) -> Result<Vec<Server>> {
        let Some(owned) = &mut self.owned else { return Ok(Vec::new()) };
        let ended: Vec<Server> =
            self.servers.iter().copied().filter(|server| owned.has_ended(*server)).collect();
        ended.iter().try_for_each(|server| owned.restart(*server))?;
        Ok(ended)
    }

    /// Stops the servers and waits for their end, with SIGKILL after 20 s. Does nothing when another process owns them.
    ///
    /// # Errors
    ///
    /// When a server cannot be stopped.
    pub fn stop(mut self) -> Result<()> {
        self.owned.as_mut().map_or(Ok(()), OwnedServers::stop)
    }

    fn own(&mut self) -> Result<&mut OwnedServers> {
        let folder = self.layout.folder();
        self.owned.as_mut().ok_or_else(|| Error::NotOwner(folder.to_owned()))
    }
}

/// Waits for the servers of another process.
struct Attaching<'a> {
    layout: &'a Layout,
    servers: &'a [Server],
    began: Instant,
    last_answer: Instant,
    announced: bool,
}

impl<'a> Attaching<'a> {
    fn new(layout: &'a Layout, servers: &'a [Server]) -> Self {
        let now = Instant::now();
        Self { layout, servers, began: now, last_answer: now, announced: false }
    }

    fn is_ready(&mut self, progress: &mut dyn FnMut(&str)) -> Result<bool> {
        // Without a note the owner is writing it just now, or its disk is full.
        let Some(note) = Note::read(&self.layout.lock()) else { return self.give_up(None).map(|()| false) };
        if !self.announced {
            self.announced = true;
            let folder = self.layout.folder().display();
            progress(&format!("using the servers that process {} runs in {folder}", note.pid));
        }
        let Some(uid) = note.uid else {
            self.last_answer = Instant::now();
            return Ok(false);
        };
        self.layout.check_sockets_folder(&[uid])?;
        for server in self.servers {
            match self.ask(*server)? {
                Answer::Ready => continue,
                Answer::Loading => self.last_answer = Instant::now(),
                Answer::Silent => self.give_up(Some((*server, &note)))?,
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn ask(&self, server: Server) -> Result<Answer> {
        let socket = self.layout.socket(server);
        match server {
            Server::Postgres => postgres::ask_other(&socket),
            Server::Redis => redis::ask(&socket),
        }
    }

    /// Fails when waiting any longer is useless. `silent` is the server that does not answer, and the owner's note.
    fn give_up(&self, silent: Option<(Server, &Note)>) -> Result<()> {
        if let Some((server, note)) = silent
            && !note.servers.contains(&server)
            && self.began.elapsed() > SETTLED
        {
            let (owner, folder, setting) = (note.pid, self.layout.folder().display(), server.setting());
            return Err(Error::new(format!(
                "process {owner} owns {folder} and does not run {server} there; stop it, or set {setting}"
            )));
        }
        if self.last_answer.elapsed() < SILENCE {
            return Ok(());
        }
        let server = silent.map_or(Server::Postgres, |(server, _)| server);
        let (socket, log) = (self.layout.socket(server), self.layout.log(server));
        Err(no_answer(server, &socket, &log))
    }
}
