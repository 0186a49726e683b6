//! What the calls of a replay with a model are answered: from the record, or, if asked for, by tools that read.

mod live;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::anyhow;
use clap::ValueEnum;
use houston_domain::autonomy::Autonomy;
use houston_domain::guard::{Layer, LayerKind};
use houston_domain::id::RunId;
use houston_domain::tool_call::{ToolCall, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::trace::checkpoint::Checkpoint;
use houston_domain::trace::compare::Called;
use houston_tools::Registry;

use super::agent::Agent;
use crate::commands::{Context, Failure};

/// What a call is answered that is not in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tools {
    /// The replay ends
    Fail,
    /// Tools that only read are called, if guards let them without asking; of others the model reads that they are not
    /// available
    LiveRead,
    /// The model reads that the tool is not available
    Skip,
}

/// Answers the calls of one replay.
pub(super) struct Answers<'c> {
    /// Recorded calls that are not used yet; then those before the checkpoint, which are never used up.
    recorded: Vec<(Called, ToolResponse)>,
    earlier: &'c [(Called, ToolResponse)],
    mode: Tools,
    registry: &'c Registry,
    offered: BTreeSet<String>,
    guards: Vec<Arc<Layer>>,
    autonomy: Autonomy,
    run: RunId,
    /// Whether what strangers wrote was read.
    untrusted: bool,
    /// How often each tool was called.
    live: BTreeMap<String, u32>,
}

impl<'c> Answers<'c> {
    pub(super) fn new(
        context: &'c Context,
        checkpoint: &'c Checkpoint,
        agent: &Agent,
        run: RunId,
        mode: Tools,
    ) -> Result<Self, Failure> {
        let kind = &agent.agent_type;
        let mut guards = vec![Arc::clone(&context.loaded.guards)];
        let of_agent = agent.stored.as_ref().and_then(|stored| stored.settings.guards.as_ref());
        let lower = [(LayerKind::Kind, kind.guards.as_deref()), (LayerKind::Agent, of_agent)];
        for (layer, settings) in lower.into_iter().filter_map(|(layer, of)| Some((layer, of?))) {
            let layer = Layer::compile(layer, &kind.kind, settings);
            guards.push(Arc::new(layer.map_err(|error| Failure::Usage(error.into()))?));
        }
        Ok(Self {
            recorded: checkpoint.calls.clone(),
            earlier: &checkpoint.earlier,
            mode,
            registry: &context.registry,
            offered: BTreeSet::new(),
            guards,
            autonomy: kind.autonomy,
            run,
            untrusted: false,
            live: BTreeMap::new(),
        })
    }

    /// The model is sent the definitions of these tools.
    pub(super) fn offer(&mut self, tools: &[ToolDefinition]) {
        self.offered.extend(tools.iter().map(|tool| tool.name.clone()));
    }

    /// The response of a call.
    ///
    /// # Errors
    /// When the record does not answer it, and nothing else may.
    pub(super) async fn answer(&mut self, call: &ToolCall) -> Result<ToolResponse, Failure> {
        let response = match (self.recorded(call), self.mode) {
            (Some(response), _) => response,
            (None, Tools::Skip) => unavailable(""),
            (None, Tools::LiveRead) => self.live(call).await.unwrap_or_else(unavailable),
            (None, Tools::Fail) => {
                return Err(Failure::Other(anyhow!(
                    "the record does not answer {} {}; use --tools skip to go on without such calls",
                    call.name,
                    call.input
                )));
            }
        };
        self.note(&call.name, &response);
        Ok(response)
    }

    /// The recorded response of a call with the same name and arguments; each is used once, and the last one again.
    fn recorded(&mut self, call: &ToolCall) -> Option<ToolResponse> {
        let is_same = |(of, _): &&(Called, ToolResponse)| of.name == call.name && of.input == call.input;
        if let Some(at) = self.recorded.iter().position(|recorded| is_same(&recorded)) {
            let is_last = !self.recorded[at + 1..].iter().any(|other| is_same(&other));
            return Some(match is_last {
                true => self.recorded[at].1.clone(),
                false => self.recorded.remove(at).1,
            });
        }
        self.earlier.iter().rfind(is_same).map(|(_, response)| response.clone())
    }
}

/// What the model reads of a call that is not answered.
fn unavailable(reason: &str) -> ToolResponse {
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let text = format!("this tool is not available{reason}: go on without it");
    ToolResponse::failure(ToolErrorCode::ConfigError, text)
}
