//! Which agent a command is about: an id of any kind, found whoever it belongs to.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_domain::agentable::AgentType;
use houston_domain::id::{AgentableId, TenantId, parse_prefixed};
use houston_store::agentable::Agentable;
use houston_store::{Error, Store};
use unicode_width::UnicodeWidthStr as _;

use super::{Context, Failure, runtime};
use crate::config::Loaded;
use crate::connect;
use crate::output::harmless;

/// Which agent.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Its id: `goal_…`, `task_…`, `user_agent_…`, or of a kind of your own
    id: String,
    #[command(flatten)]
    database: Database,
}

/// Which database: that of DATABASE_URL, else the one of the `houston dev` of the folder.
#[derive(Debug, Args)]
pub(crate) struct Database {
    /// Has no effect: the database is found without it
    #[arg(long, hide = true)]
    embedded: bool,
}

/// An agent that was found.
pub(crate) struct Found {
    pub(crate) context: Context,
    pub(crate) store: Store,
    pub(crate) tenant: TenantId,
    pub(crate) agentable: Agentable,
}

impl Database {
    /// Opens it and does `work` with it.
    pub(crate) fn with(
        &self,
        context: Context,
        work: impl AsyncFnOnce(Context, Store) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        let addresses = connect::database(&context.folder)?;
        runtime()?.block_on(async {
            let store = connect::open(&context.loaded.settings, &addresses.database_url)?;
            // Whoever asks wants to know at once that nobody answers.
            connect::answers(&addresses.database_url).await.map_err(|error| {
                let target = houston_store::pool::shown_target(&addresses.database_url);
                Failure::Usage(anyhow!("postgres at {target} does not answer: {error}"))
            })?;
            store.check_schema().await?;
            let done = work(context, store.clone()).await;
            store.close().await;
            done
        })
    }
}

impl Which {
    pub(crate) fn new(id: String, database: Database) -> Self {
        Self { id, database }
    }

    /// Finds it and does `work` with it.
    pub(crate) fn with(
        self,
        context: Context,
        work: impl AsyncFnOnce(Found) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        let (kind, id) = parse(&context.loaded, &self.id).map_err(Failure::Usage)?;
        self.database.with(context, async |context, store| {
            let found = store.agentable_anywhere(&kind, id).await.map_err(|error| match error {
                Error::NotFound { .. } => {
                    Failure::Other(anyhow!("there is no {}; `houston list` shows the ids there are", self.id))
                }
                error => error.into(),
            })?;
            let (tenant, agentable) = found;
            work(Found { context, store, tenant, agentable }).await
        })
    }
}

impl Found {
    /// Its id as shown.
    pub(crate) fn shown(&self) -> String {
        self.agentable.id.shown(&self.agentable.kind)
    }

    /// Its kind.
    pub(crate) fn agent_type(&self) -> Result<&AgentType, Failure> {
        agent_type(&self.context.loaded, &self.agentable.kind)
    }

    /// How it stands, by its kind.
    pub(crate) fn status(&self) -> Option<String> {
        let stored = self.agentable.status.as_deref();
        self.agent_type().ok().and_then(|kind| kind.status(stored, self.agentable.run_status))
    }
}

/// The agent type of this name.
pub(crate) fn agent_type<'l>(loaded: &'l Loaded, kind: &str) -> Result<&'l AgentType, Failure> {
    let found = loaded.kinds.get(kind).map(|kind| &kind.agent_type);
    found.ok_or_else(|| {
        Failure::Usage(anyhow!("there is no agent type `{kind}`; there are: {}", kinds(loaded)))
    })
}

fn kinds(loaded: &Loaded) -> String {
    loaded.kinds.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The kind and the id in `goal_…`.
pub(crate) fn parse(loaded: &Loaded, given: &str) -> anyhow::Result<(String, AgentableId)> {
    let kind = given.rsplit_once('_').map(|(kind, _)| kind).filter(|kind| loaded.kinds.contains_key(*kind));
    let Some(kind) = kind else {
        let shown: String = given.chars().take(80).collect();
        anyhow::bail!(
            "`{shown}` is no id of an agent: one begins with its kind, as in goal_…; the kinds are: {}; `houston list` \
             shows the ids there are",
            kinds(loaded)
        );
    };
    Ok((kind.to_owned(), parse_prefixed(kind, given)?.into()))
}

/// Lines of columns, each as wide as its widest cell; the last one is not padded.
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

/// A text on one line, cut to `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line: String = harmless(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_id_says_what_an_id_looks_like() {
        let tools: Vec<String> =
            houston_tools::builtin::all().iter().map(|tool| tool.definition().name.clone()).collect();
        let loaded = crate::config::load(None, &tools).unwrap();
        let hex = "0123456789abcdef0123456789abcdef";
        let (kind, id) = parse(&loaded, &format!("user_agent_{hex}")).unwrap();
        assert_eq!((kind.as_str(), id.0.simple().to_string().as_str()), ("user_agent", hex));
        for (given, words) in [
            (format!("run_{hex}"), "goal, task, user_agent"),
            ("goal_12".to_owned(), "goal_<32 hex digits>"),
            ("goal".to_owned(), "begins with its kind"),
            (format!("goals_{hex}"), "goal, task, user_agent"),
        ] {
            let told = parse(&loaded, &given).unwrap_err().to_string();
            assert!(told.contains(words) && told.contains(&given), "{told}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be_and_texts_stay_on_their_line() {
        let rows = [["a".to_owned(), "long cell".to_owned(), "x".to_owned()]];
        assert_eq!(table(&["ONE", "TWO", "THREE"], &rows), ["ONE  TWO        THREE", "a    long cell  x"]);
        assert_eq!(one_line(" a\n b  cä", 5), "a b c…");
    }
}
