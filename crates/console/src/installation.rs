//! What the installation consists of: agents and teams, models, tools of other programs.

use askama::Template;
use futures_util::future::try_join;
use houston_protocol::agent::AgentResponse;
use houston_protocol::mcp_server::McpServerList;
use houston_protocol::model::{ModelResponse, ModelsResponse};
use houston_protocol::page::Page;
use houston_protocol::tool_source::EndpointsList;
use rust_decimal::Decimal;

use crate::failure::{Answer, html};
use crate::query::{Pages, Place, Query};
use crate::shell::{Section, Shell};
use crate::show::{self, Status, When, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "agents.html")]
struct Agents {
    shell: Shell,
    agents: Vec<Agent>,
    pages: Pages,
    teams: Vec<Team>,
}

struct Agent {
    status: Status,
    href: String,
    name: String,
    kind: String,
    is_default: bool,
    changed: bool,
    description: String,
    model: String,
    tools: String,
    at: When,
}

struct Team {
    name: String,
    kind: String,
    agents: String,
    description: String,
}

/// `GET {prefix}/agents`.
pub(crate) async fn agents(viewer: Viewer, Query(Place { cursor }): Query<Place>) -> Answer {
    let path = with_query("/v1/agents", &[("limit", "50"), ("cursor", &cursor)]);
    let (page, teams) = try_join(
        viewer.api.get::<Page<AgentResponse>>(&path),
        viewer.api.get::<Page<houston_domain::team::Team>>("/v1/teams?limit=100"),
    )
    .await?;
    let (now, here) = (viewer.console.now(), viewer.path("/agents"));
    let agent = |of: AgentResponse| Agent {
        status: show::switch(of.enabled, "enabled", "disabled"),
        href: viewer.path(&format!("/agents/{}", of.id)),
        name: of.name,
        kind: of.kind,
        is_default: of.is_default,
        changed: of.is_default && of.changed,
        description: show::line(&of.description, 160),
        model: match (of.provider.as_str(), of.model.as_str()) {
            ("default", "default") => format!("that of {}", of.use_case),
            (provider, model) => format!("{provider}/{model}"),
        },
        tools: of.tools.len().to_string(),
        at: show::when(of.updated_at, now),
    };
    let team = |of: houston_domain::team::Team| Team {
        name: of.name,
        kind: of.kind,
        agents: of.agents.len().to_string(),
        description: show::line(&of.description, 160),
    };
    Ok(html(&Agents {
        shell: viewer.shell(Section::Agents, "Agents"),
        agents: page.data.into_iter().map(agent).collect(),
        pages: Pages::of(page.next_cursor, &cursor, &here),
        teams: teams.data.into_iter().map(team).collect(),
    }))
}

#[derive(Template)]
#[template(path = "models.html")]
struct Models {
    shell: Shell,
    models: Vec<Model>,
    routes: Vec<Route>,
}

struct Model {
    id: String,
    simulated: bool,
    use_cases: String,
    input: String,
    output: String,
    context: String,
    calls: String,
    first: String,
    speed: String,
    retires: String,
}

struct Route {
    use_case: String,
    strategy: String,
    models: String,
}

/// `GET {prefix}/models`.
pub(crate) async fn models(viewer: Viewer) -> Answer {
    let all: ModelsResponse = viewer.api.get("/v1/models").await?;
    let route = |of: houston_protocol::model::ModelRoute| Route {
        use_case: of.use_case,
        strategy: format!("{:?}", of.strategy).to_lowercase(),
        models: of.models.join(", "),
    };
    Ok(html(&Models {
        shell: viewer.shell(Section::Models, "Models"),
        models: all.data.into_iter().map(model).collect(),
        routes: all.routes.into_iter().map(route).collect(),
    }))
}

fn model(of: ModelResponse) -> Model {
    let price = |price: fn(&houston_protocol::model::ModelPrice) -> Decimal| {
        of.price.as_ref().map(|all| format!("${}", price(all).normalize())).unwrap_or_default()
    };
    let measured = of.measured.as_ref();
    Model {
        input: price(|price| price.input),
        output: price(|price| price.output),
        simulated: of.simulated,
        use_cases: of.use_cases.join(", "),
        context: of.limits.context_window.map(show::count).unwrap_or_default(),
        calls: measured.map(|of| show::count(of.calls)).unwrap_or_default(),
        first: measured.map(|of| milliseconds(of.first_event_ms)).unwrap_or_default(),
        speed: measured.and_then(|of| of.tokens_per_s).map(|speed| format!("{speed:.0}")).unwrap_or_default(),
        retires: of.retires_on.unwrap_or_default(),
        id: of.id,
    }
}

/// A measured time.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

#[derive(Template)]
#[template(path = "tools.html")]
struct Tools {
    shell: Shell,
    servers: Vec<Server>,
    documents: Vec<Document>,
}

struct Server {
    status: Status,
    name: String,
    url: String,
    kinds: String,
    tools: String,
    login: String,
}

struct Document {
    name: String,
    kinds: String,
    tools: String,
    missing: String,
    at: When,
}

/// `GET {prefix}/tools`: MCP servers, and documents of HTTP endpoints.
pub(crate) async fn tools(viewer: Viewer) -> Answer {
    let (servers, documents) = try_join(
        viewer.api.get::<McpServerList>("/v1/mcp-servers"),
        viewer.api.get::<EndpointsList>("/v1/endpoints"),
    )
    .await?;
    let now = viewer.console.now();
    let server = |of: houston_protocol::mcp_server::McpServerResponse| Server {
        status: show::switch(of.enabled, "enabled", "disabled"),
        name: of.name,
        url: of.url,
        kinds: of.kinds.join(", "),
        tools: of.offered.len().to_string(),
        login: of.login.unwrap_or_default().replace('_', " "),
    };
    let document = |of: houston_protocol::tool_source::EndpointsResponse| Document {
        name: of.name,
        kinds: of.kinds.join(", "),
        tools: of.tools.join(", "),
        missing: of.missing_secrets.join(", "),
        at: show::when(of.updated_at, now),
    };
    Ok(html(&Tools {
        shell: viewer.shell(Section::Tools, "Tools"),
        servers: servers.data.into_iter().map(server).collect(),
        documents: documents.data.into_iter().map(document).collect(),
    }))
}
