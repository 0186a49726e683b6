//! The commands, one file each.

mod agentable;
mod ask;
mod cancel;
mod chat;
mod completions;
mod config;
mod conversation;
mod dev;
mod doctor;
mod export;
mod fork;
mod history;
mod import;
mod key;
mod list;
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
use crate::telemetry::Verbosity;

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

/// What `houston` can do, in the order in which somebody comes to need it.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything on this machine: API, worker, and, unless their URLs are set, Postgres and Redis
    Dev(dev::Dev),
    /// Talk with an agent in the terminal
    Chat(chat::Chat),
    /// Ask a model one thing: whether its key works, how it answers, what that costs
    Ask(ask::Ask),
    /// Check what Houston needs here, and say what to do
    Doctor(doctor::Doctor),
    /// List goals, users, runs, agents, …, with their ids
    List(list::List),
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
    /// Stop what an agent is doing, or one run
    Cancel(cancel::Cancel),
    /// Let an agent begin anew: its model forgets the conversation
    Reset(reset::Reset),
    /// Copy a conversation up to some point
    Fork(fork::Fork),
    /// Write a conversation down, for `import`
    Export(export::Export),
    /// Make an agent of a conversation that was exported
    Import(import::Import),
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
    /// Show the settings and where each comes from
    Config(config::Config),
    /// Print a script with which a shell completes commands
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Dev(command) => command.run(context),
            Self::Chat(command) => command.run(&context),
            Self::Ask(command) => command.run(&context),
            Self::Doctor(command) => command.run(&context),
            Self::List(command) => command.run(context),
            Self::State(command) => command.run(context),
            Self::History(command) => command.run(context),
            Self::Tools(command) => command.run(context),
            Self::Prompt(command) => command.run(context),
            Self::Stats(command) => command.run(context),
            Self::Cancel(command) => command.run(context),
            Self::Reset(command) => command.run(context),
            Self::Fork(command) => command.run(context),
            Self::Export(command) => command.run(context),
            Self::Import(command) => command.run(context),
            Self::Serve(command) => command.run(context),
            Self::Work(command) => command.run(context),
            Self::Migrate(command) => command.run(&context),
            Self::Monitor(command) => command.run(context),
            Self::Key(command) => command.run(&context),
            Self::Config(command) => Ok(command.run(&context)),
            Self::Completions(command) => Ok(command.run(&context)),
        }
    }

    /// How much it logs when HOUSTON_LOG does not say.
    pub(crate) fn verbosity(&self, verbose: bool) -> Verbosity {
        match self {
            _ if verbose => Verbosity::Verbose,
            Self::Dev(_) | Self::Serve(_) | Self::Work(_) | Self::Migrate(_) | Self::Monitor(_) => {
                Verbosity::Service
            }
            _ => Verbosity::Errors,
        }
    }
}

/// A runtime for the whole process, which may open as many files as it is allowed to.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    crate::file_limit::raise();
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
