//! [`App`]: the program, with the tools an agent author adds to it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use houston_tools::{Registry, SharedTool, builtin};

use crate::commands::{Command, Failure};

/// Houston as a program. `App::default().main()` is the whole of `main`.
#[derive(Default)]
pub struct App {
    tools: Vec<SharedTool>,
}

/// Run AI agents as durable background jobs.
#[derive(Debug, Parser)]
#[command(name = "houston", version, max_term_width = 110)]
pub(crate) struct Arguments {
    /// Folder with files that override those of jobs/ (orchestrator.toml, agents/*.toml, …)
    #[arg(long, global = true, env = "HOUSTON_JOBS", value_name = "FOLDER")]
    pub(crate) jobs: Option<PathBuf>,
    /// Folder of the embedded servers
    #[arg(long, global = true, env = "HOUSTON_FOLDER", value_name = "FOLDER", default_value = ".houston")]
    pub(crate) folder: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Command,
}

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
        let matches = Arguments::command().get_matches();
        let arguments = match Arguments::from_arg_matches(&matches) {
            Ok(arguments) => arguments,
            Err(error) => error.exit(),
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
        let loaded = crate::config::load(arguments.jobs.as_deref(), &registry.names())
            .map_err(|error| Failure::Usage(error.into()))?;
        crate::telemetry::start(loaded.settings.log.as_deref(), loaded.settings.log_format);
        #[cfg(feature = "fault-injection")]
        weaken()?;
        arguments.command.run(crate::commands::Context { loaded, registry, folder: arguments.folder })
    }
}

/// Leaves out of the protocol what `HOUSTON_MUTATION` names, in builds for tests.
#[cfg(feature = "fault-injection")]
fn weaken() -> Result<(), Failure> {
    use houston_store::mutation;
    if let Some(name) = crate::models::environment("HOUSTON_MUTATION") {
        mutation::choose(
            name.parse().map_err(|error: mutation::UnknownMutation| Failure::Usage(error.into()))?,
        );
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
