//! Offers with many tools: those of real servers, and Houston's own.

mod calls;
mod search;

use std::sync::Arc;

use chrono::DateTime;
use houston_domain::guard::{GuardSettings, Layer, LayerKind, ToolFacts};
use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::tool_call::{ToolCall, ToolDefinition, ToolResponse};
use serde_json::Value;
use uuid::Uuid;

use crate::input::InvalidInput;
use crate::tool::{CallContext, Plan, Tool};
use crate::{Offer, Outside, Registry, builtin};

/// A tool of a server, which does nothing.
struct Listed(ToolDefinition);

impl Tool for Listed {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts::foreign()
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        match input.get("refused") {
            Some(_) => Err(InvalidInput("this is refused".to_owned())),
            None => Ok(Plan::Answer(ToolResponse::success(input.to_string()))),
        }
    }
}

const TOOLS: &str = include_str!("../../../tests/many/tools.jsonl");

/// A third of the characters of a definition: close enough to its tokens.
fn tokens(definition: &ToolDefinition) -> u64 {
    let schema = definition.input_schema.to_string();
    u64::try_from((definition.name.len() + definition.description.len() + schema.len()) / 3).unwrap()
}

/// All built-in tools and those of the servers, and their names.
fn all() -> (Registry, Vec<String>) {
    let mut registry = Registry::default();
    for tool in builtin::all(&Outside::default()) {
        registry.add(tool).unwrap();
    }
    for line in TOOLS.lines() {
        registry.add(Arc::new(Listed(serde_json::from_str(line).unwrap()))).unwrap();
    }
    let names = registry.names();
    (registry, names)
}

/// An offer of all tools, with these sent in any case.
fn offer(direct: &[&str]) -> Offer {
    let (registry, names) = all();
    let direct: Vec<String> = direct.iter().map(|name| (*name).to_owned()).collect();
    registry.offer(&names).unwrap().searched_above(4_000, &direct, tokens)
}

fn context(guards: &[&str]) -> CallContext {
    let nil = Uuid::nil();
    let layer = |toml: &&str| {
        let settings: GuardSettings = toml::from_str(toml).unwrap();
        Arc::new(Layer::compile(LayerKind::Kind, "test", &settings).unwrap())
    };
    CallContext {
        tenant: TenantId(nil),
        agentable: AgentableId(nil),
        user: UserId(nil),
        run: RunId(nil),
        idempotency_key: String::new(),
        now: DateTime::UNIX_EPOCH,
        zone: chrono_tz::UTC,
        tasks: Arc::new([]),
        reached: Arc::new([]),
        guards: guards.iter().map(layer).collect(),
        skills: None,
        files: None,
        stop: tokio_util::sync::CancellationToken::new(),
        progress: crate::Progress::default(),
    }
}

/// The answer to a call, as the model wrote it.
fn answer(offer: &Offer, guards: &[&str], name: &str, input: Value) -> ToolResponse {
    let call = ToolCall::of_block("c", name, &input, None);
    match offer.plan(&call, &context(guards)) {
        Plan::Answer(response) => response,
        other => panic!("expected an answer, got {other:?}"),
    }
}
