//! A real Postgres and a real Redis as supervised children: what `houston` runs on when nobody gave it URLs.
//!
//! [`Servers::start`] finds the two programs (or installs them, if the [`Config`] says so), starts them on unix
//! sockets inside one folder and hands out two URLs. The engine behind a laptop's first run is therefore the
//! engine of production: one SQL dialect, one queue, fsync on.
//!
//! # Invariants
//!
//! - **One owner per folder.** The owner holds an exclusive lock on `<folder>/lock`; whoever comes second
//!   attaches to the running servers and never stops them. If the owner goes away, those who attached see
//!   connection errors: nobody takes over in mid-flight, the next [`Servers::start`] does.
//! - **No orphans.** On Linux the kernel signals the children when their owner dies, even by `kill -9`. On macOS,
//!   which has no such signal, the next owner stops what was left.
//! - **Nothing half made.** The cluster is created in `pg.init` and renamed; downloads are unpacked aside and renamed.
//! - **Any crash is survived.** Postgres and Redis may die at any moment, in any order, together with the owner:
//!   the next start recovers what was acknowledged (Redis may lose its last second, by its `everysec` setting).
//! - **Postgres never runs as root.** See `privilege.rs`.
//! - **Only the owner's user gets in.** No TCP port is opened; the sockets lie in a folder with mode 0700.
//!
//! # The folder
//!
//! ```text
//! .houston/lock           the lock, and who holds it       .houston/postgres.log   .houston/redis.log
//! .houston/pg/            the Postgres cluster             .houston/wheels/        downloaded programs, if any
//! .houston/redis/         the append-only file             .houston/run/           the sockets
//! ```
//!
//! A folder whose path is too long for a socket address, or has unusual characters in it, gets its sockets in
//! `/tmp/houston-<hash of the path>` instead.
//!
//! # Deliberately absent
//!
//! - Restarting by itself: a server that dies stays dead until [`Servers::revive`] is called, so that the caller
//!   decides how often, and says so in its log.
//! - An async API: everything blocks; call it before the runtime starts or from a blocking thread.
//! - Upgrading a cluster to another major version, TCP, passwords, replication, Windows.
//!
//! # Recipe: another place to look for a server
//!
//! Add a line to `POSTGRES_PLACES` or `REDIS_PLACES` in `find.rs`; a `*` stands for any run of characters in one
//! name. Nothing else: which program is chosen follows from its version.
//!
//! # Recipe: another installer
//!
//! Add a variant to [`Installer`] at its place in [`Installer::ALL`], a function `fn(&Site, &[Server], progress)` beside
//! `brew` in `install.rs`, and its arm in `run`. It returns why it could not work instead of deciding what happens
//! next; whether it worked is decided by searching again.

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

pub use config::Config;
pub use error::{Error, Program, Tail};
pub use install::{Attempt, Installer, Obstacle};
pub use server::{Server, Version};
pub use servers::Servers;
