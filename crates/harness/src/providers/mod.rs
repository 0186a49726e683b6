//! Houston in front of providers that others wrote: `llmock` breaks calls and judges what the client does about it,
//! `aimock` plays a conversation with tools over every protocol.
//!
//! Each provider gets a Houston of its own, on a database of its own: the whole way from a posted message to the
//! answer is judged, retries across attempts included.

mod house;
mod judge;
mod peer;
mod report;

use anyhow::Result;

pub(crate) use report::Report;

use crate::installation;
use houston_xtask::programs;

/// Runs both.
pub(crate) async fn run() -> Result<Report> {
    let program = installation::built("houston").await?;
    let servers = programs::servers(|config| config.max_connections = 300)?;
    let mut report = Report::default();
    report.extend(Box::pin(judge::run(&program, &servers)).await?);
    report.extend(Box::pin(peer::run(&program, &servers)).await?);
    Ok(report)
}
