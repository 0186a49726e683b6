//! Tasks, feeds and check-ins: what starts without a message of a user.

use crate::case::{Case, IDLE, LAST_RUNS, USERS, case, id};

/// Tasks, feeds and check-ins.
pub(crate) fn all() -> Vec<Case> {
    looked_for()
        .into_iter()
        .chain(system_message())
        .chain(check_ins())
        .chain(archiving())
        .chain(fed())
        .chain(checked_in())
        .collect()
}

/// Archiving an agentable, and taking it out again.
fn archiving() -> Vec<Case> {
    let (tenant, idle) = (id("tenant", 0), id("goal", IDLE));
    let ids = format!("array[{idle}]::uuid[]");
    let archived = format!("update houston.agentables set status = 'archived' where id = {idle};");
    vec![
        case(
            "store::cancel::archive",
            "with a check-in",
            &[&idle, &ids, "'archived'"],
            &["agentables_pkey", "check_ins_by_agentable"],
            [10, 60],
        ),
        case(
            "store::cancel::archive",
            "once more",
            &[&idle, &ids, "'archived'"],
            &["agentables_pkey", "check_ins_by_agentable"],
            [10, 60],
        )
        .after(archived.clone()),
        case(
            "store::cancel::store_status",
            "",
            &[&tenant, "'goal'", &idle, "null::text", "'archived'"],
            // By its id, or by tenant and kind, whose index ends with the id: either reads one entry.
            &[],
            [5, 60],
        )
        .after(archived),
    ]
}

/// Starting a feed.
fn fed() -> Vec<Case> {
    let (tenant, user, run) = (id("tenant", 0), id("user", IDLE % USERS), id("run", LAST_RUNS + IDLE));
    let tomorrow = "now() + interval '1 day'";
    let arguments =
        [user.as_str(), tomorrow, run.as_str(), "now() - interval '1 day'", "now()", tenant.as_str()];
    vec![
        case("store::feed::ensure", "there is one", &[&tenant, &user], &[], [10, 40]),
        case("store::feed::ensure", "there is none", &[&tenant, &user], &[], [10, 60])
            .after(format!("delete from houston.feeds where user_id = {user};")),
        case("store::feed::set_due", "", &[&user, tomorrow, &tenant], &["feeds_pkey"], [5, 40]),
        case("store::feed::set_due", "it stays", &[&user, "null", &tenant], &["feeds_pkey"], [5, 40]),
        case("store::feed::told", "", &arguments, &["feeds_pkey"], [5, 40]),
    ]
}

/// A check-in from its creation to its deletion.
fn checked_in() -> Vec<Case> {
    let (tenant, user, idle) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let new = "gen_random_uuid()";
    let found = format!("select id as check_in from houston.check_ins where agentable_id = {idle} \\gset\n");
    let due = format!("{found}update houston.check_ins set due_at = now() where id = :'check_in';");
    let set = ":'check_in'";
    let wanted = [new, &tenant, &user, &idle, "null", "'Look at prices'", "now() + interval '1 day'"];
    let uses = &["check_ins_pkey"];
    vec![
        case(
            "store::check_in::owner",
            "",
            &[&tenant, &idle, "'goal'", "'archived'"],
            &["run_locks_pkey"],
            [10, 40],
        ),
        case("store::check_in::insert", "", &wanted, &[], [10, 60]),
        case("store::check_in::delete", "over REST", &[&tenant, set, "null"], uses, [5, 40])
            .after(found.clone()),
        case("store::check_in::delete", "by its agent", &[&tenant, set, &idle], uses, [5, 40])
            .after(found.clone()),
        case("store::check_in::take", "it is due", &[set], uses, [10, 40]).after(due.clone()),
        case("store::check_in::take", "it is not", &[set], &["users_pkey"], [10, 40]).after(found),
        case("store::check_in::put_off", "", &[set, "60"], uses, [5, 60]).after(due),
        case(
            "store::idempotency::answer",
            "",
            &[&tenant, "'key 7'", "'{}'"],
            &["idempotency_keys_pkey"],
            [5, 40],
        ),
    ]
}

/// A message of Houston's own that opens a run.
fn system_message() -> Vec<Case> {
    let (tenant, user, idle) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let new = "gen_random_uuid()";
    let seqs = ["1000000", "999999"];
    let arguments = [
        &idle,
        new,
        new,
        seqs[0],
        "true",
        &tenant,
        seqs[1],
        "'agent_check_in'",
        "'<agent_check_in/>'",
        "'{}'",
        "null",
        "true",
        &user,
        "10",
        "null",
    ];
    vec![
        case("store::system_message::is_archived", "", &[&idle, "'archived'"], &["agentables_pkey"], [5, 10]),
        case("store::system_message::post", "to one with nothing to do", &arguments, &[], [20, 200]),
    ]
}

/// Queries for due work, and starting it.
fn looked_for() -> Vec<Case> {
    let (tenant, user, idle) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let new = "gen_random_uuid()";
    let run = id("run", LAST_RUNS + IDLE);
    let ids = format!("array[{idle}]::uuid[]");
    let task = [
        new,
        &tenant,
        &user,
        &idle,
        &run,
        "1",
        "'task'",
        "'Look'",
        "null",
        "'{}'::text[]",
        new,
        new,
        "'Look.'",
        "'{}'",
        "false",
        "null",
        "null",
    ];
    let kinds = "array['goal']::text[]";
    let day = ["now() - interval '1 day'", "now() + interval '1 day'"];
    let happened = [user.as_str(), run.as_str(), day[0], day[1], "20", "500", "10", tenant.as_str()];
    vec![
        case("store::task::above", "", &[&idle, &run], &["agentables_pkey", "knowledge_by_owner"], [20, 40]),
        case("store::task::insert", "", &task, &["run_locks_pkey", "runs_pkey"], [20, 200]),
        case(
            "store::task::list",
            "of one without",
            &[&tenant, &idle, "null", "21"],
            &["agentables_by_parent"],
            [10, 30],
        ),
        case("store::cancel::lock", "one without tasks", &[&idle], &["agentables_by_parent"], [20, 40]),
        case("store::cancel::below", "one without tasks", &[&idle], &["agentables_by_parent"], [20, 40]),
        case("store::cancel::ask", "nothing is open", &[&idle, &ids], &["run_locks_pkey"], [20, 100]),
        case("store::feed::due", "none is", &["200"], &["feeds_due"], [10, 20]),
        case("store::feed::lock", "", &[&user, &tenant, "false"], &["feeds_pkey"], [20, 30]),
        case("store::feed::writer", "", &[&user, kinds, &tenant], &[], [40, 80]),
        case(
            "store::feed::happenings",
            "of a user with ten goals",
            &happened,
            &["knowledge_by_owner"],
            [800, 1_500],
        ),
    ]
}

/// Queries of check-ins.
fn check_ins() -> Vec<Case> {
    let (tenant, user, idle) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let run = id("run", LAST_RUNS + IDLE);
    vec![
        case("store::check_in::due", "none is", &["200"], &["check_ins_due"], [10, 20]),
        case(
            "store::check_in::list",
            "",
            &[&tenant, &idle, "null", "21"],
            &["check_ins_by_agentable"],
            [10, 30],
        ),
        case("store::check_in::pending", "", &[&idle], &["check_ins_by_agentable"], [10, 30]),
        case("store::check_in::before", "", &[&user, &idle, &tenant], &["check_ins_by_agentable"], [10, 20]),
        case(
            "store::check_in::is_cancelled",
            "",
            &[&run, "'archived'"],
            &["runs_pkey", "agentables_pkey"],
            [4, 20],
        ),
    ]
}
