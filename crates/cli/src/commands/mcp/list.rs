//! `houston mcp list`: the servers, and those of the catalogue.

use std::process::ExitCode;

use anyhow::Context as _;
use houston_mcp::Catalogue;
use serde::Serialize;

use super::{Context, Failure};
use crate::commands::agentable::table;
use crate::output::{print, print_json, print_stderr};

pub(super) fn catalogue(json: bool) -> Result<ExitCode, Failure> {
    let catalogue = Catalogue::built_in().context("jobs/catalogue.toml cannot be read")?;
    if json {
        print_json(&catalogue);
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 4]> = catalogue
        .servers
        .iter()
        .map(|(name, entry)| {
            [name.clone(), entry.categories.join(", "), entry.server.env.join(", "), entry.about.clone()]
        })
        .collect();
    table(&["SERVER", "FOR", "NEEDS", "ABOUT"], &rows).iter().for_each(|line| print(line));
    Ok(ExitCode::SUCCESS)
}

/// A line of `houston mcp list`.
#[derive(Serialize)]
struct Row<'r> {
    name: &'r str,
    enabled: bool,
    /// Or its address.
    command: String,
    kinds: &'r [String],
    /// The names under which its approved tools are offered.
    tools: Vec<String>,
}

pub(super) fn servers(context: &Context, json: bool) -> ExitCode {
    let (settings, pins) = (&context.loaded.settings.mcp, &context.loaded.mcp.pins);
    let mut names = houston_mcp::names::of_servers(settings, pins);
    let rows: Vec<Row<'_>> = settings
        .servers
        .iter()
        .map(|(name, server)| {
            let words = [&server.command].into_iter().chain(&server.args).cloned();
            let command = server.url.clone().unwrap_or_else(|| words.collect::<Vec<_>>().join(" "));
            let tools = names.remove(name).unwrap_or_default();
            Row { name, enabled: server.enabled, command, kinds: &server.kinds, tools }
        })
        .collect();
    if json {
        print_json(&serde_json::json!({"data": rows}));
        return ExitCode::SUCCESS;
    }
    let lines: Vec<[String; 5]> = rows
        .iter()
        .map(|row| {
            let enabled = if row.enabled { "yes" } else { "no" };
            let count = row.tools.len().to_string();
            [row.name.to_owned(), enabled.to_owned(), count, row.kinds.join(", "), row.command.clone()]
        })
        .collect();
    table(&["SERVER", "ENABLED", "TOOLS", "KINDS", "COMMAND OR ADDRESS"], &lines)
        .iter()
        .for_each(|line| print(line));
    if rows.is_empty() {
        print_stderr("there are no MCP servers; `houston mcp list --catalogue` shows some to add");
    }
    ExitCode::SUCCESS
}
