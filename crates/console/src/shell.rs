//! What surrounds every page: the sections, who is signed in, and how often the page refreshes itself. The numbers beside the
//! sections: the script asks for them from time to time, and no page waits for them.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use futures_util::future::{OptionFuture, join3};
use houston_domain::health::HealthStatus;
use houston_domain::scope::Scope;
use houston_protocol::health::HealthResponse;
use houston_protocol::overview::OverviewResponse;
use houston_protocol::time::Time;
use serde::Serialize;

use crate::api::MissingCells;
use crate::assets::Assets;
use crate::show::{self, Choice, Status, When};
use crate::viewer::Viewer;

/// A section of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    name: &'static str,
    path: &'static str,
    /// The scope without which it would be empty.
    scope: Scope,
}

const fn section(name: &'static str, path: &'static str, scope: Scope) -> Section {
    Section { name, path, scope }
}

pub(crate) const OVERVIEW: Section = section("Overview", "", Scope::Read);
pub(crate) const RUNS: Section = section("Runs", "/runs", Scope::Operate);
pub(crate) const ERRORS: Section = section("Errors", "/errors", Scope::Operate);
pub(crate) const WAITING: Section = section("Waiting", "/waiting", Scope::Read);
pub(crate) const THREADS: Section = section("Threads", "/threads", Scope::Read);
pub(crate) const USERS: Section = section("Users", "/users", Scope::Read);
pub(crate) const SCHEDULES: Section = section("Schedules", "/schedules", Scope::Read);
pub(crate) const USAGE: Section = section("Usage", "/usage", Scope::Operate);
pub(crate) const QUEUES: Section = section("Queues", "/queues", Scope::Operate);
pub(crate) const WORKERS: Section = section("Workers", "/workers", Scope::Installation);
pub(crate) const HEALTH: Section = section("Health", "/health", Scope::Operate);
pub(crate) const AGENTS: Section = section("Agents", "/agents", Scope::Read);
pub(crate) const KINDS: Section = section("Kinds", "/kinds", Scope::Read);
pub(crate) const MODELS: Section = section("Models", "/models", Scope::Read);
pub(crate) const TOOLS: Section = section("Tools", "/tools", Scope::Read);
pub(crate) const WEBHOOKS: Section = section("Webhooks", "/webhooks", Scope::Operate);
pub(crate) const KEYS: Section = section("Keys", "/keys", Scope::Admin);
pub(crate) const AUDIT: Section = section("Audit log", "/audit", Scope::Operate);

const WORK: &[Section] = &[OVERVIEW, RUNS, ERRORS, WAITING, THREADS, USERS, SCHEDULES, USAGE];
const INSTALLATION: &[Section] =
    &[QUEUES, WORKERS, HEALTH, AGENTS, KINDS, MODELS, TOOLS, WEBHOOKS, KEYS, AUDIT];

/// What `page.html` reads.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) title: String,
    pub(crate) prefix: String,
    pub(crate) badge: String,
    pub(crate) assets: Assets,
    /// A word for what the viewer may do, and the scopes.
    pub(crate) role: &'static str,
    pub(crate) scopes: String,
    pub(crate) groups: Vec<Group>,
    /// Sentences at the beginning of the page: what was done, or what is missing.
    pub(crate) notes: Vec<Status>,
    pub(crate) missing: MissingCells,
    pub(crate) now: DateTime<Utc>,
    pub(crate) live: bool,
    pub(crate) charts: bool,
    pub(crate) every_s: u32,
}

/// Links under one heading.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) links: Vec<Choice>,
}

