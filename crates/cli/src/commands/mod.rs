//! The commands of `houston`, one file each; those that copy conversations share one, as do those for shells.

mod agentable;
mod approvals;
mod ask;
mod audit;
mod cancel;
mod cell;
mod chat;
mod config;
mod conversation;
mod dev;
mod doctor;
mod eval;
mod grants;
mod guard;
mod health;
mod history;
mod junit;
mod key;
mod list;
mod man;
mod mcp;
mod migrate;
mod models;
mod monitor;
mod owner;
mod plan;
mod prompt;
mod queues;
mod replay;
mod reset;
mod serve;
mod skills;
mod snippets;
mod state;
mod stats;
mod tables;
mod tools;
mod trace;
mod triggers;
mod why;
mod work;
mod workers;

use std::path::PathBuf;
use std::process::{ExitCode, Termination as _};

use clap::{Parser, Subcommand};

use crate::context::Context;
use crate::environment::DEFAULT_FOLDER;
use crate::failure::{Failure, Result};
use crate::runtime::runtime;
use crate::telemetry::Verbosity;

/// Run AI agents as durable background jobs.
#[derive(Debug, Parser)]
#[command(name = "houston", version, max_term_width = 110, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Folder with files that override those of jobs/ (orchestrator.toml, agents/*.toml, …) and those in
    /// ~/.config/houston
    #[arg(long, global = true, env = "HOUSTON_JOBS", value_name = "FOLDER", help_heading = GLOBAL)]
    pub(crate) jobs: Option<PathBuf>,
    /// Folder with the data of `houston dev`
    #[arg(
        long,
        global = true,
        env = "HOUSTON_FOLDER",
        value_name = "FOLDER",
        default_value = DEFAULT_FOLDER,
        help_heading = GLOBAL
    )]
    pub(crate) folder: PathBuf,
    /// Log more: requests and what each part does (HOUSTON_LOG sets it in detail)
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub(crate) verbose: bool,
}

/// The heading of the options that all commands share.
pub(crate) const GLOBAL: &str = "Options of every command";

const AFTER_HELP: &str = "\
Most commands take the id of an agent: `houston <command> [ID]`; `houston list` prints the ids. Commands print data to \
stdout (with --json one JSON value) and messages to stderr. They use the database of DATABASE_URL, or else that of \
`houston dev` in this folder. Exit codes: 0 success, 1 failure, 2 wrong usage or settings; `houston chat --help` lists \
more.";

/// A command for each kind of arguments, which runs it.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident($arguments:ty),)*) => {
        /// The commands, in the order in which a new user needs them.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$about])* $name($arguments),)*
        }

        impl Command {
            pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
                match self {
                    $(Self::$name(command) => command.run(context).map(|done| done.report()),)*
                }
            }
        }
    };
}

commands! {
    /// Run everything on this machine: API, worker, and, where no URLs are set, Postgres and Redis
    Dev(dev::Dev),
    /// Talk with an agent in the terminal
    Chat(chat::Chat),
    /// Ask a model one question: checks its key, shows its answer and what it cost
    Ask(ask::Ask),
    /// Check what Houston needs on this machine, and say what to do
    Doctor(doctor::Doctor),
    /// Try a real model for what Houston's table says about it
    #[command(subcommand)]
    Models(models::Models),
    /// List goals, users, runs, agents, …, with their ids
    List(list::List),
    /// Show the state of an agent: its lock, its run, its last error, and a diagnosis
    State(state::State),
    /// Explain why an agent or a run does not go on, and what to do
    Why(why::Why),
    /// Show the history of an agent, entry by entry
    History(history::History),
    /// List the tools, whether an agent may call each, and why
    Tools(tools::Tools),
    /// Print the exact prompt of an agent
    Prompt(prompt::Prompt),
    /// Show statistics of a conversation
    Stats(stats::Stats),
    /// List the tools that a user allowed for good, or revoke one
    #[command(subcommand)]
    Grants(grants::Grants),
    /// Explain what agents may do with their tools
    #[command(subcommand)]
    Guard(guard::Guard),
    /// List the code that agents keep for a user, or delete it
    #[command(subcommand)]
    Snippets(snippets::Snippets),
    /// List the custom tables of a user, export and import their records as CSV, or add fields
    #[command(subcommand)]
    Tables(tables::Tables),
    /// Check, show, list and run plans
    #[command(subcommand)]
    Plan(plan::Plan),
    /// List, add, pause and delete the triggers of a user
    #[command(subcommand)]
    Triggers(triggers::Triggers),
    /// Write what a run was given, what it did and what was answered, for `replay`
    Trace(trace::Trace),
    /// Replay a recorded run, with the recorded answers or with another prompt or model
    Replay(replay::Replay),
    /// Check recorded runs against what is expected of them
    Eval(eval::Eval),
    /// Import, list and remove skills
    #[command(subcommand)]
    Skills(skills::Skills),
    /// Add MCP servers, and check and approve the tools they offer
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    /// List the tool calls that wait for a person, or decide one
    Approvals(approvals::Approvals),
    /// Cancel the open run of an agent and of its tasks, or one run
    Cancel(cancel::Cancel),
    /// Reset a conversation: the model forgets it, the thread stays
    Reset(reset::Reset),
    /// Copy a conversation up to an entry, into a new agent
    Fork(conversation::Fork),
    /// Export a conversation as JSON, for `import`
    Export(conversation::Export),
    /// Create an agent from an exported conversation
    Import(conversation::Import),
    /// Serve the API (needs DATABASE_URL and HOUSTON_REDIS_URL)
    Serve(serve::Serve),
    /// Drive runs (needs DATABASE_URL and HOUSTON_REDIS_URL); start as many as you like
    Work(work::Work),
    /// Migrate the database schema to the version of this binary
    Migrate(migrate::Migrate),
    /// Check the installation's health once and repair what can be repaired; exits 1 when a check is red
    Monitor(monitor::Monitor),
    /// Show the work that waits in each lane
    Queues(queues::Queues),
    /// List the workers, or ask one to drain
    Workers(workers::Workers),
    /// List the cells, add one, or move users between them
    #[command(subcommand)]
    Cell(cell::Cell),
    /// Show who changed what
    Audit(audit::Audit),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(key::Key),
    /// Show the settings and their origins
    #[command(subcommand)]
    Config(config::Config),
    /// Print the completion script of a shell
    Completions(man::Completions),
    /// Check whether the API or a worker on this host can do its work: for health checks of containers
    Health(health::Health),
    /// Write the man pages of all commands to a folder
    Man(man::Man),
}

impl Command {
    /// Whether the process drives runs, so that it executes tools.
    pub(crate) fn drives_runs(&self) -> bool {
        matches!(self, Self::Dev(_) | Self::Work(_))
    }

    /// Whether it can repair the file of approved tools.
    pub(crate) fn writes_approvals(&self) -> bool {
        matches!(self, Self::Mcp(_))
    }

    /// The verbosity of the log when HOUSTON_LOG is not set.
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
