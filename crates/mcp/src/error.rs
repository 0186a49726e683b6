//! Why a server could not be started, and why a call of a tool was not answered.

use std::path::PathBuf;

/// Why a server could not be started. For operators: a model reads [`CallError`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The variable with this name, which the settings have, is not set.
    #[error("{0} is not set: the server gets it from the environment of Houston (`env` in mcp.toml)")]
    Variable(String),
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
    #[error("{0} (`private = true` in mcp.toml allows a server in a network of your own)")]
    Address(houston_web::Refusal),
    /// The address of a tenant's server is refused: what is allowed.
    #[error("{0}")]
    NotPublic(String),
    /// There is no token for a server that uses OAuth: why, and what to do.
    #[error("{0}")]
    Login(String),
    /// Too many connections are open.
    #[error("{}", full(*.of_tenant, *.limit))]
    Full {
        /// Whether they are those of its tenant, and not of all.
        of_tenant: bool,
        /// The limit.
        limit: usize,
    },
    /// No certificates to trust.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    /// The program cannot be started.
    #[error("`{command}` cannot be started: {source}; is it installed, and in PATH?")]
    Spawn {
        /// The program.
        command: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It does not speak the protocol.
    #[error("it did not answer as an MCP server: {0}")]
    Handshake(String),
    /// It was started, but its tools cannot be listed.
    #[error("it did not list its tools: {0}")]
    List(String),
    /// It took longer than so many seconds.
    #[error("it was not ready within {0} s (limits.start_s in mcp.toml)")]
    Timeout(u64),
}

impl StartError {
    /// Whether trying again is of no use before a person has acted.
    pub fn is_setting(&self) -> bool {
        !matches!(self, Self::Handshake(_) | Self::List(_) | Self::Timeout(_))
    }
}

fn full(of_tenant: bool, limit: usize) -> String {
    if of_tenant {
        format!(
            "its tenant has {limit} connections to MCP servers in use, the most there may be: try again later"
        )
    } else {
        format!("{limit} connections to MCP servers are in use, the most there may be: try again later")
    }
}

/// Why a call was not answered. A model reads it, so it contains nothing that the process printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server could not be started.
    #[error("the server cannot be started: its operator finds the reason with `houston mcp doctor`")]
    Start,
    /// The server of a tenant cannot be reached: why, without its secrets.
    #[error("the server cannot be used: {0}")]
    OwnStart(String),
    /// Its start takes longer than the seconds that a call waits for it.
    #[error("the server was not ready within {0} s; it is still starting: try again later")]
    Starting(u64),
    /// It failed before, and is not started again for so many seconds.
    #[error("the server has failed and is not started again for {0} s")]
    Paused(u64),
    /// The definition of the tool is another one than the one that was approved.
    #[error(
        "the server has changed this tool since it was approved: it is not called until a person approves it again"
    )]
    Changed,
    /// The server does not list the tool any more.
    #[error("the server does not have this tool any more")]
    Gone,
    /// Before a call, the server is asked for its tools if they may have changed. It refused.
    #[error("the server did not list its tools, so the call was not sent: {0}")]
    List(String),
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
    /// The answer had more than so many bytes, and the connection was ended.
    #[error("the server sent more than {0} bytes in one message, so it was stopped")]
    TooLarge(usize),
    /// No answer within so many seconds.
    #[error("the server did not answer within {0} s")]
    Timeout(u64),
    /// The server answered with an error of the protocol.
    #[error("{message}")]
    Rpc {
        /// Its code.
        code: i32,
        /// Its text, cleaned.
        message: String,
    },
    /// The server asked for something in the middle of the call that no person is asked: why not, as a clause about the server.
    #[error("the server {0}; the call has begun, but is not finished")]
    Asked(String),
    /// The task that the call began cannot be asked for any more.
    #[error("the task that this call began cannot be followed any more: {0}")]
    TaskLost(Box<CallError>),
    /// The server has cancelled the task that the call began.
    #[error("the server has cancelled the task that this call began")]
    TaskCancelled,
    /// The task that the call began has not ended in time.
    #[error("the task that this call began had not ended after a day, and was cancelled")]
    TaskTooOld,
    /// The server answered with something that is no result: what it wants.
    #[error("the server did not answer with a result, but {0}, which Houston does not support")]
    Unsupported(&'static str),
}
