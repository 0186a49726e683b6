//! What is deleted by age: each statement is bounded by its batch, however much is old.

use crate::case::{Case, IDLE, LAST_RUNS, case, id};

const NIL: &str = "'00000000-0000-0000-0000-000000000000'";

/// Runs that ended a day ago, one after the other.
const OLD: &str = "
    with n as (
        select id, row_number() over () as n from (
            select id from houston.runs where ended_at is not null limit 2000) r)
    update houston.runs r set ended_at = now() - interval '1 day' + n.n * interval '1 s' from n where n.id = r.id;
    analyze houston.runs;\n";

/// Five model calls of each of 10,000 runs.
const CALLS: &str = "
    insert into houston.model_calls
           (run_id, write_id, tenant_id, agentable_id, iteration, provider, model, input_tokens, output_tokens,
            cache_read_tokens, cache_write_tokens, reasoning_tokens, reported, created_at)
    select r.id, gen_random_uuid(), l.tenant_id, r.agentable_id, n, 'p', 'm', 1, 1, 0, 0, 0, false, now() - interval '1 day'
      from (select id, agentable_id from houston.runs limit 10000) r
      join houston.run_locks l on l.agentable_id = r.agentable_id, generate_series(1, 5) n;
    analyze houston.model_calls;\n";

/// A walk, and what is deleted of one agentable.
pub(crate) fn all() -> Vec<Case> {
    let (goal, run) = (id("goal", IDLE), id("run", LAST_RUNS + IDLE));
    let (goals, runs) = (format!("array[{goal}]::uuid[]"), format!("array[{run}]::uuid[]"));
    let (kinds, upto) = ("'{goal}'", "array[1000]::bigint[]");
    let locked = [goals.as_str(), kinds, "0", "100"];
    vec![
        case("store::health::retention::begin", "", &["'events'", kinds], &[], [5, 40]),
        case("store::health::retention::take", "none has begun", &["'events'", kinds], &[], [5, 20]),
        case(
            "store::health::retention::ended",
            "2,000 are old",
            &["'epoch'", NIL, "3600", "500"],
            &["runs_ended"],
            [4_000, 2_500],
        )
        .after(OLD.to_owned()),
        case("store::health::retention::move", "", &["'events'", kinds, "now()", NIL], &[], [5, 20]),
        case("store::health::retention::reach", "", &["'events'", kinds, "7"], &[], [5, 20]),
        case("store::event::position::keeps", "", &["'9:9:'"], &[], [5, 20]),
        case("store::health::retention::begin_again", "", &["'events'", kinds], &[], [5, 20]),
        case("store::health::retention::lock_streams", "", &locked, &["run_locks_pkey"], [60, 150]),
        case("store::health::retention::mark_streams", "", &[&goals, upto], &["run_locks_pkey"], [10, 40]),
        case("store::health::retention::events", "", &[&goals, upto, "1000"], &["events_pkey"], [400, 600]),
        case("store::health::retention::lock_histories", "", &locked, &["run_locks_pkey"], [40, 100]),
        case("store::health::retention::history", "", &[&goals, upto], &["history_pkey"], [400, 600]),
        case(
            "store::health::retention::model_calls",
            "",
            &[&runs, &goals, kinds, "0", "1000"],
            &["model_calls_pkey"],
            [200, 400],
        )
        .after(CALLS.to_owned()),
    ]
}
