//! The argument of commands about one agent: an id of any kind, found in any tenant.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use houston_api::Local;
use houston_domain::agentable::AgentType;
use houston_domain::cell::Cells;
use houston_domain::id::{AgentableId, UserId, parse_prefixed};
use houston_store::{Error, Store};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;
use uuid::Uuid;

use super::{Context, Failure, Result, audit, runtime};
use crate::config::Loaded;
use crate::connect::{self, Addresses, CellAddresses};
use crate::explain::Explainer;
use crate::output::{print, print_json, sanitized};
use crate::system::System;

/// What lists users.
pub(crate) const USERS: &str = "`houston list users` prints the existing ids";

/// Seconds that a request of a command may take.
const PATIENCE_S: u64 = 24 * 60 * 60;
/// A skill with its files is the longest.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// The agent of a command.
#[derive(Debug, Args)]
pub(crate) struct AgentArg {
    /// The id of an agent: `goal_…`, `task_…`, `user_agent_…`, or of a custom kind
    id: String,
}

impl Context {
    /// Opens the databases of all cells (that of DATABASE_URL, else that of `houston dev` in the folder) and runs `work` with them.
    pub(crate) fn with_stores<T>(self, work: impl AsyncFnOnce(Self, Cells<Store>) -> Result<T>) -> Result<T> {
        self.with_databases(async |stores, _| {
            connect::check_schemas(stores).await?;
            connect::follow_moves(stores).await;
            work(self.clone(), stores.clone()).await
        })
    }

    /// As [`Self::with_stores`], whatever the schemas of the databases are.
    pub(crate) fn with_databases<T>(
        &self,
        work: impl AsyncFnOnce(&Cells<Store>, &Addresses) -> Result<T>,
    ) -> Result<T> {
        let addresses = connect::existing(&self.loaded.settings, &self.folder, false)?;
        runtime()?.block_on(async {
            let stores = connect::reach_all(&self.loaded.settings, &addresses).await?;
            let done = work(&stores, &addresses).await;
            connect::close(&stores).await;
            done
        })
    }

    /// As [`Self::with_stores`]; `work` gets the API.
    pub(crate) fn with_api<T>(self, work: impl AsyncFnOnce(Api) -> Result<T>) -> Result<T> {
        self.with_stores(async |mut context, stores| {
            // The limits on clients are not for the operator, who waits, and sends what no other does.
            let server = &mut context.loaded.settings.server;
            (server.request_timeout_s, server.conversation.timeout_s) = (PATIENCE_S, PATIENCE_S);
            server.max_body_bytes = server.max_body_bytes.max(MAX_BODY_BYTES);
            let explainer = Arc::new(Explainer::new(context.loaded.clone(), context.registry));
            let system = System::new(context.loaded, &stores, &stores.map(|_| CellAddresses::default()))?;
            let principal = stores.home().operator().principal(Uuid::nil().into());
            let states = system.cells.map(|cell| system.api_state(cell, &explainer));
            let local = Local::new(&states, &audit::actor(), principal);
            let done = work(Api { stores, local }).await;
            system.close_quickly().await;
            done
        })
    }
}

/// The API within this process: its routes over the databases of all cells. It needs no server, and no key.
pub(crate) struct Api {
    stores: Cells<Store>,
    local: Local,
}

impl Api {
    /// For the tenant that has the thing with this id. `others`: what says which there are.
    ///
    /// # Errors
    /// [`Failure::Other`] when there is none.
    pub(crate) async fn of(&self, id: impl Into<Uuid> + Copy + Display, others: &str) -> Result<Local> {
        self.find(id).await?.ok_or_else(|| Failure::Other(anyhow!("there is no {id}; {others}")))
    }

    /// For the tenant of an agent, a run or a message, by its public id.
    ///
    /// # Errors
    /// [`Failure::Other`] when there is none.
    pub(crate) async fn of_named(&self, id: impl Into<Uuid>, named: &str) -> Result<Local> {
        self.find(id).await?.ok_or_else(|| Failure::Other(missing(named)))
    }

