//! What no message begins: tasks, feeds, check-ins.

use crate::case::{Case, IDLE, LAST_RUNS, USERS, case, id};

/// Tasks, feeds and check-ins.
pub(crate) fn all() -> Vec<Case> {
    let (tenant, user, idle) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let new = "gen_random_uuid()";
    let run = id("run", LAST_RUNS + IDLE);
    let told = [&idle, new, new, "'<agent_check_in/>'", "'{}'", "'agent_check_in'", "10"];
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
    ];
    let kinds = "array['goal']::text[]";
    let day = ["now() - interval '1 day'", "now() + interval '1 day'"];
    let happened = [user.as_str(), run.as_str(), day[0], day[1], "20", "500", "10"];
    vec![
        case("store::tell::tell", "to one with nothing to do", &told, &[], [20, 200]),
        case("store::task::above", "", &[&idle, &run], &["agentables_pkey", "notes_by_agentable"], [20, 40]),
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
        case("store::feed::writer", "", &[&user, kinds], &[], [40, 80]),
        case(
            "store::feed::happenings",
            "of a user with ten goals",
            &happened,
            &["notes_by_agentable"],
            [800, 1_500],
        ),
        case("store::check_in::due", "none is", &["200"], &["check_ins_due"], [10, 20]),
        case(
            "store::check_in::list",
            "",
            &[&tenant, &idle, "null", "21"],
            &["check_ins_by_agentable"],
            [10, 30],
        ),
        case("store::check_in::told", "", &[&idle], &["check_ins_by_agentable"], [10, 30]),
        case("store::check_in::before", "", &[&user, &idle, &run], &["check_ins_by_agentable"], [10, 30]),
    ]
}
