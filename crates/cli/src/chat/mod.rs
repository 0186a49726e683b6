//! `houston chat`: a conversation in the terminal, over the API like any other client.
//!
//! Pure parts decide, thin ones do: `houston_protocol` finds events in bytes, [`event`] reads them, [`screen`] turns them into
//! text, [`rows`] finds its place on a terminal, [`command`] reads lines; [`server`] asks the API, [`follow`] reads a
//! stream over all its connections, [`errand`] posts what was typed in its order, [`editor`] has lines typed,
//! [`terminal`] writes. [`interactive`] and [`once`] put them together.
//!
//! # Add a command
//! A variant in [`command::Command`], its word in `Command::read`, its line in `HELP`, and what it does in
//! `interactive`.

mod command;
mod editor;
mod errand;
mod error;
mod event;
mod follow;
#[cfg(test)]
mod glass;
mod interactive;
mod key;
mod memory;
mod message;
mod notice;
mod once;
mod output;
mod place;
mod rows;
mod screen;
mod server;
mod terminal;
mod typing;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;

pub(crate) use self::error::ChatError;
use self::key::Key;
pub(crate) use self::memory::Demo;
use self::memory::{Memory, address};
use self::message::Goal;
use self::output::Output;
use self::screen::Style;
use self::server::Server;
use self::terminal::Terminal;
use crate::output::{Stream, is_terminal, print_json_text};

/// Where Houston serves unless told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// The title of goals that are made here.
const TITLE: &str = "Chat";

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) url: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) goal: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) thoughts: bool,
    pub(crate) json: bool,
    pub(crate) folder: PathBuf,
}

/// Where a conversation takes place, and how it is shown.
struct Setting {
    server: Server,
    goal: Goal,
    memory: Memory,
    ids: Arc<Ids>,
    style: Style,
    terminal: Terminal,
    json: bool,
    /// Of this process; the lines typed are kept in it.
    folder: PathBuf,
}

/// Has the conversation.
///
/// # Errors
/// [`ChatError`] says what to do, and the exit code.
pub(crate) async fn run(
    options: Options,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<ExitCode, ChatError> {
    let demo = Demo::read(&options.folder);
    let url = options.url.as_deref().map(address).or_else(|| demo.as_ref().map(|demo| demo.url.clone()));
    let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
    let server = Server::new(url, Key::find(options.key.clone(), &environment, &options.folder)?)?;
    let ids = Arc::new(Ids::new(Arc::new(SystemClock)));
    let memory = Memory::read(&options.folder);
    let login = environment("LOGNAME").or_else(|| environment("USER"));
    let goal =
        place::find(&server, options.goal.as_deref(), &memory, demo.as_ref(), login.as_deref(), &ids).await?;

    let interactive = options.message.is_none() && std::io::stdin().is_terminal();
    let talk_to_stderr = !interactive || options.json || !is_terminal(Stream::Out);
    let style = style(&options, interactive, talk_to_stderr, &environment);
    let terminal = Terminal::new(&style, talk_to_stderr);
    let Options { json, folder, message, .. } = options;
    let mut setting = Setting { server, goal, memory, ids, style, terminal, json, folder };
    setting.remember();
    if interactive {
        Box::pin(interactive::talk(setting)).await
    } else {
        once::say(setting, message.as_deref()).await
    }
}

fn style(
    options: &Options,
    interactive: bool,
    talk_to_stderr: bool,
    environment: impl Fn(&str) -> Option<String>,
) -> Style {
    let terminal = if talk_to_stderr { is_terminal(Stream::Err) } else { true };
    let live = terminal && !options.json && environment("TERM").is_none_or(|name| name != "dumb");
    let colour = live && environment("NO_COLOR").is_none();
    let interactive = interactive && !options.json;
    Style {
        interactive,
        edited: interactive && live && !talk_to_stderr,
        live,
        colour,
        thoughts: options.thoughts,
    }
}

impl Setting {
    fn now(&self) -> DateTime<Utc> {
        self.ids.clock().now()
    }

    fn show(&mut self, output: Output) {
        self.terminal.show(output);
    }

    /// Shows an event: as text, or as it came.
    fn show_event(&mut self, output: Output, json: &str) {
        if self.json {
            print_json_text(json);
        } else {
            self.show(output);
        }
    }

    fn move_to(&mut self, goal: Goal) {
        self.goal = goal;
        self.remember();
    }

    /// A folder that cannot be written to costs a goal at the next start, and nothing now.
    fn remember(&mut self) {
        if let Err(error) = self.memory.keep(&self.server.url, &self.goal.id) {
            tracing::warn!(%error, "the goal is not remembered");
        }
    }
}
