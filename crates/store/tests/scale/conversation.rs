//! Queries about a conversation as a whole: runtime state, statistics, export and import.

use crate::case::{Case, case, id};

/// Agentables: an idle one, and one that worker 5 drives.
const IDLE: u32 = 50_000;
const DRIVEN: u32 = 2_005;
/// An agentable with a long past, separate from those of other cases, whose blocks it would dilute.
const LONG: u32 = 60_001;

/// Adds 3,000 runs and 30,000 messages, so that a missing bound shows.
fn grown() -> String {
    let (goal, tenant) = (id("goal", LONG), id("tenant", 0));
    format!(
        "insert into houston.runs (id, tenant_id, agentable_id, status, attempt, first_seq, ended_at)
         select gen_random_uuid(), {tenant}, {goal}, 'completed', 1, 1000 + n, now() from generate_series(1, 3000) n;
         insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
         select gen_random_uuid(), {tenant}, {goal}, 1000 + n, 'agent', 'text', 'hi', {run}
           from generate_series(1, 30000) n;\n",
        run = id("run", LONG)
    )
}

/// All cases about whole conversations.
pub(crate) fn all() -> Vec<Case> {
    state_and_statistics().into_iter().chain(export_and_reset()).chain(past()).chain(imported()).collect()
}

/// Runtime state and statistics.
fn state_and_statistics() -> Vec<Case> {
    let (tenant, idle, driven) = (id("tenant", 0), id("goal", IDLE), id("goal", DRIVEN));
    let long = id("goal", LONG);
    vec![
        case("store::state::get", "nothing to do", &[&tenant, &idle, "20"], &["run_locks_pkey"], [30, 80]),
        case("store::state::get", "driven", &[&tenant, &driven, "20"], &["run_locks_pkey"], [30, 80]),
        case(
            "store::state::get",
            "after 3,000 runs, none of which failed",
            &[&tenant, &long, "20"],
            &["runs_by_agentable"],
            [50, 100],
        )
        .after(grown()),
        case(
            "store::audit::tenant_of_thing",
            "",
            &[&id("user", 7)],
            &["users_pkey", "agentables_pkey", "runs_pkey", "messages_pkey"],
            [20, 60],
        ),
        case(
            "store::stats::totals",
            "",
            &[&tenant, &idle],
            &["agentables_pkey", "knowledge_by_owner"],
            [10, 30],
        ),
        case("store::stats::runs", "of few", &[&idle, "1001", &tenant], &["runs_by_agentable"], [10, 30]),
        case(
            "store::stats::runs",
            "the latest 1,000 of 3,000",
            &[&long, "1001", &tenant],
            &["runs_by_agentable"],
            // Dead rows of rolled-back cases lie among them.
            [1_010, 10_000],
        )
        .after(grown()),
        case(
            "store::stats::messages",
            "of few",
            &[&idle, "10000", &tenant],
            &["messages_agentable_id_seq_key"],
            [20, 50],
        ),
        case(
            "store::stats::messages",
            "the latest 10,000 of 30,000",
            &[&long, "10000", &tenant],
            &["messages_agentable_id_seq_key"],
            [10_100, 25_000],
        )
        .after(grown()),
    ]
}

