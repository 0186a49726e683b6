//! The console: pages on which operators see and steer an installation, rendered on the server from what the API answers.
//!
//! [`Console::over`] adds it to the routes of the API, [`Console::alone`] makes routes for an address of its own. Each page
//! sends requests to the API within the process (`api`), with the key that its viewer has signed in with (`session`):
//! what a viewer may not do is not offered, and the API refuses it.
//!
//! # Invariants
//! - It imports neither the store nor the API: it can show and do nothing that a program with the same key cannot.
//! - Texts come from users, models and tools. Templates escape them, none is marked as safe, and scripts set only text. The
//!   policy of each page (`headers`) allows no script and no style but the console's own files.
//! - A POST from another site is refused (`origin`); the cookie is not sent with one either.
//! - Who signs in with an identity provider (`oidc`) gets an API key of their own, with their name, the scopes of their
//!   group, and the life of the session. The process makes it ([`Outside`]); from then on they are a viewer like any other.
//! - The cookie has the viewer's key, sealed with a key of the installation: every process opens it, also after a restart, and
//!   nothing is stored. Signing out removes the cookie, and revokes the key if it was made for the session; revoking a key ends
//!   all sessions of it.
//! - Lists are pages of the API's lists; no page grows with the installation. Cells that are missing in any answer of which a
//!   page consists are named at its beginning (`api`).
//! - Lists and forms work without JavaScript. What refreshes by itself does so by asking for the same page again.
//!
//! # Deliberately absent
//! State of its own, a second set of endpoints, a JavaScript build: the files in `assets/` are sent as they are. Libraries
//! among them are unchanged, with their licences beside them.
//!
//! # Add a page
//! 1. A template in `templates/` that extends `page.html`. Rows of tables are what the API answers; how times, costs and
//!    durations look is in `show`, which templates call.
//! 2. A file with the handler: it takes a `Viewer`, asks the API, and fills the template. What the API refuses, the handler
//!    returns (`failure`).
//! 3. A line in `routes` and a `Section`, and the page in the tests of the console in
//!    `crates/cli/tests/clients`, which look at each in a browser.

mod agents;
mod api;
mod assets;
mod audit;
mod call;
mod chart;
mod config;
mod failure;
mod headers;
mod health;
mod installation;
mod keys;
mod kinds;
mod oidc;
mod overview;
mod query;
mod questions;
mod router;
mod run;
mod runs;
mod session;
mod shell;
mod show;
mod sign_in;
mod threads;
mod triggers;
mod usage;
mod users;
mod viewer;
mod waterfall;
mod webhooks;
mod why;
mod work;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::http::Extensions;
use axum::middleware::from_fn;
use axum::response::Redirect;
use axum::routing::get;
use chrono::{DateTime, Utc};
use houston_domain::id::Ids;
use houston_domain::sealed::SecretKeys;
use secrecy::SecretString;
use uuid::Uuid;

use crate::assets::Assets;
use crate::oidc::provider::Provider;
use crate::sign_in::Links;

pub use config::Config;
pub use oidc::settings::{Group, Oidc, Role};
pub use oidc::{Awaited, KEY_OF, Outside, Question, Reply, WantedKey};

/// The console of a process.
#[derive(Clone)]
pub struct Console(Arc<Parts>);

/// The console, with the API that it asks.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) console: Console,
    pub(crate) api: Router,
}

struct Parts {
    config: Config,
    keys: Option<SecretKeys>,
    ids: Arc<Ids>,
    carry: Carry,
    links: Links,
    provider: Option<Provider>,
    assets: Assets,
}

/// Copies what the API knows of a connection from a request to one that is sent in its name.
pub type Carry = fn(&Extensions, &mut Extensions);

impl Console {
    /// `keys` seal the sessions; without them there is no signing in, and the page says so. `outside`, with the secret that the
    /// provider has given to the console, is for those who sign in with a provider.
    pub fn new(
        config: Config,
        keys: Option<SecretKeys>,
        ids: Arc<Ids>,
        carry: Carry,
        outside: Option<(Arc<dyn Outside>, Option<SecretString>)>,
    ) -> Self {
        let assets = Assets::new(&config.path);
        let provider = outside
            .filter(|_| config.oidc.is_on())
            .map(|(outside, secret)| Provider::new(outside, secret, &config));
        Self(Arc::new(Parts { config, keys, ids, carry, links: Links::default(), provider, assets }))
    }

    /// The path of a link that signs in once, with this key, within ten minutes.
    pub fn link(&self, key: &str) -> String {
        let token = self.0.links.make(&self.0.ids, key);
        format!("{}/sign-in/{token}", self.0.config.path)
    }

    /// The routes of the API, and the console's.
    pub fn over(&self, api: Router) -> Router {
        api.clone().merge(router::routes(self, api))
    }

    /// The console's routes only; the root leads to them.
    pub fn alone(&self, api: Router) -> Router {
        let to = self.path("");
        let root = get(move || async move { Redirect::to(&to) });
        router::routes(self, api).route("/", root.layer(from_fn(headers::add)))
    }

    /// A text that no other form has.
    fn form_key(&self) -> String {
        self.0.ids.next::<Uuid>().simple().to_string()
    }

    fn now(&self) -> DateTime<Utc> {
        self.0.ids.clock().now()
    }

    /// The path of a page of the console.
    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.0.config.path)
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("config", &self.0.config).finish_non_exhaustive()
    }
}
