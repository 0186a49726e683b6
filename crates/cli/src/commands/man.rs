//! `houston man`: man pages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};

use super::{Context, Failure};
use crate::app::Arguments;
use crate::output::print;

/// Write the man pages of all commands to a folder.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Man {
    /// The folder; created if it does not exist
    #[arg(value_name = "FOLDER")]
    pages: PathBuf,
}

const AFTER_HELP: &str = "houston man ~/.local/share/man/man1 && man houston-dev";

impl Man {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Failure> {
        std::fs::create_dir_all(&self.pages)?;
        clap_mangen::generate_to(Arguments::command(), &self.pages)?;
        print(&self.pages.join("houston.1").display().to_string());
        Ok(ExitCode::SUCCESS)
    }
}
