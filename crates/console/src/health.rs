//! The checks of the health monitor, and whether this process takes requests.

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join;
use houston_protocol::health::{HealthResponse, ReadinessResponse, VersionResponse};

use crate::shell::{Section, Shell, html};
use crate::show::{self, Fact, Status, When, fact};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "health.html")]
struct Health {
    shell: Shell,
    status: Status,
    checked: When,
    checks: Vec<Check>,
    ready: Vec<Fact>,
}

/// A check of the health monitor.
pub(crate) struct Check {
    pub(crate) status: Status,
    pub(crate) name: String,
    pub(crate) since: When,
}

/// The checks, the worst first.
pub(crate) fn checks(health: &HealthResponse, now: chrono::DateTime<chrono::Utc>) -> Vec<Check> {
    let mut checks: Vec<_> = health.checks.iter().collect();
    checks.sort_by(|one, other| other.status.cmp(&one.status).then_with(|| one.id.cmp(&other.id)));
    let check = |of: &houston_protocol::health::HealthCheckResponse| Check {
        status: show::severity(of.status),
        name: of.id.replace('_', " "),
        since: show::when(of.since, now),
    };
    checks.into_iter().map(check).collect()
}

/// `GET {prefix}/health`.
pub(crate) async fn show(viewer: Viewer) -> Response {
    let (health, ready) = join(viewer.api.get::<HealthResponse>("/v1/health"), ready(&viewer)).await;
    let health = match health {
        Ok(health) => health,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    let now = viewer.console.now();
    html(&Health {
        shell: viewer.shell(Section::Health, "Health").live(),
        status: show::severity(health.status),
        checked: show::when_if(health.checked_at, now),
        checks: checks(&health, now),
        ready,
    })
}

async fn ready(viewer: &Viewer) -> Vec<Fact> {
    let (ready, version) =
        join(viewer.api.get::<ReadinessResponse>("/readyz"), viewer.api.get::<VersionResponse>("/version"))
            .await;
    let mut facts = Vec::new();
    if let Ok(ready) = ready {
        facts.extend([
            fact("This process", ready.status.replace('_', " ")),
            fact("Postgres", ready.checks.postgres),
            fact("Schema", ready.checks.schema),
            fact("Disk", ready.checks.disk),
            fact("Redis", ready.checks.redis),
            fact("Draining", if ready.draining { "yes" } else { "no" }),
        ]);
    }
    if let Ok(version) = version {
        facts.push(fact("Release", version.version));
    }
    facts
}
