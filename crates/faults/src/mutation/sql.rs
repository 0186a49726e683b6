//! The texts that weaken `commit_step`.

use super::Mutation;

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

/// Of `migrations`, the latest statement that creates `commit_step`, changed as `mutation` asks; `None` if it does not
/// have the text that is to be changed.
pub(crate) fn weakened<'m>(mutation: Mutation, migrations: impl Iterator<Item = &'m str>) -> Option<String> {
    const HEAD: &str = "create or replace function houston.commit_step(";
    let sql = migrations.filter(|sql| sql.contains(HEAD)).last()?;
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
