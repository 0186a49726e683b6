//! The numbers beside the sections. The script asks for them from time to time: no page waits for them.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join3;
use houston_domain::health::HealthStatus;
use houston_domain::scope::Scope;
use houston_protocol::health::HealthResponse;
use houston_protocol::overview::OverviewResponse;
use serde::Serialize;

use crate::show;
use crate::viewer::Viewer;

/// A number beside the section with this path.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Count {
    path: String,
    text: String,
    tone: &'static str,
}

/// `GET {prefix}/counts`.
pub(crate) async fn show(viewer: Viewer) -> Response {
    let mut counts = Vec::new();
    if viewer.may(Scope::Operate) {
        // The lists of runs are those of a tenant, queues and workers those of the installation if the viewer may see them.
        let of_installation = async {
            if viewer.may(Scope::Installation) {
                viewer.api.get::<OverviewResponse>("/v1/overview").await.ok()
            } else {
                None
            }
        };
        let (of_tenant, of_installation, health) = join3(
            viewer.api.get::<OverviewResponse>("/v1/overview?of=tenant"),
            of_installation,
            viewer.api.get::<HealthResponse>("/v1/health"),
        )
        .await;
        let of_tenant = of_tenant.ok();
        counts.extend(of_tenant.iter().flat_map(of_runs));
        let may = viewer.may(Scope::Installation);
        let work = if may { of_installation } else { of_tenant };
        counts.extend(work.iter().flat_map(of_work));
        counts.extend(health.iter().filter_map(of_health));
    }
    for count in &mut counts {
        count.path = viewer.path(&count.path);
    }
    Json(counts).into_response()
}

fn of_runs(of: &OverviewResponse) -> Vec<Count> {
    above_zero(&[
        ("/runs", of.busy, ""),
        ("/errors", of.failed + of.dead_lettered, "bad"),
        ("/waiting", of.waiting, "warn"),
    ])
}

fn of_work(of: &OverviewResponse) -> Vec<Count> {
    above_zero(&[
        ("/queues", of.queued, if of.oldest_age_s >= 60 { "warn" } else { "" }),
        ("/workers", of.workers.map_or(0, |workers| workers.alive), ""),
    ])
}

/// Those that are not 0.
fn above_zero(all: &[(&str, i64, &'static str)]) -> Vec<Count> {
    let some = all.iter().copied().filter(|(_, count, _)| *count > 0);
    some.map(|(path, count, tone)| Count {
        path: path.to_owned(),
        text: show::count(u64::try_from(count).unwrap_or_default()),
        tone,
    })
    .collect()
}

fn of_health(of: &HealthResponse) -> Option<Count> {
    let count = of.checks.iter().filter(|check| check.status != HealthStatus::Ok).count();
    let tone = if of.status == HealthStatus::Red { "bad" } else { "warn" };
    (count > 0).then(|| Count { path: "/health".to_owned(), text: count.to_string(), tone })
}
