//! Agent cards: what a client reads first. That of a kind needs no key; that of an agent of the tenant does.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::uri::Authority;
use axum::response::IntoResponse as _;
use houston_domain::agentable::AgentType;
use houston_domain::id::AgentId;
use houston_protocol::a2a::{TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC, VERSION};
use serde_json::{Value, json};

use crate::request::prelude::*;

const NO_AGENT: ApiError = ApiError::NotFound("agent");

/// `GET /.well-known/agent-card.json`: the card of the first kind that users may create.
pub(crate) async fn main(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response> {
    let kind = app.state.agent_types.values().find(|kind| kind.user_creatable()).ok_or(NO_AGENT)?;
    Ok(Json(of_kind(&kind.kind, &base(&app, &headers))).into_response())
}

/// `GET /a2a/{target}/.well-known/agent-card.json`: the card of a kind; with a key, of an agent of the tenant, too.
pub(super) async fn of_target(
    State(app): State<Arc<App>>,
    Path(target): Path<String>,
    headers: HeaderMap,
    ctx: Result<Ctx>,
) -> Result<Response> {
    if let Some(kind) = app.state.agent_types.get(&target).filter(|kind| kind.conversational) {
        return Ok(Json(of_kind(&kind.kind, &base(&app, &headers))).into_response());
    }
    Ok(Json(extended(&ctx?, &target, &headers).await?).into_response())
}

/// The card of a kind or of an agent, for a caller.
///
/// # Errors
/// [`ApiError::NotFound`] when there is neither.
pub(super) async fn extended(ctx: &Ctx, target: &str, headers: &HeaderMap) -> Result<Value> {
    let speaks =
        |kind: &str| ctx.state.agent_types.get(kind).is_some_and(|kind: &AgentType| kind.conversational);
    if speaks(target) {
        return Ok(of_kind(target, &base(ctx, headers)));
    }
    let store = ctx.store();
    let id: AgentId = match target.parse() {
        Ok(id) => id,
        Err(_) => {
            let id = store.id_of_name("agent", target).await?.ok_or(NO_AGENT)?;
            id.parse().map_err(|_| NO_AGENT)?
        }
    };
    let agent = store.agent(id).await?;
    if !agent.enabled || !speaks(&agent.kind) {
        return Err(NO_AGENT);
    }
    let description = match agent.settings.description.as_str() {
        "" => format!("An agent of the kind {}.", agent.kind),
        described => described.to_owned(),
    };
    Ok(card(&agent.id.to_string(), &agent.name, &description, &base(ctx, headers)))
}

fn of_kind(kind: &str, base: &str) -> Value {
    let spoken = kind.replace('_', " ");
    let description =
        format!("Talks with a user; each context is one {spoken}. Work goes on without the client.");
    card(kind, &spoken, &description, base)
}

fn card(target: &str, name: &str, description: &str, base: &str) -> Value {
    let url = format!("{base}/a2a/{target}");
    let interfaces = [TRANSPORT_PROTOCOL_JSONRPC, TRANSPORT_PROTOCOL_HTTP_JSON]
        .map(|binding| json!({"url": url, "protocolBinding": binding, "protocolVersion": VERSION}));
    let bearer = "An API key, a client token, or a JWT of the tenant's issuer.";
    json!({
        "name": name,
        "description": description,
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true},
        "defaultInputModes": [
            "text/plain", "application/json", "image/png", "image/jpeg", "image/webp", "image/gif",
        ],
        "defaultOutputModes": ["text/plain", "text/markdown"],
        "skills": [
            {"id": "converse", "name": name, "description": description, "tags": ["conversation"]},
        ],
        "securitySchemes": {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": bearer}},
        },
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    })
}

/// The address under which clients reach the server: the one in the settings, or else as the request says.
fn base(app: &App, headers: &HeaderMap) -> String {
    if let Some(url) = &app.state.config.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").filter(|host| host.parse::<Authority>().is_ok()).unwrap_or("localhost");
    // A client that lies about this misleads itself: the answer is not cached.
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use houston_protocol::a2a::AgentCard;

    use super::*;

    #[test]
    fn card_is_what_the_official_type_writes() {
        let card = of_kind("user_agent", "https://houston.example").to_string();
        let official: AgentCard = serde_json::from_str(&card).unwrap();
        assert_eq!(serde_json::to_string(&official).unwrap(), card);
    }
}