/// Export and reset.
fn export_and_reset() -> Vec<Case> {
    let (tenant, idle) = (id("tenant", 0), id("goal", IDLE));
    let last = i64::MAX.to_string();
    let none = "null";
    vec![
        case("store::conversation::read::lock", "", &[&tenant, &idle], &["run_locks_pkey"], [5, 10]),
        case(
            "store::conversation::read::history",
            "",
            &[&tenant, &idle, "0", &last, "1000"],
            &["history_pkey"],
            [40, 120],
        ),
        case(
            "store::conversation::read::messages",
            "",
            &[&tenant, &idle, "0", "1000", none, &last, "1000"],
            &["messages_agentable_id_seq_key"],
            [40, 80],
        ),
        case(
            "store::conversation::read::notes",
            "",
            &[&tenant, &idle, "'00000000-0000-0000-0000-000000000000'", none, "100"],
            &["knowledge_by_owner"],
            [5, 10],
        ),
        case(
            "store::conversation::read::learnings",
            "",
            &[&tenant, &idle, none],
            &["knowledge_by_owner"],
            [5, 10],
        ),
        case("store::conversation::lock", "", &[&tenant, &idle], &["run_locks_pkey"], [5, 10]),
        case(
            "store::conversation::reset::close",
            "",
            &[&idle, "'reset'", "gen_random_uuid()", &tenant],
            &["run_locks_pkey"],
            [40, 180],
        ),
        case(
            "store::conversation::reset::forget",
            "",
            &[&tenant, &idle, "'note'"],
            &["knowledge_by_owner"],
            [5, 20],
        ),
    ]
}

/// Export of closed sessions, compressions and large results.
fn past() -> Vec<Case> {
    let (tenant, idle) = (id("tenant", 0), id("goal", IDLE));
    let named = format!("array[{}]::uuid[]", id("message", IDLE));
    let first = "'00000000-0000-0000-0000-000000000000'";
    vec![
        case(
            "store::conversation::read::past::sessions",
            "",
            &[&tenant, &idle, "0", "null", "1000"],
            &["sessions_agentable_id_number_key"],
            [10, 30],
        ),
        case(
            "store::conversation::read::past::sessions",
            "up to an entry",
            &[&tenant, &idle, "0", "5", "1000"],
            &["sessions_agentable_id_number_key"],
            [10, 30],
        ),
        case(
            "store::conversation::read::past::compressions",
            "",
            &[&tenant, &idle, first, "10", "1000"],
            &["compressions_by_agentable"],
            [10, 30],
        ),
        case(
            "store::conversation::read::past::results",
            "",
            &[&tenant, &idle, &named],
            &["tool_results_pkey", "tool_results_by_parent"],
            [10, 40],
        ),
    ]
}

/// Import of a document.
fn imported() -> Vec<Case> {
    let (tenant, idle, run) = (id("tenant", 0), id("goal", IDLE), id("message", IDLE + 1));
    let new = "array[gen_random_uuid()]";
    let session = [
        &idle,
        &tenant,
        "1",
        new,
        "array['Where shall we go in Tokyo?']",
        r#"'[{"first_position": 2, "last_position": 10, "started_at": "2026-11-20T08:00:00Z",
              "completed_at": "2026-11-21T08:00:00Z", "completion_reason": "reset", "summary": "",
              "summary_source": "extract", "pending": false, "message_count": 2, "token_count": 40}]'"#,
    ];
    let compression = [
        &idle,
        &tenant,
        &run,
        new,
        "array[0]",
        r#"'[{"through_position": 4, "summary": "They travel.", "reason": "budget", "entries_before": 40,
              "entries_after": 10, "tokens_before": 28000, "tokens_after": 9000, "model": "fake/model", "cost": "0.01",
              "created_at": "2026-11-21T08:00:00Z"}]'"#,
    ];
    let result = [
        &idle,
        &tenant,
        &run,
        r#"'[{"id": "result_0190000000007000800000000000abcd", "call_id": "call_1", "tool": "fetch", "content": "long",
              "created_at": "2026-11-21T08:00:00Z"}]'"#,
    ];
    let begun = [&idle, "gen_random_uuid()", &tenant, "now()", "100", "10", "4", "null", "0", "false"];
    vec![
        case("store::conversation::make::past::sessions", "", &session, &["history_pkey"], [60, 400]),
        case("store::conversation::make::past::compressions", "", &compression, &[], [10, 60]),
        case("store::conversation::make::past::results", "", &result, &[], [10, 60]),
        case(
            "store::conversation::make::begin",
            "",
            &begun,
            &["run_locks_pkey", "agentables_pkey"],
            [10, 100],
        ),
    ]
}
