//! `houston chat`: talk with an agent in the terminal.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Result, runtime};
use crate::chat::{self, ChatError, Options};

/// The text below the options in `--help`.
const AFTER_HELP: &str = "\
With a message, or with lines on stdin, it prints the answers and exits. Exit codes: 0 answered, 1 the run failed, \
2 wrong usage, 3 no server answers, 4 no valid key, 5 no such goal, 130 cancelled with Ctrl-C.";

/// Talk with an agent in the terminal.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Chat {
    #[command(flatten)]
    options: Options,
}

impl Chat {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let talked = runtime()?.block_on(Box::pin(chat::run(self.options, context.folder)));
        Ok(talked.unwrap_or_else(ChatError::report))
    }
}
