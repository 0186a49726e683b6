//! `cargo xtask contract`: checks Houston's responses against its OpenAPI document.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use houston_testkit::houston::Houston;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::service;
use crate::wait::{wait_for, wait_until};
use houston_testkit::console::print_status;
use houston_testkit::{child, programs, repository};

/// Schemathesis, the linter and their dependencies, with versions.
const PACKAGES: &str = include_str!("../../python/contract.txt");

/// All checks of schemathesis except `positive_data_acceptance`, since some rejections cannot be expressed in a schema
/// (names of tools, models and time zones), and `object_level_authorization`, which needs a second tenant.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      missing_required_header,unsupported_method,allow_header_conformance,use_after_free,\
                      ensure_resource_availability,ignored_auth";

/// Of the checks those about answers, for keys that may do only a part: most of their requests are refused.
const CHECKS_OF_ANSWERS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                                 response_headers_conformance,response_schema_conformance";

/// The scopes of these keys; a key with `admin` does the first half of the fuzzing.
const SCOPES: [&str; 4] = ["read", "post", "manage_agents", "operate"];

/// The tenant of `houston dev`, which has what the requests name.
const TENANT: &str = "demo";

/// How long a run of the simulated model may take.
const RUN_TIMEOUT: Duration = Duration::from_secs(30);

/// Lint the OpenAPI document, and fuzz Houston with valid and invalid requests, with keys of each scope.
#[derive(Debug, Args)]
pub(crate) struct Contract {
    /// How long to fuzz: half of it with a key that may do everything, the rest with keys of one scope
    #[arg(long, default_value_t = 180)]
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
        let mut lint = Command::new(tools.join("bin/openapi-spec-validator"));
        lint.args(["--schema", "3.1"]).arg(repository::root().join("crates/api/openapi.json"));
        child::succeed(lint).await.context("crates/api/openapi.json is not valid")?;

        let program = service::build_like_tests("houston").await?;
        let servers = programs::servers(|_| {})?;
        let houston = Houston::builder(&program).on([&servers]).set("HOUSTON_MODEL", "simulated").start()?;
        let mut connection = Connection::to(&houston).await?;
        let folder = tempfile::Builder::new().prefix("houston-contract-").tempdir()?;
        configure(folder.path(), &mut connection).await?;
        let mut all = self.schemathesis(&tools, folder.path(), houston.address, &houston.key);
        all.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"]);
        all.args(["--max-time", &(self.seconds / 2).to_string()]);
        let mut statuses = vec![child::run(all).await?];
        for scope in SCOPES {
            print_status(&format!("a key with the scope `{scope}`"));
            let key = houston.setup.run(&["key", "create", "--tenant", TENANT, "--scope", scope])?;
            let mut one = self.schemathesis(&tools, folder.path(), houston.address, &key);
            // A few requests to each operation instead of many to the first ones.
            one.args(["--checks", CHECKS_OF_ANSWERS, "--phases", "examples,fuzzing", "--max-examples", "3"]);
            one.args(["--max-time", &(self.seconds / 2 / SCOPES.len() as u32).to_string()]);
            statuses.push(child::run(one).await?);
        }
        let failed = statuses.into_iter().find(|status| !status.success());
        let log = houston.log();
        if failed.is_some() && !log.is_empty() {
            print_status(&format!("log of Houston:\n{log}"));
        }
        Ok(failed.map_or(ExitCode::SUCCESS, child::code))
    }

    fn schemathesis(&self, tools: &Path, folder: &Path, address: SocketAddr, key: &str) -> Command {
        let mut command = Command::new(tools.join("bin/schemathesis"));
        command.current_dir(folder).arg("run");
        command.arg(format!("http://{address}/openapi.json"));
        command.args(["--header", &format!("Authorization: Bearer {key}")]);
        // One worker: in CPython 3.11 two threads that read source code at once can fail ("AST constructor recursion depth
        // mismatch").
        command.args(["--workers", "1", "--seed", &self.seed.to_string()]);
        command.args(["--request-timeout", "15", "--continue-on-failure", "--no-color"]);
        // A stream stays open as long as its run, and its schema is that of the data in its frames, not of the frames; other
        // tests cover streams.
        for stream in [
            "stream_events",
            "resume_ai_sdk_chat",
            "run_ag_ui",
            "run_ag_ui_thread",
            "run_ai_sdk_chat",
            "stream_all_events",
            "stream_user_events",
        ] {
            command.args(["--exclude-operation-id", stream]);
        }
        if let Some(path) = &self.path {
            command.args(["--include-path-regex", path]);
        }
        command
    }
}

