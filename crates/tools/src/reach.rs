//! What the tools for other conversations of the user share: ids, and one line for each conversation.

use houston_domain::agentable::AgentType;
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::reach::Conversation;

use crate::tool::InvalidInput;
use crate::untrusted;

/// The names of kinds.
pub(crate) fn names(reached: &[AgentType]) -> Vec<String> {
    reached.iter().map(|kind| kind.kind.clone()).collect()
}

/// The response of a tool whose agent reaches no kind at all.
pub(crate) fn nothing_reached() -> ToolResponse {
    let text = "you cannot see other conversations of your user: the file of your kind has no `reaches`";
    ToolResponse::failure(ToolErrorCode::PermissionDenied, text)
}

/// Parses the id of a conversation, which begins with its kind.
///
/// # Errors
/// [`InvalidInput`] with the kinds there are.
pub(crate) fn id(tool: &str, given: &str, reached: &[AgentType]) -> Result<AgentableId, InvalidInput> {
    kind_and_id(tool, given, reached).map(|(_, id)| id)
}

/// Parses the id of a conversation, and finds its kind.
///
/// # Errors
/// As [`id`].
pub(crate) fn kind_and_id<'k>(
    tool: &str,
    given: &str,
    reached: &'k [AgentType],
) -> Result<(&'k AgentType, AgentableId), InvalidInput> {
    let found =
        reached.iter().find_map(|kind| Some((kind, AgentableId(parse_prefixed(&kind.kind, given).ok()?))));
    found.ok_or_else(|| {
        let given: String = given.chars().take(80).collect();
        let forms: Vec<String> =
            reached.iter().map(|kind| format!("{}_<32 hex digits>", kind.kind)).collect();
        InvalidInput(format!("{tool}: `{given}` is no id of a conversation; ids are: {}", forms.join(", ")))
    })
}

/// The id, the status and the title of a conversation.
pub(crate) fn line(conversation: &Conversation, reached: &[AgentType]) -> String {
    let Conversation { id, kind, title, status, run, untrusted } = conversation;
    let id = id.public_id(kind);
    let status = reached.iter().find(|of| of.kind == *kind).and_then(|of| of.status(status.as_deref(), *run));
    let status = status.map(|status| format!(" [{status}]")).unwrap_or_default();
    let title = if title.is_empty() { "(no title yet)" } else { title };
    format!("{id}{status}: {}", untrusted::stored(*untrusted, &id, title.to_owned()))
}
