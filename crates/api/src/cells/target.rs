//! Which cells answer a request, as its method and address say.

use axum::http::{Method, Uri};
use houston_domain::id::{Shard, shard};
use uuid::Uuid;

use crate::page::List;

/// Which cells answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The cell with this shard.
    Of(Shard),
    /// The home.
    Home,
    /// Any: it asks the others, or begins what continues in the cell of a user.
    Any,
    /// All, merged into one page.
    Page(List),
    /// All, merged into one report.
    Health,
    /// The first that is ready.
    Ready,
    /// The home, which may change something that all cells have a copy of.
    Copied,
}

impl Target {
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
        let segments: Vec<&str> = uri.path().split('/').skip(1).collect();
        let reads = method == Method::GET;
        match segments.as_slice() {
            ["readyz"] => Self::Ready,
            ["v1", "health"] if reads => Self::Health,
            // Their lists create missing default agents.
            ["v1", "agents" | "kinds"] => Self::Copied,
            // Each cell has a copy.
            ["v1", "agents" | "teams" | "endpoints" | "keys" | "skills", ..] | ["v1", "guards"] if reads => {
                Self::Any
            }
            ["v1", "webhooks"] | ["v1", "webhooks", _] if reads => Self::Any,
            // Those of the settings.
            ["v1", "models", ..] => Self::Any,
            ["v1", "agents" | "kinds" | "teams" | "endpoints" | "keys" | "mcp-servers" | "skills", ..]
            | ["v1", "guards"] => Self::Copied,
            ["v1", "webhooks", _, "deliveries"] => Self::Page(List::Deliveries),
            ["v1", "webhooks", _, "deliveries", delivery, ..] => {
                id(delivery).map_or(Self::Home, |id| Self::Of(shard(id)))
            }
            ["v1", "webhooks", _, "replay" | "test"] => Self::Home,
            ["v1", "webhooks", ..] => Self::Copied,
            // Their handlers ask all cells.
            ["v1", "audit" | "errors" | "overview" | "queues" | "usage" | "workers", ..]
            | ["v1", "runs" | "triggers"]
            | ["v1", "health", "history"]
                if reads =>
            {
                Self::Any
            }
            // Some of these need all cells: their 503 says nothing about the cell where they begin.
            ["v1", "audit" | "errors" | "overview" | "queues" | "usage" | "workers", ..]
            | ["v1", "runs", "cancel" | "retry"]
            | ["v1", "events"] => Self::Home,
            ["v1", "inbound-hooks" | "key"] => Self::Any,
            ["hooks", hook] => id(hook).map_or(Self::Home, |id| Self::Of(shard(id))),
            ["v1", "client-tokens", ..] => Self::Home,
            ["v1", "users"] if reads => Self::Page(List::Users),
            ["v1", "erasures"] if reads => Self::Page(List::Erasures),
            ["v1", resource] if reads => {
                let user = parameter(uri, "user_id").and_then(|user| id(&user));
                let list = if *resource == "questions" { List::Questions } else { List::Agentables };
                user.map_or(Self::Page(list), |user| Self::Of(shard(user)))
            }
            // Creates a user, or something for a user that the body names.
            ["v1", _] | ["v1", "import", _] | ["v1", _, "import"] if method == Method::POST => Self::Any,
            ["approve", named, ..] | ["v1", _, named, ..] => {
                id(named).map_or(Self::Home, |id| Self::Of(shard(id)))
            }
            ["compat", "openai", "v1", _, named, ..] => id(named).map_or(Self::Any, |id| Self::Of(shard(id))),
            // What they name, or the user, says where they continue.
            ["compat" | "ag-ui" | "a2a", ..] => Self::Any,
            ["mcp", "login"] => {
                let state = parameter(uri, "state");
                let user = state.as_deref().and_then(|state| id(state.split('.').next()?));
                user.map_or(Self::Home, |user| Self::Of(shard(user)))
            }
            _ => Self::Home,
        }
    }
}

/// The UUID of a public id such as `goal_0190…`.
pub(super) fn id(segment: &str) -> Option<Uuid> {
    let (_, digits) = segment.rsplit_once('_')?;
    (digits.len() == 32).then(|| Uuid::try_parse(digits).ok()).flatten()
}

/// A parameter of the query. Ids and numbers need no decoding.
pub(super) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_owned())
}
