//! `houston chat`: a conversation in the terminal. It talks to the API over HTTP like any other client.
//!
//! The parts without I/O: [`screen`] turns events into text, [`terminal::Rows`] computes what to write on a terminal, [`command`]
//! parses lines. The parts with I/O: [`server`] sends requests to the API, [`follow`] reads an event stream and
//! reconnects, [`request`] sends messages and commands in order, [`editor`] reads lines, [`terminal`] writes.
//! [`interactive`] (a person at a terminal) and [`once`] (arguments or a pipe) combine them. Requests, responses and
//! events are the types of `houston_protocol`.
//!
//! # Add a command
//! Add a variant to [`command::Command`], its word to `Command::read`, its line to `HELP`, and its action to
//! `interactive`.

mod approvals;
mod checklist;
mod command;
mod editor;
mod error;
mod follow;
mod goals;
mod interactive;
mod notice;
mod once;
mod output;
mod plans;
mod request;
mod screen;
mod server;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use clap::Args;
use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_protocol::agentable::AgentableResponse;

use self::error::Result;
use self::goals::{SavedGoals, address};
use self::output::Output;
use self::screen::Style;
use self::server::{Key, Server};
use self::terminal::Terminal;
use crate::environment::environment;
use crate::output::{Stream, is_terminal, print_json_text};

pub(crate) use self::error::ChatError;
pub(crate) use self::goals::Demo;
pub(crate) use self::plans::{list as list_plans, run as run_plan, show as show_plan};
pub(crate) use self::server::tls;

/// The server, unless --url, HOUSTON_URL or a `houston dev` in this folder says otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// The title of the goals that this command creates.
const TITLE: &str = "Chat";

/// The server to ask.
#[derive(Debug, Args)]
pub(crate) struct ServerArg {
    /// Address of the server [default: that of `houston dev` in this folder, else http://127.0.0.1:8080]
    #[arg(long, env = "HOUSTON_URL", hide_env_values = true)]
    url: Option<String>,
    /// API key (also HOUSTON_API_KEY) [default: the one that `houston dev` wrote to this folder]
    #[arg(long)]
    key: Option<String>,
}

impl ServerArg {
    /// A client of it. Sends nothing yet.
    fn client(&self, folder: &Path) -> Result<Server> {
        let demo = || Demo::read(folder).map(|demo| demo.url);
        let url = given(&self.url).as_deref().map(address).or_else(demo);
        let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        Server::new(url, Key::find(given(&self.key), environment, folder)?)
    }
}

/// An option, unless it is blank.
fn given(option: &Option<String>) -> Option<String> {
    option.clone().filter(|text| !text.trim().is_empty())
}

/// The arguments of `houston chat`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    server: ServerArg,
    /// Goal to talk in, `goal_…` [default: the last one, or a new one]
    #[arg(long)]
    goal: Option<String>,
    /// Show the reasoning of the agent
    #[arg(long)]
    thoughts: bool,
    /// Print the events as they arrive, one JSON object per line
    #[arg(long)]
    json: bool,
    /// File of an image to post with the message (PNG, JPEG, WebP or GIF); may be given several times
    #[arg(long, value_name = "PATH")]
    image: Vec<PathBuf>,
    /// The message; without one, a prompt is shown
    message: Vec<String>,
}

/// What both modes of the chat share: the server, the goal, and how output looks.
struct ChatContext {
    server: Server,
    goal: AgentableResponse,
    saved_goals: SavedGoals,
    ids: Arc<Ids>,
    style: Style,
    terminal: Terminal,
    json: bool,
    /// The folder of `--folder`; the history of typed lines is stored there.
    folder: PathBuf,
}

/// Runs the chat.
///
/// # Errors
/// [`ChatError`]: the message says what to do, and [`ChatError::exit_code`] is the exit code.
pub(crate) async fn run(options: Options, folder: PathBuf) -> Result<ExitCode> {
    let server = options.server.client(&folder)?;
    let ids = Arc::new(Ids::new(Arc::new(SystemClock)));
    let saved_goals = SavedGoals::read(&folder);
    let login = environment("LOGNAME").or_else(|| environment("USER"));
    let (asked_for, demo) = (given(&options.goal), Demo::read(&folder));
    let (asked_for, login) = (asked_for.as_deref(), login.as_deref());
    let goal = goals::find_goal(&server, asked_for, &saved_goals, demo.as_ref(), login, &ids).await?;

    let message = given(&Some(options.message.join(" ")));
    let interactive = message.is_none() && options.image.is_empty() && std::io::stdin().is_terminal();
    let info_to_stderr = !interactive || options.json || !is_terminal(Stream::Out);
    let style = style(&options, interactive, info_to_stderr);
    let terminal = Terminal::new(&style, info_to_stderr);
    let Options { json, image, .. } = options;
    let mut context = ChatContext { server, goal, saved_goals, ids, style, terminal, json, folder };
    context.save_goal();
    if interactive {
        Box::pin(interactive::run(context)).await
    } else {
        once::run(context, message.as_deref(), &image).await
    }
}

fn style(options: &Options, interactive: bool, info_to_stderr: bool) -> Style {
    let terminal = if info_to_stderr { is_terminal(Stream::Err) } else { true };
    let live = terminal && !options.json && environment("TERM").is_none_or(|name| name != "dumb");
    let colour = live && environment("NO_COLOR").is_none();
    let interactive = interactive && !options.json;
    Style {
        interactive,
        edited: interactive && live && !info_to_stderr,
        live,
        colour,
        thoughts: options.thoughts,
    }
}

impl ChatContext {
    fn now(&self) -> DateTime<Utc> {
        self.ids.clock().now()
    }

    fn show(&mut self, output: Output) {
        self.terminal.show(output);
    }

    /// Shows an event: as text, or with `--json` as it was received.
    fn show_event(&mut self, output: Output, json: &str) {
        if self.json {
            print_json_text(json);
        } else {
            self.show(output);
        }
    }

    /// Saves the goal for the next start. A failure is logged: the next start then creates a new goal.
    fn save_goal(&mut self) {
        if let Err(error) = self.saved_goals.save(&self.server.url, &self.goal.id) {
            tracing::warn!(%error, "the goal was not saved for the next start");
        }
    }
}
