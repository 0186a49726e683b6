//! [`App`]: the program, with the tools an agent author adds to it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use houston_tools::{Registry, SharedTool, builtin};

use crate::commands::{Command, Failure};
use crate::models::environment;

/// Houston as a program. `App::default().main()` is the whole of `main`.
#[derive(Default)]
pub struct App {
    tools: Vec<SharedTool>,
}

/// Run AI agents as durable background jobs.
#[derive(Debug, Parser)]
#[command(name = "houston", version, max_term_width = 110, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Folder with files that override those of jobs/ (orchestrator.toml, agents/*.toml, …), over the ones in
    /// ~/.config/houston
    #[arg(long, global = true, env = "HOUSTON_JOBS", value_name = "FOLDER", help_heading = GLOBAL)]
    pub(crate) jobs: Option<PathBuf>,
    /// Where `houston dev` keeps its data
    #[arg(
        long,
        global = true,
        env = "HOUSTON_FOLDER",
        value_name = "FOLDER",
        default_value = USUAL_FOLDER,
        help_heading = GLOBAL
    )]
    pub(crate) folder: PathBuf,
    /// Log more: each request, and what the parts do (HOUSTON_LOG says it in detail)
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub(crate) verbose: bool,
}

/// Where `houston dev` keeps its data unless told otherwise.
pub(crate) const USUAL_FOLDER: &str = ".houston";
/// The heading of the options that every command has, below its own.
pub(crate) const GLOBAL: &str = "Options of every command";

const AFTER_HELP: &str = "\
A command is `houston <command> [ID]`; what belongs to no agent is `houston <noun> <verb>` (key, config). `houston list` \
shows the ids there are. Commands print data on stdout (one JSON value with --json) and the rest on stderr. They look \
into the database that DATABASE_URL names, else into that of the `houston dev` of this folder. Exit codes: 0 done, \
1 failed, 2 wrong usage or settings; `houston chat --help` has its own.";

impl App {
    /// Adds a tool; agent types name it under `tools`.
    #[must_use]
    pub fn with_tool(mut self, tool: SharedTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Reads the command line, does what it says, and returns the exit code.
    #[must_use]
    pub fn main(self) -> ExitCode {
        let matches = Arguments::command().try_get_matches();
        let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
            Ok(arguments) => arguments,
            Err(error) => return refused(&error),
        };
        match self.run(arguments) {
            Ok(code) => code,
            Err(Failure::Usage(error)) => {
                crate::output::tell(&format!("houston: {error}"));
                ExitCode::from(2)
            }
            Err(Failure::Other(error)) => {
                crate::output::tell(&format!("houston: {error:#}"));
                ExitCode::FAILURE
            }
        }
    }

    fn run(self, arguments: Arguments) -> Result<ExitCode, Failure> {
        let mut registry = Registry::default();
        for tool in builtin::all().into_iter().chain(self.tools) {
            registry.add(tool).map_err(|error| Failure::Usage(error.into()))?;
        }
        let user = crate::config::of_user(environment);
        let folders = user.iter().chain(&arguments.jobs).map(PathBuf::as_path);
        let loaded =
            crate::config::load(folders, &registry.names()).map_err(|error| Failure::Usage(error.into()))?;
        let verbosity = arguments.command.verbosity(arguments.verbose);
        crate::telemetry::start(loaded.settings.log.as_deref(), loaded.settings.log_format, verbosity);
        weaken()?;
        arguments.command.run(crate::commands::Context { loaded, registry, folder: arguments.folder })
    }
}

/// Says what is wrong with a command line, or what there is.
fn refused(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        crate::output::tell(text.trim_end());
    } else {
        crate::output::print(text.trim_end());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Leaves out of the protocol what `HOUSTON_MUTATION` names, in builds with crash points.
fn weaken() -> Result<(), Failure> {
    use houston_faults::mutation::{Mutation, SETTING, UnknownMutation, choose};
    if SETTING.is_some()
        && let Some(name) = crate::models::environment("HOUSTON_MUTATION")
    {
        let mutation: Mutation =
            name.parse().map_err(|error: UnknownMutation| Failure::Usage(error.into()))?;
        if choose(mutation) {
            tracing::error!(%mutation, "the protocol is weakened: this is a test");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
