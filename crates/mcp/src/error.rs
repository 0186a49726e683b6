//! Why a server could not be started, and why a call of a tool was not answered.

use std::path::PathBuf;

/// Why a server could not be started. For operators: a model reads [`CallError`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A variable that the settings name is not set.
    #[error("{name} is not set: the server gets it from the environment of Houston (`env` in mcp.toml)")]
    Variable {
        /// Its name.
        name: String,
    },
    /// Its folder cannot be created.
    #[error("its folder {} cannot be created: {source}", .path.display())]
    Home {
        /// The folder.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The value of a variable cannot be a header.
    #[error(
        "the value of {variable} cannot be sent as the header `{header}`: it has line breaks or other characters"
    )]
    Header {
        /// The name of the header.
        header: String,
        /// The name of the variable.
        variable: String,
    },
    /// Its address is refused.
    #[error("{refusal} (`private = true` in mcp.toml allows a server in a network of your own)")]
    Address {
        /// Why.
        refusal: houston_web::Refusal,
    },
    /// The address of a tenant's server is refused.
    #[error("{reason}")]
    NotPublic {
        /// What is allowed.
        reason: String,
    },
    /// There is no token for a server that uses OAuth.
    #[error("{reason}")]
    Login {
        /// Why, and what to do.
        reason: String,
    },
    /// Too many connections are open.
    #[error("{}", full(*.of_tenant, *.limit))]
    Full {
        /// Whether they are those of its tenant, and not of all.
        of_tenant: bool,
        /// The limit.
        limit: usize,
    },
    /// No certificates to trust.
    #[error("TLS cannot be used: {reason}")]
    Tls {
        /// What was wrong.
        reason: String,
    },
    /// The program cannot be started.
    #[error("`{command}` cannot be started: {source}; is it installed, and in PATH?")]
    Spawn {
        /// The program.
        command: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It does not speak the protocol.
    #[error("it did not answer as an MCP server: {reason}")]
    Handshake {
        /// What was wrong.
        reason: String,
    },
    /// It was started, but its tools cannot be listed.
    #[error("it did not list its tools: {reason}")]
    List {
        /// What was wrong.
        reason: String,
    },
    /// It took too long.
    #[error("it was not ready within {seconds} s (limits.start_s in mcp.toml)")]
    Timeout {
        /// The limit.
        seconds: u64,
    },
}

impl StartError {
    /// Whether trying again is of no use before a person has acted.
    #[must_use]
    pub fn is_setting(&self) -> bool {
        match self {
            Self::Variable { .. } | Self::Header { .. } => true,
            Self::Address { .. } | Self::NotPublic { .. } => true,
            Self::Login { .. } | Self::Full { .. } => true,
            Self::Home { .. } | Self::Spawn { .. } | Self::Tls { .. } => true,
            Self::Handshake { .. } | Self::List { .. } | Self::Timeout { .. } => false,
        }
    }
}

fn full(of_tenant: bool, limit: usize) -> String {
    match of_tenant {
        true => format!(
            "its tenant has {limit} connections to MCP servers in use, the most there may be: try again later"
        ),
        false => {
            format!("{limit} connections to MCP servers are in use, the most there may be: try again later")
        }
    }
}

/// Why a call was not answered. A model reads it, so it contains nothing that the process printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server could not be started.
    #[error("the server cannot be started: its operator finds the reason with `houston mcp doctor`")]
    Start,
    /// The server of a tenant cannot be reached.
    #[error("the server cannot be used: {reason}")]
    OwnStart {
        /// Why, without its secrets.
        reason: String,
    },
    /// Its start takes longer than a call waits for it.
    #[error("the server was not ready within {seconds} s; it is still starting: try again later")]
    Starting {
        /// How long the call has waited.
        seconds: u64,
    },
    /// It failed before, and is not started again yet.
    #[error("the server has failed and is not started again for {seconds} s")]
    Paused {
        /// How long it is left alone.
        seconds: u64,
    },
    /// The definition of the tool is another one than the one that was approved.
    #[error(
        "the server has changed this tool since it was approved: it is not called until a person approves it again"
    )]
    Changed,
    /// The server does not list the tool any more.
    #[error("the server does not have this tool any more")]
    Gone,
    /// Before a call, the server is asked for its tools if they may have changed. It refused.
    #[error("the server did not list its tools, so the call was not sent: {reason}")]
    List {
        /// What was wrong, cleaned.
        reason: String,
    },
    /// What went wrong before the call was sent: nothing has happened.
    #[error("{0}; the call was not sent")]
    NotSent(Box<CallError>),
    /// The connection ended before the answer.
    #[error("the server ended before it answered")]
    Closed,
    /// The request failed, or was refused.
    #[error("{reason}")]
    Http {
        /// Why.
        reason: String,
        /// The status of the answer, if there was one.
        status: Option<u16>,
    },
    /// The answer was too large, and the connection was ended.
    #[error("the server sent more than {bytes} bytes in one message, so it was stopped")]
    TooLarge {
        /// The limit.
        bytes: usize,
    },
    /// No answer in time.
    #[error("the server did not answer within {seconds} s")]
    Timeout {
        /// The limit.
        seconds: u64,
    },
    /// The server answered with an error of the protocol.
    #[error("{message}")]
    Rpc {
        /// Its code.
        code: i32,
        /// Its text, cleaned.
        message: String,
    },
    /// The server asked for something in the middle of the call that no person is asked.
    #[error("the server {why}; the call has begun, but is not finished")]
    Asked {
        /// Why not, as a clause about the server.
        why: String,
    },
    /// The task that the call began cannot be asked for any more.
    #[error("the task that this call began cannot be followed any more: {0}")]
    TaskLost(Box<CallError>),
    /// The server has cancelled the task that the call began.
    #[error("the server has cancelled the task that this call began")]
    TaskCancelled,
    /// The task that the call began has not ended in time.
    #[error("the task that this call began had not ended after a day, and was cancelled")]
    TaskTooOld,
    /// The server answered with something that is no result.
    #[error("the server did not answer with a result, but {wants}, which Houston does not support")]
    Unsupported {
        /// What it wants.
        wants: &'static str,
    },
}
