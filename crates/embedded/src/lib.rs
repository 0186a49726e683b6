//! A real Postgres and a real Redis as supervised child processes: what `houston` uses when no URLs are configured.
//!
//! [`Servers::start`] finds the two programs (or installs them, if the [`Config`] says so), starts them on unix
//! sockets inside one folder and returns two URLs. So the first run on a laptop uses the same servers as production: one SQL
//! dialect, one queue, fsync on.
//!
//! ```no_run
//! let config = houston_embedded::Config::new(".houston");
//! let servers = houston_embedded::Servers::start(&config, &mut |line| eprintln!("{line}"))?;
//! let url = servers.database_url(); // Some("postgres://houston@localhost:5432/houston?host=…")
//! servers.stop()?;
//! # Ok::<(), houston_embedded::Error>(())
//! ```
//!
//! # Invariants
//!
//! - **One owner per folder.** The owner holds an exclusive lock on `<folder>/lock`. Other processes attach to the running
//!   servers and never stop them. If the owner ends, attached processes get connection errors; the next
//!   [`Servers::start`] starts the servers again.
//! - **No orphans.** On Linux the kernel signals the children when their owner dies, even by `kill -9`. macOS has no such
//!   signal: there the next owner stops servers that were left running.
//! - **No partial files.** The cluster is created in `pg.init` and then renamed; downloads are unpacked into another folder and
//!   then renamed.
//! - **Crash-safe.** Postgres and Redis may die at any moment, in any order, together with the owner: the next start recovers
//!   all acknowledged data (Redis may lose the last second, because of its setting `everysec`, and all of it if a crash of the
//!   machine damages its file, which is then set aside as `redis.damaged`).
//! - **Postgres never runs as root.** See `privilege.rs`.
//! - **Access for the owner's user only.** No TCP port is opened; the sockets are in a folder with mode 0700.
//!
//! # The folder
//!
//! ```text
//! .houston/lock           the lock and its holder          .houston/postgres.log   .houston/redis.log
//! .houston/pg/            the Postgres cluster             .houston/wheels/        downloaded programs, if any
//! .houston/redis/         the append-only file             .houston/run/           the sockets
//! ```
//!
//! A folder whose path is too long for a socket address, or has unusual characters in it, gets its sockets in
//! `/tmp/houston-<hash of the path>` instead.
//!
//! # Deliberately absent
//!
//! - Automatic restarts: a server that dies stays stopped until [`Servers::revive`] is called, so that the caller decides how
//!   often, and can log it.
//! - An async API: everything blocks; call it before the runtime starts or from a blocking thread.
//! - Upgrading a cluster to another major version, TCP, passwords, replication, Windows.
//!
//! # Recipe: another folder to search for a server
//!
//! Add a line to `POSTGRES_FOLDERS` or `REDIS_FOLDERS` in `find.rs`; a `*` matches any characters within one name. Nothing
//! else: the version decides which program is chosen.
//!
//! # Recipe: another installer
//!
//! Add a variant to [`Installer`] and to [`Installer::ALL`], a function `fn(&Search, &[Server], progress)` beside
//! `brew` in `install.rs`, and its arm in `find_or_install`. If it cannot work, it returns the reason; whether it worked is decided by
//! searching again.

mod config;
mod error;
mod find;
mod install;
mod layout;
mod lock;
mod owned_servers;
mod postgres;
mod privilege;
mod process;
mod redis;
mod server;
mod servers;
mod spawner;
mod wheels;
mod wire;

pub use config::{Config, Installer};
pub use error::{Error, Program};
pub use server::{Server, Version};
pub use servers::Servers;
