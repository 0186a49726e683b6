//! Calls of tools in a replay. Only those that read, and only what guards let pass without a person.

use std::sync::Arc;

use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::guard::{Call, Decision, Situation, clamp, decide};
use houston_domain::id::{AgentableId, UserId};
use houston_domain::tool_call::{EffectClass, ToolCall, ToolErrorCode, ToolResponse};
use houston_tools::untrusted::is_marked;
use houston_tools::{CallContext, Plan, Progress};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Answers;

/// The longest result that the model reads, in characters.
const MOST_CHARS: usize = 50_000;

impl Answers<'_> {
    /// Calls a tool of this process whose own definition says that it reads: what a trace says of it does not count.
    ///
    /// # Errors
    /// Why it is not called.
    pub(super) async fn live(&mut self, call: &ToolCall) -> Result<ToolResponse, &'static str> {
        let tool = self.registry.get(&call.name).filter(|_| self.offered.contains(&call.name));
        let tool = Arc::clone(tool.ok_or("there is no such tool")?);
        let definition = tool.definition();
        if definition.effect != EffectClass::Read {
            return Err("a replay calls only tools that read");
        }
        let facts = tool.facts();
        let (input, _) = clamp(&facts.in_force(&self.guards, &call.name).limits, call.input.clone());
        let calls = self.live.entry(call.name.clone()).or_default();
        *calls = calls.saturating_add(1);
        let situation = Situation {
            calls_last_minute: *calls - 1,
            untrusted_read: self.untrusted,
            // A trace does not say what its prompt had.
            private_read: true,
            attended: false,
            ..Situation::new(self.autonomy)
        };
        let judged = Call {
            tool: &call.name,
            facts: Some(&facts),
            input: &input,
            pin: tool.pin(),
            pin_changed: false,
        };
        if decide(&self.guards, &judged, &situation).decision != Decision::Allow {
            return Err("guards do not let it be called without a person");
        }
        match tool.plan(&input, &self.context(call)) {
            Ok(Plan::Answer(response)) => Ok(cut(response)),
            Ok(Plan::Execute(work)) => Ok(match tokio::time::timeout(definition.timeout, work).await {
                Ok(response) => cut(response),
                Err(_) => ToolResponse::failure(ToolErrorCode::Timeout, "the tool took too long"),
            }),
            Ok(_) => Err("a replay does not read Houston's own tables"),
            Err(invalid) => Ok(invalid.into()),
        }
    }

    /// Nothing of the tenant: a tool that reads needs none of it.
    fn context(&self, call: &ToolCall) -> CallContext {
        CallContext {
            agentable: AgentableId(Uuid::nil()),
            user: UserId(Uuid::nil()),
            run: self.run,
            idempotency_key: call.idempotency_key(AgentableId(Uuid::nil()), self.run),
            now: SystemClock.now(),
            zone: chrono_tz::UTC,
            tasks: Arc::new([]),
            reached: Arc::new([]),
            guards: self.guards.clone().into(),
            skills: None,
            files: None,
            stop: CancellationToken::new(),
            progress: Progress::default(),
        }
    }

    /// A response was read: what strangers wrote counts for the calls after it.
    pub(super) fn note(&mut self, tool: &str, response: &ToolResponse) {
        let facts = self.registry.get(tool).map(|tool| tool.facts());
        let marks = facts.is_none_or(|facts| facts.in_force(&self.guards, tool).untrusted_output);
        self.untrusted |= marks || is_marked(response.text());
    }
}

fn cut(response: ToolResponse) -> ToolResponse {
    let Some((end, _)) = response.text().char_indices().nth(MOST_CHARS) else { return response };
    let text = format!("{}\n\n[cut off here]", &response.text()[..end]);
    match response {
        ToolResponse::Failure { code, .. } => ToolResponse::failure(code, text),
        _ => ToolResponse::success(text),
    }
}
