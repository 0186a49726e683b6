//! `houston plan`: plans and their documents.

mod check;
mod server;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{Context, Failure};

/// Check, show, list and run plans.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check a document without a server: one problem a line, each with its place. Exits 1 if there is one
    Check(check::Check),
    /// Show a plan: its steps, what it asks, its output
    Show(server::Show),
    /// List the plans of a goal, newest first
    List(server::List),
    /// Run a document for a goal, and print how it gets on. Exits 1 if it is not completed
    Run(server::Run),
}

impl Plan {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Check(check) => check.run(context),
            Action::Show(show) => show.run(context),
            Action::List(list) => list.run(context),
            Action::Run(run) => run.run(context),
        }
    }
}