/// Configures ids that exist, so that requests get past 404. Requests that delete get ids of their own, since all others
/// would find nothing any more.
async fn configure(folder: &Path, connection: &mut Connection) -> Result<()> {
    let (kept, deleted) = (ids(connection, "kept").await?, ids(connection, "deleted").await?);
    let mut config = String::from("[parameters]\n\"path.kinds\" = \"goals\"\n");
    for ((path, kept), (_, deleted)) in kept.into_iter().zip(deleted) {
        for (methods, id) in [("exclude-method = \"DELETE\"", kept), ("include-method = \"DELETE\"", deleted)]
        {
            let parameters = format!("parameters = {{ \"path.id\" = \"{id}\" }}");
            config +=
                &format!("\n[[operations]]\ninclude-path-regex = '^/v1/{path}/'\n{methods}\n{parameters}\n");
        }
    }
    std::fs::write(folder.join("schemathesis.toml"), config).context("schemathesis.toml cannot be written")
}

/// The id of one thing of each sort, by the regular expression of its path.
async fn ids(connection: &mut Connection, name: &str) -> Result<Vec<(&'static str, String)>> {
    let user = connection.user(name).await?;
    let goal = connection.goal(&user, "A trip to Rome").await?;
    let message =
        create(connection, &format!("/v1/goals/{goal}/messages"), &json!({"content": "Hello"})).await?;
    let agent = json!({"kind": "goal", "name": format!("agent {name}"), "role": "You plan trips."});
    let agent = id(&create(connection, "/v1/agents", &agent).await?, "id");
    let router = json!({"by": "rules", "rules": [{"when": {"prefix": "/plan"}, "agent_id": agent}]});
    let team = json!({"name": format!("team {name}"), "agents": [agent], "router": router});
    let mut ids = vec![
        ("\\{kinds\\}", goal.clone()),
        ("users", user.clone()),
        ("messages", id(&message, "id")),
        ("runs", id(&message, "run_id")),
        ("agents", agent),
        ("teams", id(&create(connection, "/v1/teams", &team).await?, "id")),
        ("sessions", closed_session(connection, &user).await?),
        ("questions", open_question(connection, name).await?),
    ];
    let (titled, plain) = (json!({"title": "Rome", "content": "Sunny."}), json!({"content": "Sunny."}));
    for (path, parent, body) in [
        ("notes", format!("goals/{goal}/notes"), &titled),
        ("learnings", format!("goals/{goal}/learnings"), &plain),
        ("check-ins", format!("goals/{goal}/check-ins"), &json!({"in_minutes": 600, "reason": "Ask."})),
        ("custom-instructions", format!("users/{user}/custom-instructions"), &plain),
        ("memories", format!("users/{user}/memories"), &plain),
        ("feed-items", format!("users/{user}/feed"), &titled),
    ] {
        ids.push((path, id(&create(connection, &format!("/v1/{parent}"), body).await?, "id")));
    }
    Ok(ids)
}

/// A goal's session, closed by a reset after its first run.
async fn closed_session(connection: &mut Connection, user: &str) -> Result<String> {
    let goal = connection.goal(user, "A past trip").await?;
    let path = format!("/v1/goals/{goal}");
    let message = create(connection, &format!("{path}/messages"), &json!({"content": "Hello"})).await?;
    let run = format!("/v1/runs/{}", id(&message, "run_id"));
    let has_ended = async || Ok(connection.get(&run).await?.json::<Value>()?["ended_at"].is_string());
    wait_until(RUN_TIMEOUT, has_ended, || format!("the run {run} has not ended")).await?;
    create(connection, &format!("{path}/reset"), &json!({})).await?;
    let sessions: Value = connection.get(&format!("{path}/sessions")).await?.json()?;
    Ok(id(&sessions["data"][0], "id"))
}

/// A question whether a call may be carried out, which waits for its answer.
async fn open_question(connection: &mut Connection, name: &str) -> Result<String> {
    let user = connection.user(&format!("asked {name}")).await?;
    let goal = connection.goal(&user, "A trip to forget").await?;
    let call = format!("/sim tool=delete_note args={{\"note_id\":\"note_{}\"}}", "0".repeat(32));
    create(connection, &format!("/v1/goals/{goal}/messages"), &json!({ "content": call })).await?;
    let asked = async || {
        let asked: Value = connection.get(&format!("/v1/questions?user_id={user}")).await?.json()?;
        Ok(asked["data"][0].is_object().then(|| id(&asked["data"][0], "id")))
    };
    wait_for(RUN_TIMEOUT, asked, || "no question was asked".to_owned()).await
}

async fn create(connection: &mut Connection, path: &str, body: &Value) -> Result<Value> {
    connection.post(path, &body.to_string()).await?.json().with_context(|| format!("POST {path}"))
}

fn id(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_default().to_owned()
}
