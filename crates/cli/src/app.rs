//! [`App`]: the program, with the tools and drivers that an agent author adds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use houston_engine::{Driver, Drivers, Observer, RunHook};
use houston_tools::{PdfReader, SharedTool};

use crate::commands::{Arguments, Command};
use crate::context::Context;
use crate::environment::environment;
use crate::failure::{Failure, Result};
use crate::instruments::Callbacks;
use crate::toolbox::Toolbox;

/// The `houston` program. `App::default().main()` is all of `main`.
///
/// ```no_run
/// let code: std::process::ExitCode = houston_cli::App::default().main();
/// ```
#[derive(Default)]
pub struct App {
    tools: Vec<SharedTool>,
    drivers: Drivers,
    callbacks: Callbacks,
}

impl App {
    /// Adds a tool. An agent type offers it when it lists the tool's name under `tools`.
    #[must_use]
    pub fn with_tool(mut self, tool: SharedTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a driver. It drives the runs of a kind whose agent type says `driver = "<name>"`.
    #[must_use]
    pub fn with_driver(mut self, name: &str, driver: Arc<dyn Driver>) -> Self {
        self.drivers.insert(name.into(), driver);
        self
    }

    /// Adds a hook that changes what runs start with. Hooks are called in the order in which they were added.
    #[must_use]
    pub fn with_hook(mut self, hook: impl RunHook + 'static) -> Self {
        self.callbacks.hooks.push(Arc::new(hook));
        self
    }

    /// Adds an observer of the runs of this process.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer + 'static) -> Self {
        self.callbacks.observers.push(Arc::new(observer));
        self
    }

    /// Parses the command line, runs the command, and returns the exit code. Call it first in `main`: the same program is
    /// started as `<program> sandbox …` to run code and to convert documents.
    pub fn main(self) -> ExitCode {
        // First of all: a sandbox must not have read or started anything when it builds its walls.
        let mut words = std::env::args_os().skip(1);
        if words.next().is_some_and(|word| word == "sandbox") {
            return houston_sandbox::child::main(words, houston_domain::plan::answer_evaluation);
        }
        let arguments = match Arguments::try_parse() {
            Ok(arguments) => arguments,
            Err(error) => return refused(&error),
        };
        self.run(arguments).unwrap_or_else(|failure| failure.report())
    }

    fn run(self, arguments: Arguments) -> Result<ExitCode> {
        let user = crate::config::of_user(environment);
        let folders: Vec<&Path> = user.iter().chain(&arguments.jobs).map(PathBuf::as_path).collect();
        let toolbox = Toolbox::read(folders.iter().copied(), self.tools).map_err(Failure::usage)?;
        let loaded = crate::config::load(folders, &toolbox.names().map_err(Failure::usage)?);
        if let (Err(error), Command::Doctor(doctor)) = (&loaded, &arguments.command) {
            return Ok(doctor.invalid_settings(&error.to_string()));
        }
        let mut loaded = loaded.map_err(Failure::usage)?;
        if !arguments.command.writes_approvals() {
            loaded.mcp.check_pins().map_err(Failure::usage)?;
        }
        (loaded.drivers, loaded.callbacks) = (self.drivers, self.callbacks);
        let verbosity = arguments.command.verbosity(arguments.verbose);
        crate::telemetry::start(loaded.settings.log.as_deref(), loaded.settings.log_format, verbosity);
        apply_mutation()?;
        let outside = crate::toolbox::outside(&loaded.settings, arguments.command.drives_runs());
        loaded.pdf = PdfReader(outside.sandbox.clone());
        let registry = toolbox.fill(&mut loaded, outside, &arguments.folder).map_err(Failure::usage)?;
        let Arguments { command, jobs, folder, .. } = arguments;
        command.run(Context { loaded, registry, folder, jobs })
    }
}

/// Prints help to stdout, or a usage error to stderr.
fn refused(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        crate::output::print_stderr(text.trim_end());
    } else {
        crate::output::print(text.trim_end());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Applies the protocol mutation that `HOUSTON_MUTATION` names. Only builds with crash points have any.
fn apply_mutation() -> Result<()> {
    use houston_faults::mutation::{Mutation, SETTING, choose};
    if SETTING.is_some()
        && let Some(name) = environment("HOUSTON_MUTATION")
    {
        let mutation: Mutation = name.parse().map_err(Failure::usage)?;
        if choose(mutation) {
            tracing::error!(mutation = %mutation.as_str(), "a test mutation weakens the run protocol");
        }
    }
    Ok(())
}
