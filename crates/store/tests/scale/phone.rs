//! What apps ask for often: whether a run is over, and what is unread.

use crate::case::{Case, IDLE, LAST_RUNS, USERS, case, id};

pub(crate) fn all() -> Vec<Case> {
    let (tenant, idle, user) = (id("tenant", 0), id("goal", IDLE), id("user", IDLE % USERS));
    let (run, few) = (id("run", LAST_RUNS + IDLE), format!("array[{idle}]::uuid[]"));
    let thread = &["messages_agentable_id_seq_key", "run_locks_pkey"];
    let read = format!(
        "insert into houston.read_marks (agentable_id, tenant_id, user_id, seq) values ({idle}, {tenant}, {user}, 1000000)
             on conflict (agentable_id) do update set seq = excluded.seq;"
    );
    vec![
        case(
            "store::run::awaited::progress",
            "",
            &[&tenant, &run],
            &["runs_pkey", "run_locks_pkey"],
            [10, 30],
        ),
        case(
            "store::read_mark::of_agentables",
            "the first event was read",
            &[&tenant, &few, "100"],
            thread,
            [40, 80],
        ),
        case("store::read_mark::of_agentables", "all was read", &[&tenant, &few, "100"], thread, [20, 40])
            .after(read.clone()),
        // Ten threads of ten messages.
        case(
            "store::read_mark::of_user",
            "of a user with ten",
            &[&tenant, &user, "array['goal']", "200", "100"],
            thread,
            [300, 600],
        ),
        case(
            "store::read_mark::set",
            "",
            &[&tenant, &idle, "1000000", "null"],
            &["run_locks_pkey"],
            [10, 60],
        ),
    ]
}
