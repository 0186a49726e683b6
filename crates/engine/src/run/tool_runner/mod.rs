//! [`ToolRunner`]: tool calls, those of a turn and those of a plan's steps. How a call is carried out is in [`path`].

mod asking;
mod cells;
mod code;
mod execution;
mod fallback;
mod focus;
mod guard;
mod held;
mod path;
mod pausing;
mod record;
mod resume;
mod task;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};

use chrono_tz::Tz;
use houston_domain::budget::Raises;
use houston_domain::local_time::parse_zone;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolResponse};
use houston_store::run_context::RunContext;
use houston_tools::{CallContext, Offer, Skills, TaskKind};
use rust_decimal::Decimal;

use self::resume::Committed;
use crate::prompt::compose::{offers, skills};
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Setup;
use crate::setup::guards::Taint;

pub(crate) use self::cells::{Cells, add_tool_result};
pub(crate) use self::code::value_of;
pub(crate) use self::execution::{ExternalCall, ToolsOutcome};
pub(crate) use self::held::Held;
pub(crate) use self::path::{Made, Origin, Plans, Prepared};
pub(crate) use self::record::{PendingRecord, StepRows, WrittenRecords, commit_with};
pub(crate) use self::resume::OpenCalls;

/// Call ids with their responses.
pub(crate) type Responses = Vec<(String, ToolResponse)>;

/// The tools a run may call.
pub(crate) struct ToolRunner {
    setup: Arc<Setup>,
    /// The tools the run may call, without `read_result`.
    offer: Offer,
    /// The same with `read_result`, for runs that have large results.
    offer_with_results: Offer,
    /// Whether the session has large results, so that `read_result` is offered.
    has_results: bool,
    /// What the session has read.
    pub(crate) taint: Taint,
    /// The skills of the run; `None`: none.
    pub(crate) skills: Option<Arc<Skills>>,
    /// The user's time zone.
    zone: Tz,
    /// What an earlier attempt has committed about the calls of the run: code that is run again reads it.
    recorded: Committed,
    /// What people have added to the budgets.
    pub(crate) raises: Raises,
    /// What each call that asks a model and has not ended may cost, in US dollars.
    reserved: Vec<(Weak<()>, Decimal)>,
    /// The kinds of task the agent may create, once a call has asked.
    task_kinds: OnceLock<Arc<[TaskKind]>>,
    /// What calls may have changed since the last time: see [`Self::note_written`].
    pub(crate) written: Vec<String>,
}

impl ToolRunner {
    pub(crate) fn new(setup: Arc<Setup>, context: &RunContext) -> Self {
        let [offer, offer_with_results] = offers(&setup, context);
        Self {
            offer,
            offer_with_results,
            has_results: context.has_results,
            skills: skills(&setup, context).map(Arc::new),
            taint: Taint::at_start(context, &setup),
            zone: parse_zone(&context.user.time_zone),
            setup,
            recorded: Committed::default(),
            raises: Raises::default(),
            reserved: Vec::new(),
            task_kinds: OnceLock::new(),
            written: Vec::new(),
        }
    }

    /// Whether a call of this tool that failed for a passing reason is repeated unless its step says otherwise.
    pub(crate) fn is_retried(&self, tool: &str) -> bool {
        matches!(self.effect_of(tool), EffectClass::Read | EffectClass::Idempotent)
    }

    /// The tools the model is offered now.
    pub(crate) fn offer(&self) -> &Offer {
        if self.has_results { &self.offer_with_results } else { &self.offer }
    }

    /// What a tool is given besides its arguments.
    fn call_context<S: RunStorage>(&self, journal: &Journal<'_, S>, call: &ToolCall) -> CallContext {
        let (agentable, run) = (journal.agentable(), journal.run());
        CallContext {
            tenant: journal.owner.tenant,
            agentable,
            user: journal.owner.user,
            run,
            idempotency_key: call.idempotency_key(agentable, run),
            now: journal.now(),
            zone: self.zone,
            tasks: self.task_kinds(journal),
            reached: Arc::clone(&self.setup.reached),
            guards: Arc::clone(&self.setup.guards),
            skills: self.skills.clone(),
            files: journal.command_files(),
            // A child token: a tool that cancels it does not cancel the run.
            stop: journal.signals.cancel().child_token(),
            progress: cells::progress_of(journal),
        }
    }
}

/// A tool's response, cut to `max_tool_result_bytes` and without the mark of frames.
fn cut<S: RunStorage>(journal: &Journal<'_, S>, response: ToolResponse) -> ToolResponse {
    let unmarked = match journal.mark.remove_mark(response.text()) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    };
    let response = match unmarked {
        Some(text) => response.map_text(|_| text),
        None => response,
    };
    response.cut(journal.services.config.context.max_tool_result_bytes)
}