impl Viewer {
    /// The frame of a page.
    pub(crate) fn shell(&self, section: Section, title: impl Into<String>) -> Shell {
        let config = &self.console.0.config;
        let links = |sections: &[Section]| {
            let link = |of: &Section| {
                let (name, current) = (of.name.to_owned(), *of == section);
                Choice { href: self.path(of.path), name, current }
            };
            sections.iter().filter(|of| self.may(of.scope)).map(link).collect()
        };
        Shell {
            title: title.into(),
            prefix: config.path.clone(),
            badge: config.badge.clone(),
            assets: self.console.0.assets.clone(),
            role: self.role(),
            scopes: self.scopes.to_string(),
            groups: vec![
                Group { name: "", links: links(WORK) },
                Group { name: "Installation", links: links(INSTALLATION) },
            ],
            notes: Vec::new(),
            missing: self.api.missing.clone(),
            now: self.console.now(),
            live: false,
            charts: false,
            every_s: config.refresh_s,
        }
    }

    /// The path of a page.
    pub(crate) fn path(&self, rest: &str) -> String {
        self.console.path(rest)
    }
}

impl Shell {
    /// An instant, for the macro `time`.
    pub(crate) fn when(&self, at: Time) -> When {
        show::when(at, self.now)
    }

    /// An instant, for the macro `maybe`.
    pub(crate) fn maybe(&self, at: Option<Time>) -> When {
        show::when_if(at, self.now)
    }

    /// The page refreshes itself.
    pub(crate) fn live(self) -> Self {
        self.live_if(true)
    }

    /// The page refreshes itself, if what it shows changes by itself: an older page of a list does not.
    pub(crate) fn live_if(self, live: bool) -> Self {
        Self { live, ..self }
    }

    /// The page has charts.
    pub(crate) fn with_charts(self) -> Self {
        Self { charts: true, ..self }
    }

    /// The page begins with a sentence, if there is one.
    pub(crate) fn noting(mut self, tone: &'static str, text: Option<&str>) -> Self {
        self.notes.extend(text.map(|text| Status { tone, text: text.to_owned() }));
        self
    }
}

/// A number beside the section with this path.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Count {
    path: String,
    text: String,
    tone: &'static str,
}

/// `GET {prefix}/counts`.
pub(crate) async fn counts(viewer: Viewer) -> Response {
    let mut counts = Vec::new();
    if viewer.may(Scope::Operate) {
        // The lists of runs are those of a tenant, queues and workers those of the installation if the viewer may see them.
        let may = viewer.may(Scope::Installation);
        let of_installation = may.then(|| viewer.api.get::<OverviewResponse>("/v1/overview"));
        let (of_tenant, of_installation, health) = join3(
            viewer.api.get::<OverviewResponse>("/v1/overview?of=tenant"),
            OptionFuture::from(of_installation),
            viewer.api.get::<HealthResponse>("/v1/health"),
        )
        .await;
        counts.extend(of_tenant.iter().flat_map(of_runs).flatten());
        counts.extend(of_installation.unwrap_or(of_tenant).iter().flat_map(of_work).flatten());
        counts.extend(health.iter().filter_map(of_health));
    }
    for count in &mut counts {
        count.path = viewer.path(&count.path);
    }
    Json(counts).into_response()
}

fn of_runs(of: &OverviewResponse) -> [Option<Count>; 3] {
    [
        above_zero("/runs", of.busy, ""),
        above_zero("/errors", of.failed + of.dead_lettered, "bad"),
        above_zero("/waiting", of.waiting, "warn"),
    ]
}

fn of_work(of: &OverviewResponse) -> [Option<Count>; 2] {
    [
        above_zero("/queues", of.queued, if of.oldest_age_s >= 60 { "warn" } else { "" }),
        above_zero("/workers", of.workers.map_or(0, |workers| workers.alive), ""),
    ]
}

/// The count, unless it is 0.
fn above_zero(path: &str, count: i64, tone: &'static str) -> Option<Count> {
    (count > 0).then(|| Count { path: path.to_owned(), text: show::count(count), tone })
}

fn of_health(of: &HealthResponse) -> Option<Count> {
    let count = of.checks.iter().filter(|check| check.status != HealthStatus::Ok).count();
    let tone = if of.status == HealthStatus::Red { "bad" } else { "warn" };
    (count > 0).then(|| Count { path: "/health".to_owned(), text: count.to_string(), tone })
}
