//! `cargo xtask contract`: checks Houston's responses against its OpenAPI document.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::http::Connection;
use crate::installation::{self, Installation, goal};
use houston_xtask::console::print_status;
use houston_xtask::{child, programs, repository};

/// Schemathesis, the linter and their dependencies, with versions.
const PACKAGES: &str = include_str!("../../python/contract.txt");

/// All checks of schemathesis except `positive_data_acceptance`, since some rejections cannot be expressed in a schema
/// (names of tools, models and time zones), and `object_level_authorization`, which needs a second tenant.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      missing_required_header,unsupported_method,allow_header_conformance,use_after_free,\
                      ensure_resource_availability,ignored_auth";

/// Lint the OpenAPI document, and fuzz Houston with valid and invalid requests.
#[derive(Debug, Args)]
pub(crate) struct Contract {
    /// How long to fuzz
    #[arg(long, default_value_t = 90)]
    seconds: u32,
    /// The seed of the generated requests
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Only operations whose path matches this regular expression
    #[arg(long)]
    path: Option<String>,
}

impl Contract {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let tools = repository::tools().join("contract");
        let packages: Vec<&str> = PACKAGES.lines().collect();
        programs::venv(&tools, &packages).await?;
        lint(&tools).await?;

        let program = installation::build_like_tests("houston").await?;
        let servers = programs::servers(|_| {})?;
        let variables = [("HOUSTON_MODEL", "simulated".to_owned())];
        let installation = Installation::start(&program, &servers, &variables).await?;
        let mut connection = installation.connect().await?;
        let folder = tempfile::Builder::new().prefix("houston-contract-").tempdir()?;
        configure(folder.path(), &mut connection).await?;
        let status = child::run(self.schemathesis(&tools, folder.path(), &installation)).await?;
        let log = installation.log();
        if !status.success() && !log.is_empty() {
            print_status(&format!("log of Houston:\n{log}"));
        }
        Ok(child::code(status))
    }

    fn schemathesis(&self, tools: &Path, folder: &Path, installation: &Installation) -> Command {
        let mut command = Command::new(tools.join("bin/schemathesis"));
        command.current_dir(folder).arg("run");
        command.arg(format!("http://{}/openapi.json", installation.address));
        command.args(["--header", &format!("Authorization: Bearer {}", installation.key)]);
        // One worker: in CPython 3.11 two threads that read source code at once can fail ("AST constructor recursion depth
        // mismatch").
        command.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--workers", "1"]);
        command.args(["--max-time", &self.seconds.to_string(), "--seed", &self.seed.to_string()]);
        command.args(["--request-timeout", "15", "--continue-on-failure", "--no-color"]);
        // A stream stays open as long as its run; other tests cover streams.
        command.args(["--exclude-operation-id", "stream_events"]);
        if let Some(path) = &self.path {
            command.args(["--include-path-regex", path]);
        }
        command
    }
}

/// Checks that the checked-in document is valid OpenAPI 3.1.
async fn lint(tools: &Path) -> Result<()> {
    let mut lint = Command::new(tools.join("bin/openapi-spec-validator"));
    lint.args(["--schema", "3.1"]).arg(repository::root().join("crates/api/openapi.json"));
    child::succeed(lint).await.context("crates/api/openapi.json is not valid")
}

/// Configures ids that exist, so that requests get past 404: a user, a goal, a message and a run.
async fn configure(folder: &Path, connection: &mut Connection) -> Result<()> {
    let user = installation::user(connection, "Ann").await?;
    let goal = goal(connection, &user, "A trip to Rome").await?;
    let body = json!({ "content": "Hello" }).to_string();
    let message: serde_json::Value =
        connection.post(&format!("/v1/goals/{goal}/messages"), &body).await?.json()?;
    let id = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let parameters = [
        ("^/v1/\\{kinds\\}", goal.clone()),
        ("^/v1/users/", user),
        ("^/v1/messages/", id("id")),
        ("^/v1/runs/", id("run_id")),
    ];
    let mut config = String::from("[parameters]\n\"path.kinds\" = \"goals\"\n");
    for (path, id) in parameters {
        config += &format!(
            "\n[[operations]]\ninclude-path-regex = '{path}'\nparameters = {{ \"path.id\" = \"{id}\" }}\n"
        );
    }
    std::fs::write(folder.join("schemathesis.toml"), config).context("schemathesis.toml cannot be written")
}
