//! Checks of `tools`: the tools of its kind, and those of the tenant's own, that an agent or agentable may call.

use std::borrow::Cow;

use houston_domain::agentable::AgentType;

use crate::error::{ApiError, Result};
use crate::request::checks::{suggestion, truncated};
use crate::state::Ctx;

/// Checks the tools of an agentable of `kind`. `at` is their JSON Pointer in the body.
pub(crate) async fn check(ctx: &Ctx, kind: &str, at: &str, tools: &[String]) -> Result<()> {
    let Some(kind) = ctx.state.agent_types.get(kind) else { return Ok(()) };
    let kind = with_own(ctx, kind, Some(tools)).await?;
    check_of_kind(tools, &kind, &ctx.state.agents.tools, at)
}

/// The kind; if it does not have all of `tools`, with those of the tenant's own, too.
pub(crate) async fn with_own<'k>(
    ctx: &Ctx,
    kind: &'k AgentType,
    tools: Option<&[String]>,
) -> Result<Cow<'k, AgentType>> {
    if tools.unwrap_or_default().iter().all(|tool| kind.tools.contains(tool)) {
        return Ok(Cow::Borrowed(kind));
    }
    let mut kind = kind.clone();
    kind.tools.extend(ctx.store().own_tools().await?);
    Ok(Cow::Owned(kind))
}

/// Checks that `tools` is a subset of the tools of `kind`, without duplicates. `all` are the tools of every kind; `at`
/// is the JSON Pointer of `tools` in the body.
///
/// # Errors
/// [`ApiError::InvalidRequest`] for the first tool that is listed twice or is not a tool of the kind, with the allowed
/// tools and the most similar one.
pub(crate) fn check_of_kind(tools: &[String], kind: &AgentType, all: &[String], at: &str) -> Result<()> {
    for (index, tool) in tools.iter().enumerate() {
        let pointer = format!("{at}/{index}");
        if tools[..index].contains(tool) {
            return Err(ApiError::field(&pointer, format!("`{}` is listed twice", truncated(tool))));
        }
        if kind.tools.contains(tool) {
            continue;
        }
        let allowed: Vec<&str> = kind.tools.iter().map(String::as_str).collect();
        let (given, what) = (truncated(tool), &kind.kind);
        let why = if all.contains(tool) {
            format!("`{given}` is not among the tools of the kind `{what}`")
        } else {
            format!("there is no tool `{given}`")
        };
        let detail = format!(
            "{why}; allowed for the kind `{what}`: {}{}",
            allowed.join(", "),
            suggestion(tool, &allowed)
        );
        return Err(ApiError::field(&pointer, detail));
    }
    Ok(())
}
