//! Which tools of its kind an agent may call, as clients say it.

use houston_domain::agentable::AgentType;

use crate::agents::sources::{like, short};
use crate::error::ApiError;
use crate::state::App;

/// Checks the tools that an agentable of `kind` is to keep; they stand at `at` in the body.
pub(crate) fn check(app: &App, kind: &str, at: &str, tools: &[String]) -> Result<(), ApiError> {
    let Some(kind) = app.state.agent_types.get(kind) else { return Ok(()) };
    check_of_kind(tools, kind, &app.state.agents.tools, at)
}

/// Checks tools that are to be called instead of all those of `kind`. `all` are the tools of every kind.
///
/// # Errors
/// The first that is no tool of the kind, or stands there twice, with what is allowed and the nearest.
pub(crate) fn check_of_kind(
    tools: &[String],
    kind: &AgentType,
    all: &[String],
    at: &str,
) -> Result<(), ApiError> {
    for (place, tool) in tools.iter().enumerate() {
        let pointer = format!("{at}/{place}");
        if tools[..place].contains(tool) {
            return Err(ApiError::field(&pointer, format!("`{}` stands there twice", short(tool))));
        }
        if kind.tools.contains(tool) {
            continue;
        }
        let allowed: Vec<&str> = kind.tools.iter().map(String::as_str).collect();
        let (given, what) = (short(tool), &kind.kind);
        let why = if all.contains(tool) {
            format!("`{given}` is not among the tools of the kind `{what}`")
        } else {
            format!("there is no tool `{given}`")
        };
        let told = format!("{why}; a {what} may have: {}{}", allowed.join(", "), like(tool, &allowed));
        return Err(ApiError::field(&pointer, told));
    }
    Ok(())
}
