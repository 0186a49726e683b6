//! Fallbacks: the tool that Houston calls in the place of one that failed. It is a call of its own, made like one of code: judged,
//! stored and executed like any call. The failure is committed with its intent, so a worker that takes the run over goes on with
//! the fallback and never repeats the call that failed.

use houston_domain::code_call;
use houston_domain::fallback::Fallback;
use houston_domain::id::MessageId;
use houston_domain::step::{Intent, Step};
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::{CodeCall, CodeHost, Plan, untrusted};

use super::ToolRunner;
use super::execution::{ExternalCall, Work};
use super::resume::Committed;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// Characters of a failure that the model reads before the answer of the fallback.
const MAX_REASON: usize = 300;
/// The position of a fallback among the calls that follow from the one that failed, which itself has the position before.
const NUMBER: usize = 1;

/// What is called if a call fails.
pub(super) struct FallbackCall {
    settings: Fallback,
    call: CodeCall,
    /// Whether it was called by an earlier attempt: the call has failed.
    begun: bool,
}

impl FallbackCall {
    /// Whether it is called after this response of a tool of class `effect`.
    pub(super) fn follows(&self, effect: EffectClass, response: &ToolResponse) -> bool {
        self.begun || self.settings.follows(effect, response)
    }

    /// Calls it; `failed` is the response of the call before.
    pub(super) async fn call(self, mut host: CodeHost, failed: &ToolResponse) {
        // Who drives the run has the answer; and if there is none, the reason.
        let _ = host.fall_back(self.call, failed.clone()).await;
    }
}

/// A call whose fallback may be called.
pub(super) struct Falling {
    call: ToolCall,
    effect: EffectClass,
    cell: Option<MessageId>,
    /// What the call returned, if the fallback was called.
    pub(super) failed: Option<ToolResponse>,
    /// The fallback, and what it returned.
    pub(super) answered: Option<(String, ToolResponse)>,
}

impl Falling {
    pub(super) fn of(call: &ExternalCall, effect: EffectClass) -> Self {
        Self { call: call.call.clone(), effect, cell: call.cell, failed: None, answered: None }
    }

    /// Adds the failure to the step that has the intent of the fallback.
    pub(super) fn record(&self, step: &mut Step) {
        let (Some(failed), Some(cell)) = (&self.failed, self.cell) else { return };
        let ToolCall { id, name, input, .. } = &self.call;
        let id = code_call::id(id, NUMBER - 1, name, input);
        step.intents.push(Intent { call: id.clone(), name: name.clone(), effect: self.effect, cell });
        step.responses.push((id, failed.clone()));
    }

    /// What the model reads of both calls. `None`: the fallback was not called.
    pub(super) fn response(self) -> Option<ToolResponse> {
        let failed = self.failed?;
        let (tool, name) = (self.answered.as_ref().map_or("", |(tool, _)| tool), &self.call.name);
        let line = code_call::called_line([tool].into_iter().filter(|tool| !tool.is_empty()));
        let reason = reason_of(&failed);
        let Some((tool, answer)) = &self.answered else { return Some(interrupted(name)) };
        let outcome = if answer.is_success() { "answered in its place" } else { "its fallback, failed, too" };
        Some(
            answer
                .clone()
                .map_text(|text| format!("{line}\n[{name} failed{reason}; {tool}, {outcome}]\n{text}")),
        )
    }
}

/// Why a call failed, in brackets: a failure that has text of strangers is left out.
fn reason_of(failed: &ToolResponse) -> String {
    let text = failed.text();
    let line = text.lines().next().unwrap_or_default();
    if untrusted::is_marked(text) || line.trim().is_empty() {
        return String::new();
    }
    let end = line.char_indices().nth(MAX_REASON).map_or(line.len(), |(end, _)| end);
    format!(" ({})", line[..end].trim_end_matches('.'))
}

fn interrupted(tool: &str) -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::Unknown,
        format!(
            "{tool} failed, its fallback was called, and this was interrupted. Since then the fallback was changed in the \
             settings, so its outcome is not known: verify before you try again."
        ),
    )
}

impl ToolRunner {
    /// The call with its fallback, if its tool has one that the run may call. If an earlier attempt called it, the call returns
    /// what it returned then.
    pub(super) fn with_fallback<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        mut call: ExternalCall,
    ) -> ExternalCall {
        let ToolCall { id, name, input, .. } = &call.call;
        let failed = self.recorded.failed(id);
        let settings = journal.services.fallbacks.of(name).filter(|settings| {
            !call.work.is_code() && settings.tool != *name && self.offer().get(&settings.tool).is_some()
        });
        match (failed, settings) {
            (None, None) => {}
            (Some(_), None) => call.work = Work::answered(interrupted(name)),
            (failed, Some(settings)) => {
                let input = settings.arguments(input);
                let fallback = CodeCall { number: NUMBER, tool: settings.tool.clone(), input };
                if let Some(failed) = failed {
                    call.work = Work::answered(failed.clone());
                }
                call.fallback = Some(FallbackCall {
                    settings: settings.clone(),
                    call: fallback,
                    begun: failed.is_some(),
                });
            }
        }
        call
    }

    /// A call that has failed before anything was executed, as one that fails when it is executed, if its fallback may follow.
    pub(super) fn failing_later<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        tool: &str,
        plan: Plan,
    ) -> Plan {
        let Plan::Answer(response) = plan else { return plan };
        let follows = || {
            let effect = self.offer().get(tool)?.definition().effect;
            let settings = journal.services.fallbacks.of(tool)?;
            self.offer().get(&settings.tool)?;
            settings.follows(effect, &response).then_some(())
        };
        match follows() {
            Some(()) => Plan::Execute(Box::pin(std::future::ready(response))),
            None => Plan::Answer(response),
        }
    }
}

impl Committed {
    /// What a call returned whose fallback was called.
    pub(super) fn failed(&self, call: &str) -> Option<&ToolResponse> {
        if self.intents.is_empty() {
            return None;
        }
        let mut intents = self.intents.iter();
        let failed = |id: &str| code_call::number(id, call) == Some(NUMBER - 1);
        intents.find_map(|(id, intent)| intent.response.as_ref().filter(|_| failed(id)))
    }
}
