//! Checks of the models: which there are, and whether their providers take the keys.

use std::collections::BTreeSet;
use std::time::Duration;

use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_llm::{Description, Model, Request, call};

use super::finding::{Finding, ok, red, warn};
use crate::commands::Context;
use crate::models::{self, Models};

const REMEDY: &str =
    "set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or start Ollama; `houston ask hello` tests it";
/// The time limit of a provider's answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The limit of the answer in tokens: some providers refuse less.
const TOKENS: u32 = 16;

/// Which models there are; with `asks`, whether each provider answers one question of a few tokens.
pub(super) async fn models(context: &Context, asks: bool) -> Vec<Finding> {
    let models = match models::build(&context.loaded).await {
        Ok(models) => models,
        Err(error) => return vec![red("models", error.to_string(), REMEDY)],
    };
    let summary = models.summary.join("; ");
    let mut findings = vec![match summary.as_str() {
        summary if summary.starts_with("none:") => red("models", summary, REMEDY),
        summary if summary.contains("SIMULATED") => warn("models", summary, REMEDY),
        summary => ok("models", summary),
    }];
    if asks {
        findings.extend(providers(&models).await);
    }
    findings
}

/// Asks the first model of each provider.
async fn providers(models: &Models) -> Option<Finding> {
    let mut seen = BTreeSet::new();
    let candidates = models.routes.by_use_case.values().flat_map(|route| &route.candidates);
    let asked: Vec<Description> = candidates
        .map(|candidate| candidate.description.clone())
        .filter(|model| !model.simulated && seen.insert(model.provider.clone()))
        .collect();
    let mut failed = Vec::new();
    for description in &asked {
        let model = (models.make)(description.to_string()).await;
        if let Err(error) = ask(&*model).await {
            failed.push((description, error));
        }
    }
    Some(match failed.first() {
        None if asked.is_empty() => return None,
        None => {
            let names: Vec<String> = asked.iter().map(ToString::to_string).collect();
            ok("providers", format!("{} answer", names.join(", ")))
        }
        Some((_, first)) => {
            let details: Vec<String> =
                failed.iter().map(|(model, error)| format!("{model}: {}", error.message)).collect();
            let (detail, todo) = (details.join("; "), advice(first.code));
            if failed.len() == asked.len() {
                red("providers", detail, todo)
            } else {
                warn("providers", detail, todo)
            }
        }
    })
}

async fn ask(model: &dyn Model) -> Result<(), ModelError> {
    let entries = [Entry::user(vec![Block::text("Say hello.")])];
    let request = Request { entries: &entries, max_output_tokens: TOKENS, ..Request::default() };
    match tokio::time::timeout(TIMEOUT, call(model, &request)).await {
        Ok(answer) => match answer {
            // It answered, if with fewer words than this asked for.
            Ok(_) | Err(ModelError { code: ModelErrorCode::InvalidResponse, .. }) => Ok(()),
            Err(error) => Err(error),
        },
        Err(_) => {
            let text = format!("no answer within {} s", TIMEOUT.as_secs());
            Err(ModelError::new(ModelErrorCode::Timeout, text))
        }
    }
}

fn advice(code: ModelErrorCode) -> &'static str {
    match code {
        ModelErrorCode::AuthenticationError => {
            "the key is wrong or has expired: set a valid one, start `serve` and `work` again, and repeat runs that failed"
        }
        ModelErrorCode::ModelNotFound => {
            "correct the model's name: HOUSTON_MODEL, models.toml or the agent's settings"
        }
        ModelErrorCode::RateLimited => {
            "wait, or raise the limit at the provider; runs are repeated by themselves"
        }
        ModelErrorCode::NetworkError | ModelErrorCode::Timeout => {
            "let this machine reach the provider (firewall, proxy, address); runs are repeated by themselves"
        }
        _ => REMEDY,
    }
}