    /// For the tenant that has the thing with this id; `None`: there is none.
    ///
    /// # Errors
    /// [`Failure::Other`] when Postgres fails.
    pub(crate) async fn find(&self, id: impl Into<Uuid>) -> Result<Option<Local>> {
        let id = id.into();
        let operator = self.stores.of(id).operator();
        let tenant = operator.tenant_of_thing(id).await?;
        Ok(tenant.map(|tenant| self.local.for_tenant(operator.principal(tenant))))
    }

    /// For what belongs to no tenant.
    pub(crate) fn of_installation(&self) -> &Local {
        &self.local
    }

    /// For the tenant of this name; `None`: there is none.
    ///
    /// # Errors
    /// [`Failure::Other`] when Postgres fails.
    pub(crate) async fn of_tenant(&self, name: &str) -> Result<Option<Local>> {
        let operator = self.stores.home().operator();
        match operator.tenant_named(name).await {
            Err(Error::NotFound { .. }) => Ok(None),
            found => Ok(Some(self.local.for_tenant(operator.principal(found?)))),
        }
    }
}

impl AgentArg {
    /// Finds the agent's tenant, and runs `work` with its API and the path of the agent.
    pub(crate) fn with_api(
        self,
        context: Context,
        work: impl AsyncFnOnce(Local, &str) -> Result<()>,
    ) -> Result<()> {
        let (kind, id) = parse(&context.loaded, &self.id).map_err(Failure::Usage)?;
        context.with_api(async |api| {
            let path = format!("/v1/{kind}s/{}", id.public_id(&kind));
            let done = work(api.of_named(id, &self.id).await?, &path).await;
            done.map_err(|error| error.or_missing(|| missing(&self.id)))
        })
    }

    /// The agent type of its kind.
    pub(crate) fn agent_type<'l>(&self, loaded: &'l Loaded) -> Result<&'l AgentType> {
        let (kind, _) = parse(loaded, &self.id).map_err(Failure::Usage)?;
        agent_type(loaded, &kind)
    }
}

/// The id and the title of an agentable as the API shows it; a plan has its goal in the place of a title.
pub(crate) fn heading(shown: &Value) -> String {
    let title = shown.pointer("/document/goal").and_then(Value::as_str).or(shown["title"].as_str());
    format!("{}  {}", shown["id"].as_str().unwrap_or_default(), title.unwrap_or_default())
}

/// What is said of an agent, a run or a message that does not exist.
pub(crate) fn missing(id: &str) -> anyhow::Error {
    anyhow!("there is no {id}; `houston list` prints the existing ids")
}

/// The agent type of this name.
pub(crate) fn agent_type<'l>(loaded: &'l Loaded, kind: &str) -> Result<&'l AgentType> {
    let found = loaded.kinds.get(kind).map(|kind| &kind.agent_type);
    found.ok_or_else(|| {
        Failure::Usage(anyhow!("there is no agent type `{kind}`; there are: {}", kinds(loaded)))
    })
}

fn kinds(loaded: &Loaded) -> String {
    loaded.kinds.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Parses an id like `goal_…` into its kind and its UUID.
pub(crate) fn parse(loaded: &Loaded, given: &str) -> anyhow::Result<(String, AgentableId)> {
    let kind = given.rsplit_once('_').map(|(kind, _)| kind).filter(|kind| loaded.kinds.contains_key(*kind));
    let Some(kind) = kind else {
        let shown: String = given.chars().take(80).collect();
        anyhow::bail!(
            "`{shown}` is no agent id: an id begins with its kind, as in goal_…; kinds are: {}; `houston list` prints the \
             existing ids",
            kinds(loaded)
        );
    };
    Ok((kind.to_owned(), parse_prefixed(kind, given)?.into()))
}

/// The lines of a table. Each column is as wide as its widest cell; the last one is not padded.
pub(crate) fn table<C: AsRef<str>, R: AsRef<[C]>>(heads: &[&str], rows: &[R]) -> Vec<String> {
    let mut widths: Vec<usize> = heads.iter().map(|cell| cell.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row.as_ref()) {
            *width = (*width).max(cell.as_ref().width());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded =
            cells.zip(&widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width())));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows.iter().map(|row| line(&mut row.as_ref().iter().map(AsRef::as_ref)));
    std::iter::once(line(&mut heads.iter().copied())).chain(body).collect()
}

