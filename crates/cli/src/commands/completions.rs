//! `houston completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Context;
use crate::app::Arguments;
use crate::output::print;

/// Print the script with which a shell completes commands and options.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

const AFTER_HELP: &str = "\
bash:  houston completions bash > ~/.local/share/bash-completion/completions/houston
zsh:   houston completions zsh > \"${fpath[1]}/_houston\"
fish:  houston completions fish > ~/.config/fish/completions/houston.fish";

impl Completions {
    pub(crate) fn run(self, _: &Context) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "houston", &mut script);
        print(String::from_utf8_lossy(&script).trim_end());
        ExitCode::SUCCESS
    }
}
