//! What surrounds every page: the sections, who is signed in, and how often the page refreshes itself.

use houston_domain::scope::Scope;

use crate::api::MissingCells;
use crate::assets::Assets;
use crate::viewer::Viewer;

/// A section of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Runs,
    Waiting,
    Errors,
    Threads,
    Users,
    Schedules,
    Usage,
    Queues,
    Workers,
    Health,
    Agents,
    Kinds,
    Models,
    Tools,
    Webhooks,
    Keys,
    Audit,
}

/// Its name, its path, and the scope without which it would be empty.
type Entry = (Section, &'static str, &'static str, Scope);

const WORK: &[Entry] = &[
    (Section::Overview, "Overview", "", Scope::Read),
    (Section::Runs, "Runs", "/runs", Scope::Operate),
    (Section::Errors, "Errors", "/errors", Scope::Operate),
    (Section::Waiting, "Waiting", "/waiting", Scope::Read),
    (Section::Threads, "Threads", "/threads", Scope::Read),
    (Section::Users, "Users", "/users", Scope::Read),
    (Section::Schedules, "Schedules", "/schedules", Scope::Read),
    (Section::Usage, "Usage", "/usage", Scope::Operate),
];
const INSTALLATION: &[Entry] = &[
    (Section::Queues, "Queues", "/queues", Scope::Operate),
    (Section::Workers, "Workers", "/workers", Scope::Installation),
    (Section::Health, "Health", "/health", Scope::Operate),
    (Section::Agents, "Agents", "/agents", Scope::Read),
    (Section::Kinds, "Kinds", "/kinds", Scope::Read),
    (Section::Models, "Models", "/models", Scope::Read),
    (Section::Tools, "Tools", "/tools", Scope::Read),
    (Section::Webhooks, "Webhooks", "/webhooks", Scope::Operate),
    (Section::Keys, "Keys", "/keys", Scope::Admin),
    (Section::Audit, "Audit log", "/audit", Scope::Operate),
];

/// What `page.html` reads.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) title: String,
    pub(crate) prefix: String,
    pub(crate) badge: String,
    pub(crate) assets: Assets,
    pub(crate) viewer: Who,
    pub(crate) groups: Vec<Group>,
    pub(crate) notes: Vec<Note>,
    pub(crate) missing: MissingCells,
    pub(crate) live: bool,
    pub(crate) charts: bool,
    pub(crate) every_s: u32,
}

#[derive(Debug)]
pub(crate) struct Who {
    pub(crate) role: &'static str,
    pub(crate) scopes: String,
}

/// Links under one heading.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) links: Vec<Link>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) href: String,
    pub(crate) current: bool,
}

/// A sentence at the beginning of a page: what was done, or what is missing.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) tone: &'static str,
    pub(crate) text: String,
}

impl Viewer {
    /// The frame of a page.
    pub(crate) fn shell(&self, section: Section, title: impl Into<String>) -> Shell {
        let config = &self.console.0.config;
        let links = |entries: &[Entry]| {
            let allowed = entries.iter().filter(|(_, _, _, scope)| self.may(*scope));
            allowed
                .map(|(of, name, path, _)| Link { name, href: self.path(path), current: *of == section })
                .collect()
        };
        Shell {
            title: title.into(),
            prefix: config.path.clone(),
            badge: config.badge.clone(),
            assets: self.console.assets().clone(),
            viewer: Who { role: self.role(), scopes: self.scopes() },
            groups: vec![
                Group { name: "", links: links(WORK) },
                Group { name: "Installation", links: links(INSTALLATION) },
            ],
            notes: Vec::new(),
            missing: self.api.missing.clone(),
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
    /// The page refreshes itself.
    pub(crate) fn live(self) -> Self {
        Self { live: true, ..self }
    }

    /// The page has charts.
    pub(crate) fn with_charts(self) -> Self {
        Self { charts: true, ..self }
    }

    /// The page begins with a sentence, if there is one.
    pub(crate) fn noting(mut self, tone: &'static str, text: Option<&str>) -> Self {
        self.notes.extend(text.map(|text| Note { tone, text: text.to_owned() }));
        self
    }
}
