//! The servers of the process that owns the folder.

use std::path::Path;

use crate::config::Config;
use crate::error::{Error, Program, Result};
use crate::find::Search;
use crate::install::find_or_install;
use crate::layout::Layout;
use crate::lock::{Lock, Note};
use crate::postgres::Postgres;
use crate::privilege::Identity;
use crate::process::{Process, Supervised, rotate_log};
use crate::redis::Redis;
use crate::server::Server;
use crate::spawner::Spawner;

#[derive(Debug)]
struct Child {
    server: Server,
    program: Box<dyn Supervised>,
    process: Process,
}

/// The running child processes. Dropping stops them, then releases the lock.
#[derive(Debug)]
pub(crate) struct OwnedServers {
    children: Vec<Child>,
    spawner: Spawner,
    layout: Layout,
    lock: Lock,
}

impl OwnedServers {
    /// Starts the servers of `config` at the same time, and returns when all are ready.
    pub(crate) fn start(
        config: &Config,
        layout: Layout,
        mut lock: Lock,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let servers = config.servers();
        let mut note = Note { pid: std::process::id(), servers: servers.clone(), uid: None };
        lock.write(&note);
        let search = Search::new(config, &layout);
        let programs = find_or_install(&search, &config.installers, &servers, progress)?;
        let data = [layout.data(Server::Postgres), layout.data(Server::Redis)];
        let paths: Vec<&Path> = programs.iter().map(|program| program.path.as_path()).collect();
        let identity = Identity::choose(&data, &[&data[0], layout.sockets()], &paths)?;
        layout.make_sockets_folder(identity)?;

        let names: Vec<_> =
            servers.iter().zip(&programs).map(|(server, program)| name(*server, program)).collect();
        progress(&format!("starting {} in {}", names.join(" and "), layout.folder().display()));
        let spawner = Spawner::new().map_err(|error| Error::Other {
            text: "cannot start a thread".to_owned(),
            source: Some(error),
        })?;
        let mut owned = Self { children: Vec::new(), spawner, layout, lock };
        let program =
            |wanted| servers.iter().position(|server| *server == wanted).map(|at| programs[at].path.clone());
        // Redis first: it loads its data while Postgres creates its cluster.
        if let Some(program) = program(Server::Redis) {
            let layout = owned.layout.clone();
            owned.add(Server::Redis, Redis { program, layout, identity, fsync: config.fsync })?;
        }
        if let Some(program) = program(Server::Postgres) {
            let postgres = Postgres {
                program,
                layout: owned.layout.clone(),
                identity,
                fsync: config.fsync,
                max_connections: config.max_connections,
                more_settings: config.postgres_settings.clone(),
            };
            if !postgres.layout.data(Server::Postgres).join("PG_VERSION").exists() {
                progress("creating a database cluster (this happens once)");
                postgres.create_cluster(&owned.spawner)?;
            }
            owned.add(Server::Postgres, postgres)?;
        }
        note.uid = Some(identity.uid());
        owned.lock.write(&note);
        for Child { program, process, .. } in &mut owned.children {
            program.wait(process, &owned.spawner)?;
        }
        Ok(owned)
    }

    fn add(&mut self, server: Server, program: impl Supervised + 'static) -> Result<()> {
        rotate_log(&self.layout.log(server))?;
        let process = program.spawn(&self.spawner)?;
        self.children.push(Child { server, program: Box::new(program), process });
        Ok(())
    }

    pub(crate) fn pid(&self, server: Server) -> Option<u32> {
        self.children.iter().find(|child| child.server == server).map(|child| child.process.pid())
    }

    /// Whether `server` was started and has ended by itself.
    pub(crate) fn has_ended(&mut self, server: Server) -> bool {
        self.children.iter_mut().any(|child| child.server == server && child.process.ended().is_some())
    }

    /// Stops `server` if it still runs, starts it again and waits until it is ready.
    pub(crate) fn restart(&mut self, server: Server) -> Result<()> {
        let child = self.children.iter_mut().find(|child| child.server == server);
        let Child { program, process, .. } =
            child.ok_or_else(|| Error::new(format!("{server} is not among the servers started here")))?;
        process.stop()?;
        *process = program.spawn(&self.spawner)?;
        program.wait(process, &self.spawner)
    }

    /// Stops both servers at the same time. Tries both before returning the first error.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let mut processes: Vec<Process> = self.children.drain(..).rev().map(|child| child.process).collect();
        processes.iter_mut().for_each(Process::ask_to_stop);
        let outcomes: Vec<_> = processes.iter_mut().map(Process::stop).collect();
        self.layout.remove_outside_sockets();
        outcomes.into_iter().collect()
    }
}

impl Drop for OwnedServers {
    fn drop(&mut self) {
        // The error cannot be reported here; the next owner stops what remains.
        let _ = self.stop();
    }
}

/// Name and version of a server, such as "PostgreSQL 15.18" or "Valkey 9.1".
fn name(server: Server, program: &Program) -> String {
    if program.path.ends_with("valkey-server") {
        return format!("Valkey {}", program.version);
    }
    format!("{server} {}", program.version)
}
