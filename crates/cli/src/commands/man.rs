//! `houston man` and `houston completions`: what a shell wants to know of the commands.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Arguments, Context, Result};
use crate::output::print;

/// Write the man pages of all commands to a folder.
#[derive(Debug, Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct Man {
    /// The folder; created if it does not exist
    #[arg(value_name = "FOLDER")]
    pages: PathBuf,
}

const MAN_HELP: &str = "houston man ~/.local/share/man/man1 && man houston-dev";

impl Man {
    pub(crate) fn run(self, _: Context) -> Result<()> {
        std::fs::create_dir_all(&self.pages)?;
        clap_mangen::generate_to(Arguments::command(), &self.pages)?;
        print(&self.pages.join("houston.1").display().to_string());
        Ok(())
    }
}

/// Print the script with which a shell completes commands and options.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
bash:  houston completions bash > ~/.local/share/bash-completion/completions/houston
zsh:   houston completions zsh > \"${fpath[1]}/_houston\"
fish:  houston completions fish > ~/.config/fish/completions/houston.fish";

impl Completions {
    pub(crate) fn run(self, _: Context) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "houston", &mut script);
        print(String::from_utf8_lossy(&script).trim_end());
        Ok(())
    }
}
