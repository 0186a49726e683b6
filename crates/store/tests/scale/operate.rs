//! What operators ask for: bounded by what waits, runs or failed, and by the pages they read.

use crate::case::{Case, DRIVEN, IDLE, LAST_RUNS, WAITING, WORKER, case, id};

const NIL: &str = "'00000000-0000-0000-0000-000000000000'";
/// The first of the goals that failed, were asked or are plans. No other case looks at them.
const ASKED: u32 = 60_000;
const LAST: &str = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";

/// What is there once for all cases: some failed runs of a long history, questions of which one in a hundred is open, plans, and
/// audit records of the tenant and of others.
pub(crate) fn seeded() -> String {
    format!(
        "update houston.runs set status = 'failed', error_code = 'AUTH', error_message = 'The key is wrong.'
          where id >= {} and id < {};
         insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, text, state, closed_at)
         select gen_random_uuid(), k.tenant_id, k.user_id, k.agentable_id, k.run_id, 'input', 'Which?',
                case when n > 1 then 'answered' else 'open' end, case when n > 1 then now() end
           from (select * from houston.run_locks where agentable_id >= {goal} order by agentable_id limit 200) k,
                generate_series(1, 100) n;
         insert into houston.plans (agentable_id, tenant_id, user_id, parent_id, attached, document, input, deadline_at)
         select agentable_id, tenant_id, user_id, agentable_id, false, '{{}}', '{{}}', now()
           from houston.run_locks where agentable_id >= {goal} order by agentable_id limit 2000;
         insert into houston.audit (id, tenant_id, actor, operation, status)
         select gen_random_uuid(), case when n % 2 = 0 then {} else gen_random_uuid() end, 'key_1', 'update_agent', 200
           from generate_series(1, 10000) n;
         analyze houston.runs, houston.questions, houston.plans, houston.audit;\n",
        id("run", LAST_RUNS + ASKED),
        id("run", LAST_RUNS + ASKED + 300),
        id("tenant", 0),
        goal = id("goal", ASKED),
    )
}

/// Queues, workers, and why one agentable does not go on.
fn waiting() -> Vec<Case> {
    let (tenant, waiting) = (id("tenant", 0), id("goal", WAITING));
    let works = &["run_locks_awake", "runs_held"];
    vec![
        case("store::lane_work::by_kind", "of all", &["null", "20000", "10"], works, [8_000, 15_000]),
        case("store::lane_work::by_kind", "of a tenant", &[&tenant, "20000", "10"], works, [8_000, 15_000]),
        case("store::worker_list::list", "25 runs on each", &["1000"], &["runs_in_flight"], [400, 800]),
        case("store::paused_lane::list", "", &[], &[], [5, 5]),
        case(
            "store::why::facts",
            "",
            &[&tenant, &waiting, "'interactive'", "20"],
            &["run_locks_pkey"],
            [60, 150],
        ),
        case("store::why::questions", "", &[&tenant, &waiting, "20"], &["agentables_pkey"], [20, 40]),
        // One that is driven.
        case(
            "store::why::facts",
            "it runs",
            &[&tenant, &id("goal", DRIVEN), "'interactive'", "20"],
            &[],
            [60, 150],
        ),
    ]
}

/// Many runs, failures, and how runs ended.
fn runs() -> Vec<Case> {
    let (tenant, run, idle) = (id("tenant", 0), id("run", LAST_RUNS + IDLE), id("goal", IDLE));
    let (one, user) = (format!("array[{run}]::uuid[]"), id("user", 7));
    let page = |user: &str, last: &[&str]| -> Vec<String> {
        let of_page = [tenant.as_str(), LAST, NIL, "2000", "null", "null", "null", user];
        of_page
            .into_iter()
            .chain(["null", "null", "null", "21"])
            .chain(last.to_vec())
            .map(str::to_owned)
            .collect()
    };
    let with = |case: Case, arguments| Case { arguments, ..case };
    let scan = |when| case("store::run_list::scan", when, &[], &["runs_pkey"], [6_000, 12_000]);
    let failed_page = case("store::run_list::failed", "300 failed", &[], &["runs_failed"], [1_500, 3_000]);
    let errors = [tenant.as_str(), "86400", "10000", "600"];
    vec![
        with(scan("any"), page("null", &["false"])),
        with(scan("of a user, who has few"), page(&user, &["false"])),
        with(failed_page, page("null", &[])),
        case("store::run::with_ids", "", &[&tenant, &one], &["runs_pkey"], [10, 40]),
        // The seeded runs are older than any window: of two indexes that find none, either will do.
        case("store::run_error::list", "300 failed", &errors, &["runs_waiting"], [6_000, 6_000]),
        case(
            "store::ended::by_hour",
            "more than are read",
            &["null", "100000"],
            &["runs_ended"],
            [101_000, 20_000],
        ),
        // The latest of five runs of a goal: the others are not read, or only looked at.
        case(
            "store::event::outline::read",
            "",
            &[&tenant, &idle, &run, "21", "20", "1000", "null", "null", "array['call']"],
            &["runs_pkey", "events_pkey"],
            [20, 60],
        ),
        case(
            "store::trace::outline::history",
            "",
            &[&tenant, &idle, &run, "null", "now()", "1000", "null", "null"],
            &["history_pkey"],
            [60, 80],
        ),
        case("store::run_retry::lock", "", &[&tenant, &run], &["runs_pkey"], [10, 40]),
        case("store::run_retry::due", "", &[&tenant, &idle], &["run_locks_pkey"], [5, 40]),
        case(
            "store::run_retry::message",
            "",
            &[&tenant, &idle, &run, "1000"],
            &["messages_agentable_id_seq_key"],
            [20, 60],
        ),
    ]
}

/// The audit log, and what a worker does for operators.
fn others() -> Vec<Case> {
    let (tenant, worker) = (id("tenant", 0), id("worker", WORKER));
    let none = ["null"; 5];
    let list: Vec<&str> = [tenant.as_str(), LAST, NIL].into_iter().chain(none).chain(["21"]).collect();
    let record = [
        "gen_random_uuid()",
        tenant.as_str(),
        "'key_1'",
        "null",
        "'update_agent'",
        "null",
        "200",
        "null",
        "null",
    ];
    let usage = [tenant.as_str(), "86400", "20000", "50"];
    vec![
        case(
            "store::usage::of_ended",
            "more than are read",
            &usage,
            &["runs_ended", "agentables_pkey"],
            [42_000, 105_000],
        ),
        case("store::audit::record", "", &record, &[], [5, 100]),
        case("store::audit::list", "", &list, &["audit_by_tenant"], [50, 60]),
        case("store::audit::forget", "none is old", &["7776000", "500"], &["audit_by_age"], [10, 20]),
        case("store::lease::look", "", &[&worker, "7"], &[], [20, 20]),
        case("store::lease::tell_draining", "", &[&worker], &[], [20, 30]),
        case("store::worker_list::drain", "", &[&worker], &[], [20, 30]),
    ]
}

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    [waiting(), runs(), others()].into_iter().flatten().collect()
}