/// Prints a table with these rows.
pub(crate) fn print_table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let rows: Vec<[String; N]> = rows.into_iter().collect();
    table(&heads, &rows).iter().for_each(|line| print(line));
}

/// Prints `json`, or else a table with a row for each item; without one, it prints `none`.
pub(crate) fn print_rows<T, const N: usize>(
    json: Option<Value>,
    items: &[T],
    none: &str,
    heads: [&str; N],
    row: impl Fn(&T) -> [String; N],
) {
    match (json, items) {
        (Some(json), _) => print_json(&json),
        (None, []) => print(none),
        (None, items) => print_table(heads, items.iter().map(row)),
    }
}

/// An instant in tables: to the second, in UTC.
pub(crate) fn at(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A switch in tables.
pub(crate) fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// The user whose things a command lists.
#[derive(Debug, Args)]
pub(crate) struct OfUser {
    /// `user_…`
    user: UserId,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl OfUser {
    /// Runs `work` with the API of the user's tenant, the path before what the user has, and whether JSON is wanted.
    pub(crate) fn with_api(
        self,
        context: Context,
        work: impl AsyncFnOnce(Local, &str, bool) -> Result<()>,
    ) -> Result<()> {
        let Self { user, json } = self;
        context
            .with_api(async |api| work(api.of(user, USERS).await?, &format!("/v1/users/{user}"), json).await)
    }

    /// Shows all that the user has of `what`, as the API names it.
    pub(crate) fn list<T: DeserializeOwned>(
        self,
        context: Context,
        what: &str,
        show: impl FnOnce(&[T], bool),
    ) -> Result<()> {
        self.with_api(context, async |api, path, json| {
            show(&api.list(&format!("{path}/{what}"), usize::MAX).await?.data, json);
            Ok(())
        })
    }
}

/// A name as a segment of a path.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// The first `most` bytes of a file; `-`: of stdin.
pub(crate) fn open(file: &Path, most: u64) -> io::Result<io::Take<Box<dyn Read>>> {
    let source: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(file)?),
    };
    Ok(source.take(most))
}

/// Writes a file, in the place of what it had.
pub(crate) fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// The text on one line, cut to `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line: String = sanitized(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plan_is_shown_with_its_goal() {
        let goal = json!({"id": "goal_1", "title": "Fly", "run_id": null, "status": null});
        let plan =
            json!({"id": "plan_1", "document": {"v": 1, "goal": "Book", "steps": []}, "paused": false});
        assert_eq!([goal, plan].map(|shown| heading(&shown)), ["goal_1  Fly", "plan_1  Book"]);
    }

    #[test]
    fn invalid_id_says_what_an_id_looks_like() {
        let tools: Vec<String> = crate::toolbox::built_in();
        let loaded = crate::config::load(None, &tools).unwrap();
        let hex = "0123456789abcdef0123456789abcdef";
        let (kind, id) = parse(&loaded, &format!("user_agent_{hex}")).unwrap();
        assert_eq!((kind.as_str(), id.0.simple().to_string().as_str()), ("user_agent", hex));
        for (given, words) in [
            (format!("run_{hex}"), "executor, goal, plan, task, user_agent"),
            ("goal_12".to_owned(), "goal_<32 hex digits>"),
            ("goal".to_owned(), "begins with its kind"),
            (format!("goals_{hex}"), "executor, goal, plan, task, user_agent"),
        ] {
            let error = parse(&loaded, &given).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(&given), "{error}");
        }
    }

    #[test]
    fn columns_fit_their_cells_and_texts_stay_on_one_line() {
        let rows = [["a".to_owned(), "long cell".to_owned(), "x".to_owned()]];
        assert_eq!(table(&["ONE", "TWO", "THREE"], &rows), ["ONE  TWO        THREE", "a    long cell  x"]);
        assert_eq!(one_line(" a\n b  cä", 5), "a b c…");
    }
}
