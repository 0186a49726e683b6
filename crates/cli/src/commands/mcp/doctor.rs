//! `houston mcp doctor`: starts each server, and says what is wrong.

use std::process::ExitCode;

use houston_mcp::pins::Standing;
use houston_mcp::server::Look;
use serde::Serialize;

use super::{Context, Failure, look, word};
use crate::commands::agentable::table;
use crate::output::{print, print_json};

/// What `houston mcp doctor` says of a server.
#[derive(Serialize)]
struct Finding {
    name: String,
    /// `ok`, `warn` or `red`.
    status: &'static str,
    detail: String,
    /// What the server printed, if it could not be started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    printed: Vec<String>,
}

pub(super) fn doctor(context: &Context, only: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let settings = &context.loaded.settings.mcp;
    let enabled = settings.servers.iter().filter(|(_, server)| server.enabled).map(|(name, _)| name.as_str());
    let names: Vec<&str> = only.map_or_else(|| enabled.collect(), |name| vec![name]);
    let mut findings = Vec::with_capacity(names.len());
    for name in names {
        findings.push(finding(context, name, look(context, settings, name)?));
    }
    let is_red = findings.iter().any(|finding| finding.status == "red");
    if json {
        print_json(&serde_json::json!({"data": findings}));
    } else {
        let row =
            |finding: &Finding| [finding.status.to_owned(), finding.name.clone(), finding.detail.clone()];
        let rows: Vec<[String; 3]> = findings.iter().map(row).collect();
        table(&["STATUS", "SERVER", "DETAIL"], &rows).iter().for_each(|line| print(line));
        for finding in &findings {
            finding.printed.iter().for_each(|line| print(&format!("  {}: {line}", finding.name)));
        }
    }
    Ok(if is_red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn finding(context: &Context, name: &str, look: Look) -> Finding {
    let name = name.to_owned();
    let tools = match look.tools {
        Ok(tools) => tools,
        Err(error) => {
            return Finding { name, status: "red", detail: error.to_string(), printed: look.printed };
        }
    };
    let standing = context.loaded.mcp.pins.compare(&name, &tools);
    let of = |wanted: Standing| {
        let names =
            standing.iter().filter(|(_, standing)| **standing == wanted).map(|(tool, _)| tool.as_str());
        names.collect::<Vec<_>>()
    };
    let mut parts = vec![format!("{} tools approved", of(Standing::Approved).len())];
    for wanted in [Standing::Changed, Standing::New, Standing::Gone, Standing::Refused] {
        let names = of(wanted);
        if !names.is_empty() {
            parts.push(format!("{}: {}", word(wanted), names.join(", ")));
        }
    }
    let is_fine = of(Standing::Changed).is_empty() && of(Standing::New).is_empty();
    if !is_fine {
        parts.push(format!("look at them, then: houston mcp approve {name}"));
    }
    Finding {
        name,
        status: if is_fine { "ok" } else { "warn" },
        detail: parts.join("; "),
        printed: Vec::new(),
    }
}
