//! Weakened protocols, for tests alone: what must go wrong when a part of the protocol is missing shows that the
//! part is needed, and that a test would notice.
//!
//! The feature `fault-injection` has it; no release does.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::error::Result;
use crate::pool::Store;
use crate::schema::MIGRATOR;

/// What is taken out of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A step is committed whatever its epoch and token: a zombie may write.
    Fence,
    /// Epoch and token are looked at before the row is locked: a takeover fits in between.
    RowLock,
    /// Nobody looks for what a lost hint forgot: no sweep, no `LISTEN`, no polling.
    Sweep,
    /// Calls of tools are not written down before they execute, and are made again after a crash.
    Intent,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fence, Self::RowLock, Self::Sweep, Self::Intent];

    /// As `HOUSTON_MUTATION` names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::RowLock => "row_lock",
            Self::Sweep => "sweep",
            Self::Intent => "intent",
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is none of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no mutation is called `{0}`; there are fence, row_lock, sweep and intent")]
pub struct UnknownMutation(String);

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(name: &str) -> std::result::Result<Self, UnknownMutation> {
        Self::ALL.into_iter().find(|one| one.as_str() == name).ok_or_else(|| UnknownMutation(name.to_owned()))
    }
}

/// What this process leaves out: chosen once, at its start.
static CHOSEN: OnceLock<Mutation> = OnceLock::new();

/// From now on this process leaves `mutation` out. The first choice holds.
pub fn choose(mutation: Mutation) {
    if CHOSEN.set(mutation).is_ok() {
        tracing::error!(%mutation, "the protocol is weakened: this is a test");
    }
}

/// Whether this process leaves `mutation` out.
#[must_use]
pub fn is(mutation: Mutation) -> bool {
    CHOSEN.get() == Some(&mutation)
}

/// The guard of `commit_step`, as its migration has it.
const GUARD: &str = "select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.epoch = p_epoch and k.run_token = p_token
       and k.holder is not null and k.last_write_id is distinct from p_write
       for no key update;
    if not found then";

/// No look at epoch and token at all.
const WITHOUT_FENCE: &str = "select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.last_write_id is distinct from p_write
       for no key update;
    if not found then";

/// Check, then write: both in one transaction, and still no fence. The pause stands for a commit that waits for its
/// disk; a takeover must fall into it.
const WITHOUT_ROW_LOCK: &str = "perform 1 from houston.run_locks k
     where k.agentable_id = p_agentable and k.epoch = p_epoch and k.run_token = p_token
       and k.holder is not null and k.last_write_id is distinct from p_write;
    if found then
        perform pg_sleep(1);
        select k.* into l from houston.run_locks k where k.agentable_id = p_agentable for no key update;
    end if;
    if not found then";

/// How the migration writes the epoch: a zombie that may write would write its own.
const EPOCH: (&str, &str) = ("l.run_id, l.epoch,", "l.run_id, p_epoch,");

/// Of the migrations, the latest statement that makes `commit_step`, changed as `mutation` wants it.
fn weakened(mutation: Mutation) -> Option<String> {
    const HEAD: &str = "create or replace function houston.commit_step(";
    let mut all = MIGRATOR.iter().map(|migration| migration.sql.as_str());
    let sql = all.rfind(|sql| sql.contains(HEAD))?;
    let function = &sql[sql.find(HEAD)?..];
    let function = &function[..function.find("$$;")? + "$$;".len()];
    let guard = match mutation {
        Mutation::Fence => WITHOUT_FENCE,
        Mutation::RowLock => WITHOUT_ROW_LOCK,
        Mutation::Sweep | Mutation::Intent => return None,
    };
    let changed = function.replacen(GUARD, guard, 1);
    let written = changed.replace(EPOCH.0, EPOCH.1);
    (changed != function && written != changed).then_some(written)
}

impl Store {
    /// Weakens the functions of this database as this process was told to; nothing otherwise.
    ///
    /// # Errors
    /// What the database says; that `commit_step` is not the function this was written for.
    pub(crate) async fn weaken(&self) -> Result<()> {
        for mutation in [Mutation::Fence, Mutation::RowLock] {
            if is(mutation) {
                let Some(function) = weakened(mutation) else {
                    let error = format!("commit_step has changed: mend the mutation `{mutation}`");
                    return Err(sqlx::Error::Configuration(error.into()).into());
                };
                sqlx::raw_sql(sqlx::AssertSqlSafe(function)).execute(&self.pool).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_the_one_the_mutations_were_written_for() {
        for mutation in [Mutation::Fence, Mutation::RowLock] {
            let function = weakened(mutation).unwrap();
            assert!(function.starts_with("create or replace function houston.commit_step("));
            assert!(!function.contains(GUARD));
        }
    }

    #[test]
    fn names_are_found_and_others_refused() {
        for mutation in Mutation::ALL {
            assert_eq!(mutation.as_str().parse(), Ok(mutation));
        }
        assert!("fences".parse::<Mutation>().unwrap_err().to_string().contains("row_lock"));
    }
}
