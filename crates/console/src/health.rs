//! The checks of the health monitor, and whether this process takes requests.

use askama::Template;
use futures_util::future::{join, join3};
use houston_domain::health::HealthChange;
use houston_protocol::health::{HealthCheckResponse, HealthResponse, ReadinessResponse, VersionResponse};
use houston_protocol::page::Page;

use crate::failure::{Answer, html};
use crate::query::{Pages, Place, Query};
use crate::shell::{HEALTH, Shell};
use crate::show::{self, Fact, Status, When, fact, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "health.html")]
struct Health {
    shell: Shell,
    status: Status,
    checked: When,
    checks: Vec<Check>,
    ready: Vec<Fact>,
    changes: Vec<HealthChange>,
    has_cells: bool,
    pages: Pages,
}

/// A check of the health monitor.
pub(crate) struct Check {
    pub(crate) status: Status,
    pub(crate) name: String,
    pub(crate) since: When,
    /// What was found; empty: it is not known, or not for this viewer.
    pub(crate) detail: String,
}

/// The checks, the worst first.
pub(crate) fn checks(
    health: &HealthResponse,
    changes: &[HealthChange],
    now: chrono::DateTime<chrono::Utc>,
) -> Vec<Check> {
    let mut checks: Vec<_> = health.checks.iter().collect();
    checks.sort_by(|one, other| other.status.cmp(&one.status).then_with(|| one.id.cmp(&other.id)));
    let check = |of: &HealthCheckResponse| Check {
        status: show::severity(of.status),
        name: of.id.replace('_', " "),
        since: show::when(of.since, now),
        detail: found(of, changes),
    };
    checks.into_iter().map(check).collect()
}

/// What the check found when it came to its status, as far as the latest changes say.
fn found(of: &HealthCheckResponse, changes: &[HealthChange]) -> String {
    let change = changes.iter().find(|change| change.check == of.id && change.status == of.status);
    change.and_then(|change| change.detail.clone()).unwrap_or_default()
}

/// `GET {prefix}/health`.
pub(crate) async fn show(viewer: Viewer, Query(Place { cursor }): Query<Place>) -> Answer {
    // The first result of each check is a change: a page has room for those and for some of what came before.
    let path = with_query("/v1/health/history", &[("limit", "50"), ("cursor", &cursor)]);
    let (health, page, ready) = join3(
        viewer.api.get::<HealthResponse>("/v1/health"),
        viewer.api.get::<Page<HealthChange>>(&path),
        ready(&viewer),
    )
    .await;
    let (health, page) = (health?, page?);
    let (now, here) = (viewer.console.now(), viewer.path("/health"));
    Ok(html(&Health {
        shell: viewer.shell(HEALTH, "Health").live_if(cursor.is_empty()),
        status: show::severity(health.status),
        checked: show::when_if(health.checked_at, now),
        // Older changes say nothing about the present status.
        checks: checks(&health, if cursor.is_empty() { &page.data } else { &[] }, now),
        ready,
        has_cells: page.data.iter().any(|of| of.cell.is_some()),
        changes: page.data,
        pages: Pages::of(page.next_cursor, &cursor, &here),
    }))
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
