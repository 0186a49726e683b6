//! Tests of Houston against fake providers written by others: `llmock` injects faults into calls and evaluates how the
//! client reacts, `aimock` plays a conversation with tools over every protocol.
//!
//! Each provider gets its own Houston process and database, so that everything from the posted message to the answer
//! is tested, including retries across attempts.

mod aimock;
mod installation;
mod llmock;
mod report;

use anyhow::Result;

pub(crate) use report::Report;

use crate::installation::build_like_tests;
use houston_xtask::programs;

/// Runs the tests with both fake providers.
pub(crate) async fn run() -> Result<Report> {
    let program = build_like_tests("houston").await?;
    let servers = programs::servers(|config| config.max_connections = 300)?;
    let mut report = Report::default();
    report.extend(Box::pin(llmock::run(&program, &servers)).await?);
    report.extend(Box::pin(aimock::run(&program, &servers)).await?);
    Ok(report)
}
