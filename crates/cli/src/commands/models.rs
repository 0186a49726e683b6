//! `houston models doctor`: tries a real model for what the table of models says about it.

use std::io::{BufRead as _, stdin};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Subcommand;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_llm::Price;
use houston_llm::doctor::{Finding, MOST_REQUESTS, Report, examine, most_usage};
use serde_json::{Value, json};

use super::agentable::print_table;
use super::{Context, Failure, Result, runtime};
use crate::environment::environment;
use crate::models::{Reached, reach};
use crate::output::{print, print_json, print_stderr};

/// Try a real model for what Houston's table says about it.
#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// Send a model a short request for each field of its profile, and print what it accepts beside what the table says
    ///
    /// It costs a few cents, and asks first. Where the table is wrong, the lines for jobs/models.toml are printed, and it exits 1.
    Doctor {
        /// The model, as provider/model; that of agents when left out
        model: Option<String>,
        /// Do not ask first
        #[arg(long)]
        yes: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl Models {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let Self::Doctor { model, yes, json } = self;
        runtime()?.block_on(async {
            let reached = reach(&context.loaded, model.as_deref());
            let Reached { choice, http, tokens } = reached.await.map_err(Failure::usage)?;
            let described = choice.description();
            if described.simulated {
                let help = "name a real one, as in `houston models doctor openai/gpt-5-mini`";
                return Err(Failure::Usage(anyhow!("{described} is simulated: {help}")));
            }
            if !yes && !may_go_on(&choice.to_string(), &described.provider, &described.model)? {
                return Ok(ExitCode::FAILURE);
            }
            let examined = examine(&choice, &http, &environment, tokens);
            let report = tokio::select! {
                report = examined => report.map_err(|error| Failure::Other(error.into()))?,
                _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(130)),
            };
            show(&report, json);
            let is_right = report.lines().is_none();
            Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}

fn may_go_on(name: &str, provider: &str, model: &str) -> Result<bool> {
    let price = Price::find(provider, model);
    let cost = price.and_then(|price| price.cost(&most_usage(), SystemClock.now()));
    let cost = cost.map_or("its price is not known".to_owned(), |cost| {
        format!("${} at most", cost.round_dp(2).normalize())
    });
    print_stderr(&format!("This sends {name} up to {MOST_REQUESTS} short requests ({cost}). Go on? [y/N]"));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "?".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) => "unknown".to_owned(),
        Some(value) => value.to_string(),
    }
}

fn show(report: &Report, as_json: bool) {
    let lines = report.lines();
    if as_json {
        let price = report.model.split_once('/').and_then(|(provider, model)| Price::find(provider, model));
        let cost = price.and_then(|price| price.cost(&report.usage, SystemClock.now()));
        return print_json(&json!({
            "model": report.model, "fields": report.fields, "requests": report.requests, "cost": cost, "lines": lines,
        }));
    }
    let row = |finding: &Finding| {
        let mark = if finding.differs() { "differs" } else { "" };
        let why = finding.why.as_deref().filter(|_| finding.differs() || finding.found.is_none());
        let why: String = why.unwrap_or_default().chars().take(100).collect();
        [
            finding.field.to_owned(),
            shown(Some(&finding.table)),
            shown(finding.found.as_ref()),
            format!("{mark} {why}").trim().to_owned(),
        ]
    };
    print_table(["FIELD", "TABLE", "FOUND", ""], report.fields.iter().map(row));
    match lines {
        None => print_stderr(&format!("{}: the table is right ({} requests)", report.model, report.requests)),
        Some(lines) => {
            print_stderr(&format!("{}: for jobs/models.toml ({} requests):", report.model, report.requests));
            print(&format!("\n{lines}"));
        }
    }
}
