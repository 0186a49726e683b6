//! The tools of this process: Houston's own, one for each endpoint of the settings, and those that the program adds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use houston_sandbox::{Program, Sandbox, Shell};
use houston_tools::endpoint::EndpointTool;
use houston_tools::registry::NameTaken;
use houston_tools::{Outside, Registry, SharedTool, builtin};
use houston_web::json_api::Endpoint;
use secrecy::SecretString;

use crate::config::{ConfigError, Loaded, SandboxSettings, Settings, ShellProgram, endpoints};
use crate::environment::environment;

/// The tools before the settings are loaded, which name them.
pub(crate) struct Toolbox {
    endpoints: Vec<Endpoint>,
    added: Vec<SharedTool>,
}

impl Toolbox {
    /// Reads the endpoints of the settings' folders. `added` are the program's own tools.
    ///
    /// # Errors
    /// [`ConfigError`] for the first endpoint that is wrong.
    pub(crate) fn read<'f>(
        folders: impl IntoIterator<Item = &'f Path>,
        added: Vec<SharedTool>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { endpoints: endpoints(folders)?, added })
    }

    /// The names of all tools, sorted: what agent types may list.
    ///
    /// # Errors
    /// [`NameTaken`] if two tools have one name.
    pub(crate) fn names(&self) -> Result<Vec<String>, NameTaken> {
        self.registry(&Outside::default()).map(|registry| registry.names())
    }

    /// The tools, with what they need.
    ///
    /// # Errors
    /// [`NameTaken`] if two tools have one name.
    pub(crate) fn registry(&self, outside: &Outside) -> Result<Registry, NameTaken> {
        let endpoint = |endpoint: &Endpoint| -> SharedTool {
            // Secrets are environment variables.
            let secrets = |name: &str| environment(name).map(SecretString::from);
            Arc::new(EndpointTool::new(endpoint.clone(), Arc::clone(&outside.web), &secrets))
        };
        let mut registry = Registry::default();
        let added = self.added.iter().cloned();
        for tool in builtin::all(outside).into_iter().chain(self.endpoints.iter().map(endpoint)).chain(added)
        {
            registry.add(tool)?;
        }
        Ok(registry)
    }

    /// The tools of a process: these, and those of MCP servers, whose pool gets its place in the settings; and its skills.
    ///
    /// # Errors
    /// [`NameTaken`] if two tools have one name.
    pub(crate) fn fill(
        &self,
        loaded: &mut Loaded,
        mut outside: Outside,
        folder: &Path,
    ) -> Result<Registry, NameTaken> {
        outside.plan_templates = Arc::clone(&loaded.templates);
        let mut registry = self.registry(&outside)?;
        let pool = loaded.pool(&loaded.settings.mcp, folder);
        for tool in pool.tools() {
            registry.add(tool)?;
        }
        loaded.mcp.pool = Some(pool);
        registry.set_skills(loaded.skills.clone());
        Ok(registry)
    }
}

/// The names of Houston's own tools.
#[cfg(test)]
pub(crate) fn built_in() -> Vec<String> {
    let tools = builtin::all(&Outside::default());
    tools.iter().map(|tool| tool.definition().name.clone()).collect()
}

/// What tools that act outside Houston use, by the settings. `drives_runs`: whether this process executes tools, so that it
/// must try whether its machine can build the sandbox; without trying, it counts as one that can.
pub(crate) fn outside(settings: &Settings, drives_runs: bool) -> Outside {
    let sandbox = Sandbox::new(Program::this(), settings.sandbox.children);
    // The check starts one child, which takes some three milliseconds.
    let lacks = if drives_runs { blocking(sandbox.check()).err() } else { None };
    if let Some(reason) = &lacks {
        tracing::warn!(reason, "the tools that need the sandbox are not offered: see `houston doctor`");
    }
    Outside {
        sandbox: lacks.is_none().then_some(sandbox),
        snippet_tools: settings.sandbox.snippet_tools,
        shell: shell(settings.sandbox, drives_runs),
        ..outside_without_sandbox(settings)
    }
}

/// What runs commands of the system, if the settings want it. A process that drives runs tries whether it works.
fn shell(settings: SandboxSettings, drives_runs: bool) -> Option<Shell> {
    if settings.shell == ShellProgram::None {
        return None;
    }
    let found = Shell::find(settings.children).map_err(|error| error.to_string());
    let works = found.and_then(|shell| match drives_runs {
        true => blocking(shell.check()).map(|()| shell),
        false => Ok(shell),
    });
    if let Err(reason) = &works {
        tracing::warn!(reason, "commands of the system cannot be run: see `houston doctor`");
    }
    works.ok()
}

/// The same without the sandbox, for a program that embeds Houston: the sandbox is a child process of `houston` itself.
pub(crate) fn outside_without_sandbox(settings: &Settings) -> Outside {
    Outside {
        web: Arc::new(settings.web.web()),
        code_time: Duration::from_secs(settings.sandbox.time_s),
        code_calls: settings.sandbox.calls,
        shell_time: Duration::from_secs(settings.sandbox.shell_time_s),
        keeps_files: settings.workspaces.is_set(),
        ..Outside::default()
    }
}

/// Waits for a check.
fn blocking<E: std::fmt::Display>(check: impl Future<Output = Result<(), E>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(check).map_err(|error| error.to_string())
}
