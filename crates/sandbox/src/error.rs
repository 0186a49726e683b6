//! [`Error`]: what kept a run from happening. What a script did wrong is an [`crate::Outcome`].

use std::io;

/// Why nothing was run, or why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot build all walls. Nothing was read by the child. One sentence per wall that is missing.
    #[error("code cannot be run safely on this machine: {}", .0.join("; "))]
    Incomplete(Vec<String>),
    /// The program could not be started.
    #[error("cannot start the sandbox: {0}")]
    Start(#[source] io::Error),
    /// The program that was started is no sandbox: it ended without the first line of the protocol.
    #[error("the program started as sandbox does not answer as one: {0}")]
    NotASandbox(String),
    /// The child wrote something that the protocol does not have. It was killed.
    #[error("the sandbox broke its protocol: {0}")]
    Protocol(String),
    /// [`crate::Host::answer`] ended the run, for this reason. The child was killed.
    #[error("the script was stopped: {0}")]
    Stopped(String),
}
