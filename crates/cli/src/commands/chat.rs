//! `houston chat`: talk with an agent in the terminal.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure, runtime};
use crate::chat::{self, Options};
use crate::environment::environment;
use crate::output::print_stderr;

/// The text below the options in `--help`.
const AFTER_HELP: &str = "\
With a message, or with lines on stdin, it prints the answers and exits. Exit codes: 0 answered, 1 the run failed, \
2 wrong usage, 3 no server answers, 4 no valid key, 5 no such goal, 130 cancelled with Ctrl-C.";

/// Talk with an agent in the terminal.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Chat {
    /// Address of the server [default: that of `houston dev` in this folder, else http://127.0.0.1:8080]
    #[arg(long, env = "HOUSTON_URL", hide_env_values = true)]
    url: Option<String>,
    /// API key (also HOUSTON_API_KEY) [default: the one that `houston dev` wrote to this folder]
    #[arg(long)]
    key: Option<String>,
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

impl Chat {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let options = Options {
            url: given(self.url),
            key: given(self.key),
            goal: given(self.goal),
            message: given(Some(self.message.join(" "))),
            images: self.image,
            thoughts: self.thoughts,
            json: self.json,
            folder: context.folder.clone(),
        };
        let talked = runtime()?.block_on(Box::pin(chat::run(options, environment)));
        Ok(talked.unwrap_or_else(|error| {
            print_stderr(&format!("houston: {error}"));
            ExitCode::from(error.exit_code())
        }))
    }
}
