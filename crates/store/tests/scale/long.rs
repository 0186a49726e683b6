//! Long conversations, large results, and agentables without a title.

use crate::case::{Case, DRIVEN, IDLE, LAST_RUNS, OPEN_RUNS, case, id};

/// Cases of long conversations.
pub(crate) fn sent() -> Vec<Case> {
    let (tenant, idle, driven) = (id("tenant", 0), id("goal", IDLE), id("goal", DRIVEN));
    let (run, result) = (id("run", OPEN_RUNS + DRIVEN), id("message", IDLE));
    let new = "gen_random_uuid()";
    vec![
        case(
            "store::compression::insert",
            "",
            &[
                new,
                &tenant,
                &driven,
                &run,
                "1",
                "1",
                "'They travel.'",
                "'budget'",
                "40",
                "10",
                "28000",
                "9000",
                "'fake/model'",
                "0.01",
                "false",
            ],
            &["run_locks_pkey", "history_pkey"],
            [20, 40],
        ),
        case(
            "store::compression::list",
            "",
            &[&tenant, &idle, "null", "21"],
            &["compressions_by_agentable"],
            [10, 20],
        ),
        case(
            "store::tool_result::insert",
            "",
            &[&driven, &run, &format!("array[{new}]"), "array['call_1']", "array['fetch']", "array['long']"],
            &["agentables_pkey"],
            [10, 40],
        ),
        case(
            "store::tool_result::find",
            "",
            &[&tenant, &idle, &result],
            &["tool_results_pkey", "tool_results_by_parent"],
            [10, 40],
        ),
    ]
}

/// Cases of agentables without a title.
pub(crate) fn unnamed() -> Vec<Case> {
    let (idle, requested) = (id("goal", IDLE), id("goal", IDLE + 1));
    let (run, new) = (id("run", LAST_RUNS + IDLE), "gen_random_uuid()");
    let tokens = ["1", "1", "0", "0", "0"];
    let call = [idle.as_str(), &run, new, "0.0001", "1", "'fake'", "'model'"];
    let call: Vec<&str> = call.into_iter().chain(tokens).chain(["true", "20", "300", "false"]).collect();
    vec![
        case("store::cost::count_call", "", &call, &["run_locks_pkey", "runs_pkey"], [20, 120]),
        case("store::title::request", "with a title", &[&idle, "3", "60"], &["agentables_pkey"], [10, 30]),
        case(
            "store::title::request",
            "wanted",
            &[&idle, "3", "60"],
            &["messages_agentable_id_seq_key"],
            [20, 60],
        )
        .after(format!("update houston.agentables set title = '' where id = {idle};")),
        case("store::title::take", "none is due", &["null", "60", "6", "600", "20"], &[], [20, 30]),
        case(
            "store::title::take",
            "of one",
            &[&requested, "60", "6", "600", "20"],
            &["messages_agentable_id_seq_key"],
            [40, 60],
        ),
        case(
            "store::title::set",
            "",
            &[&requested, "'Tokyo'", "'{}'", "'{}'"],
            &["run_locks_pkey"],
            [20, 160],
        )
        .after(format!("update houston.agentables set title = '' where id = {requested};")),
    ]
}
