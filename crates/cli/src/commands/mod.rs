//! The commands, one file each.

mod agentable;
mod ask;
mod chat;
mod config;
mod conversation;
mod dev;
mod export;
mod fork;
mod history;
mod import;
mod key;
mod migrate;
mod monitor;
mod prompt;
mod reset;
mod serve;
mod state;
mod stats;
mod tools;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use houston_tools::Registry;

use crate::config::Loaded;

/// What a command works with.
pub(crate) struct Context {
    pub(crate) loaded: Loaded,
    pub(crate) registry: Registry,
    pub(crate) folder: PathBuf,
}

/// Why a command did not work, which decides the exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage or settings: 2.
    Usage(anyhow::Error),
    /// Anything else: 1.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<houston_store::Error> for Failure {
    fn from(error: houston_store::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<houston_api::Unexplained> for Failure {
    fn from(error: houston_api::Unexplained) -> Self {
        Self::Other(error.into())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

/// What `houston` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything on this machine: API, worker, and, unless their URLs are set, Postgres and Redis
    Dev(dev::Dev),
    /// Serve the API (needs DATABASE_URL and HOUSTON_REDIS_URL)
    Serve(serve::Serve),
    /// Drive runs (needs DATABASE_URL and HOUSTON_REDIS_URL); start as many as you like
    Work(work::Work),
    /// Bring the database schema up to this binary
    Migrate(migrate::Migrate),
    /// Look at the installation's health once and mend what can be mended; exits 1 when something is red
    Monitor(monitor::Monitor),
    /// Make, list and revoke API keys
    Key(key::Key),
    /// How an agent stands: its lock, its run, its last error, and what that means
    State(state::State),
    /// What an agent's model has seen, entry by entry
    History(history::History),
    /// What an agent may call, and why not the rest
    Tools(tools::Tools),
    /// The exact prompt of an agent
    Prompt(prompt::Prompt),
    /// A conversation in numbers
    Stats(stats::Stats),
    /// Write a conversation down, for `import`
    Export(export::Export),
    /// Make an agent of a conversation that was exported
    Import(import::Import),
    /// Copy a conversation up to some point
    Fork(fork::Fork),
    /// Let an agent begin anew: its model forgets the conversation
    Reset(reset::Reset),
    /// Talk with an agent in the terminal
    Chat(chat::Chat),
    /// Ask a model one thing: whether its key works, how it answers, what that costs
    Ask(ask::Ask),
    /// Show the settings and where each comes from
    Config(config::Config),
}

impl Command {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Dev(command) => command.run(context),
            Self::Serve(command) => command.run(context),
            Self::Work(command) => command.run(context),
            Self::Migrate(command) => command.run(&context),
            Self::Monitor(command) => command.run(context),
            Self::Key(command) => command.run(&context),
            Self::State(command) => command.run(context),
            Self::History(command) => command.run(context),
            Self::Tools(command) => command.run(context),
            Self::Prompt(command) => command.run(context),
            Self::Stats(command) => command.run(context),
            Self::Export(command) => command.run(context),
            Self::Import(command) => command.run(context),
            Self::Fork(command) => command.run(context),
            Self::Reset(command) => command.run(context),
            Self::Chat(command) => command.run(&context),
            Self::Ask(command) => command.run(&context),
            Self::Config(command) => Ok(command.run(&context)),
        }
    }
}

/// A runtime for the whole process.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
