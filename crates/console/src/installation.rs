//! What the installation consists of: agents and teams, models, tools of other programs.

use askama::Template;
use futures_util::future::try_join;
use houston_domain::team::Team;
use houston_protocol::agent::AgentResponse;
use houston_protocol::mcp_server::{McpServerList, McpServerResponse};
use houston_protocol::model::{ModelResponse, ModelRoute, ModelsResponse};
use houston_protocol::page::Page;
use houston_protocol::tool_source::{EndpointsList, EndpointsResponse};

use crate::failure::{Answer, html};
use crate::query::{Pages, Place, Query};
use crate::shell::{AGENTS, MODELS, Shell, TOOLS};
use crate::show::with_query;
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "agents.html")]
struct Agents {
    shell: Shell,
    agents: Vec<AgentResponse>,
    pages: Pages,
    teams: Vec<Team>,
}

/// `GET {prefix}/agents`.
pub(crate) async fn agents(viewer: Viewer, Query(Place { cursor }): Query<Place>) -> Answer {
    let path = with_query("/v1/agents", &[("limit", "50"), ("cursor", &cursor)]);
    let (page, teams) = try_join(
        viewer.api.get::<Page<AgentResponse>>(&path),
        viewer.api.get::<Page<Team>>("/v1/teams?limit=100"),
    )
    .await?;
    Ok(html(&Agents {
        shell: viewer.shell(AGENTS, "Agents"),
        agents: page.data,
        pages: Pages::of(page.next_cursor, &cursor, &viewer.path("/agents")),
        teams: teams.data,
    }))
}

#[derive(Template)]
#[template(path = "models.html")]
struct Models {
    shell: Shell,
    models: Vec<ModelResponse>,
    routes: Vec<ModelRoute>,
}

/// `GET {prefix}/models`.
pub(crate) async fn models(viewer: Viewer) -> Answer {
    let all: ModelsResponse = viewer.api.get("/v1/models").await?;
    let shell = viewer.shell(MODELS, "Models");
    Ok(html(&Models { shell, models: all.data, routes: all.routes }))
}

/// A measured time.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

/// A measured speed.
pub(crate) fn speed(tokens_per_s: Option<f64>) -> String {
    tokens_per_s.map(|speed| format!("{speed:.0}")).unwrap_or_default()
}

#[derive(Template)]
#[template(path = "tools.html")]
struct Tools {
    shell: Shell,
    servers: Vec<McpServerResponse>,
    documents: Vec<EndpointsResponse>,
}

/// `GET {prefix}/tools`: MCP servers, and documents of HTTP endpoints.
pub(crate) async fn tools(viewer: Viewer) -> Answer {
    let (servers, documents) = try_join(
        viewer.api.get::<McpServerList>("/v1/mcp-servers"),
        viewer.api.get::<EndpointsList>("/v1/endpoints"),
    )
    .await?;
    Ok(html(&Tools { shell: viewer.shell(TOOLS, "Tools"), servers: servers.data, documents: documents.data }))
}
