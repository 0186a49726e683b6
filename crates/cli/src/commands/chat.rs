//! `houston chat`: talking with an agent in the terminal.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure};

/// Talk with an agent in the terminal.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Where Houston serves
    #[arg(long, env = "HOUSTON_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
}

impl Chat {
    pub(crate) fn run(self, _context: &Context) -> Result<ExitCode, Failure> {
        Err(Failure::Other(anyhow::anyhow!("not built yet: {}", self.url)))
    }
}
