//! What the tools for plans share: the kind of plan that an agent makes, ids, and why a plan asks first.

use houston_domain::autonomy::Autonomy;
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::plan::{Approval, Document, Problem, approval};
use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};

use crate::tool::{CallContext, InvalidInput, TaskKind};

/// Paths of steps that a question names.
const NAMED: usize = 5;

/// The kind of the plans that the agent makes; otherwise the response to its call.
pub(crate) fn kind(context: &CallContext) -> Result<&TaskKind, ToolResponse> {
    context.tasks.iter().find(|kind| kind.is_plan).ok_or_else(|| {
        let reason = "you cannot make plans: do it step by step, with your own tools";
        ToolResponse::failure(ToolErrorCode::PermissionDenied, reason)
    })
}

/// Parses the id of a plan.
///
/// # Errors
/// [`InvalidInput`] with the form of ids.
pub(crate) fn id(tool: &str, given: &str, kind: &TaskKind) -> Result<AgentableId, InvalidInput> {
    parse_prefixed(&kind.kind, given).map(AgentableId).map_err(|_| {
        let given: String = given.chars().take(80).collect();
        let form = format!("{}_<32 hex digits>", kind.kind);
        InvalidInput(format!("{tool}: `{given}` is no id of a plan; one is {form}"))
    })
}

/// Every problem on a line of its own, behind its JSON pointer.
pub(crate) fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Why a person has to allow the plan first, if it is so.
pub(crate) fn asks(document: &Document, kind: &TaskKind) -> Option<String> {
    let effect = |tool: &str| match kind.acting.iter().any(|acting| acting == tool) {
        true => EffectClass::Effect,
        false => EffectClass::Idempotent,
    };
    Some(match approval(document, kind.autonomy, effect)? {
        Approval::Level => {
            format!("an agent with autonomy `{}` asks before each of its plans", kind.autonomy.as_str())
        }
        Approval::Effects(paths) => {
            let more = if paths.len() > NAMED { ", …" } else { "" };
            let named = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>();
            format!(
                "steps that act outside are repeated or go on side by side ({}{more}), which agents below autonomy `{}` \
                 do not do without asking",
                named.join(", "),
                Autonomy::High.as_str()
            )
        }
    })
}
