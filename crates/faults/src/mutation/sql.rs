//! The SQL that weakens `commit_step`.

use super::Mutation;

/// The guard of `commit_step`, exactly as in its file.
const GUARD: &str = "select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.epoch = p_epoch and k.run_token = p_token
       and k.holder is not null and k.last_write_id is distinct from p_write
       for no key update;
    if not found then";

/// The guard without a check of epoch and token.
const WITHOUT_FENCE: &str = "select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.last_write_id is distinct from p_write
       for no key update;
    if not found then";

/// The guard that checks before it locks: both in one transaction, but no fence. The sleep simulates a commit that
/// waits for its disk, so that a takeover can happen in between.
const WITHOUT_ROW_LOCK: &str = "perform 1 from houston.run_locks k
     where k.agentable_id = p_agentable and k.epoch = p_epoch and k.run_token = p_token
       and k.holder is not null and k.last_write_id is distinct from p_write;
    if found then
        perform pg_sleep(1);
        select k.* into l from houston.run_locks k where k.agentable_id = p_agentable for no key update;
    end if;
    if not found then";

/// The epoch in the file, and its replacement: a zombie that can write would write its own epoch.
const EPOCH: (&str, &str) = ("l.run_id, l.epoch,", "l.run_id, p_epoch,");

/// The statement in `commit_step` that creates the function, changed as `mutation` requires; `None` if it does not
/// contain the text to replace.
pub(crate) fn weakened(mutation: Mutation, commit_step: &str) -> Option<String> {
    const HEAD: &str = "create or replace function houston.commit_step(";
    let function = &commit_step[commit_step.find(HEAD)?..];
    let function = &function[..function.find("$$;")? + "$$;".len()];
    let guard = match mutation {
        Mutation::Fence => WITHOUT_FENCE,
        Mutation::RowLock => WITHOUT_ROW_LOCK,
        Mutation::BatchFence | Mutation::Sweep | Mutation::Intent => return None,
    };
    let changed = function.replacen(GUARD, guard, 1);
    let written = changed.replace(EPOCH.0, EPOCH.1);
    (changed != function && written != changed).then_some(written)
}
