//! `houston chat`: talking with an agent in the terminal.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure, runtime};
use crate::chat::{self, Options};
use crate::models::environment;
use crate::output::tell;

/// What is printed below the options.
const AFTER_HELP: &str = "\
With a message, or with lines on stdin, it prints the answers and ends. Exit codes: 0 answered, 1 the run failed, \
2 wrong usage, 3 no server answers, 4 no valid key, 5 no such goal, 130 cancelled with Ctrl-C.";

/// Talk with an agent in the terminal.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Chat {
    /// Where Houston serves [default: where `houston dev` of this folder does, else http://127.0.0.1:8080]
    #[arg(long, env = "HOUSTON_URL", hide_env_values = true)]
    url: Option<String>,
    /// API key (also HOUSTON_API_KEY) [default: the one that `houston dev` keeps in its folder]
    #[arg(long)]
    key: Option<String>,
    /// Which conversation, `goal_…` [default: the last one, or a new one]
    #[arg(long)]
    goal: Option<String>,
    /// Show what the agent thinks
    #[arg(long)]
    thoughts: bool,
    /// Print the events as they come, one JSON object a line
    #[arg(long)]
    json: bool,
    /// What to say; without it, you are asked
    message: Vec<String>,
}

impl Chat {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let options = Options {
            url: given(self.url),
            key: given(self.key),
            goal: given(self.goal),
            message: given(Some(self.message.join(" "))),
            thoughts: self.thoughts,
            json: self.json,
            folder: context.folder.clone(),
        };
        let talked = runtime()?.block_on(Box::pin(chat::run(options, environment)));
        Ok(talked.unwrap_or_else(|error| {
            tell(&format!("houston: {error}"));
            ExitCode::from(error.exit_code())
        }))
    }
}
