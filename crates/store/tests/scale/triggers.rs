//! Triggers, with thousands of them beside.

use crate::case::{Case, IDLE, USERS, case, id};

/// A cron trigger and one that hears events for each of many users; one of the user of the idle goal, with an event heard.
fn seeded() -> String {
    let (goal, user) = (id("goal", IDLE), id("user", IDLE % USERS));
    format!(
        "insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, next_at, created_at,
                                       updated_at)
         select gen_random_uuid(), a.tenant_id, a.user_id, a.id, 't', 'i', '{{\"type\": \"event\", \"topics\": [\"**\"]}}',
                case when n = 1 then now() + interval '1 day' end, now(), now()
           from (select * from houston.agentables where user_id <> {user} limit 1000) a, generate_series(1, 2) n;
         insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, created_at, updated_at)
         select gen_random_uuid(), tenant_id, user_id, id, 't', 'i', '{{}}', now(), now() from houston.agentables where id = {goal}
         returning id as trigger \\gset
         insert into houston.trigger_firings (trigger_id, tenant_id, agentable_id, parent_id, seq, topic, cause, chain, depth,
                                              created_at)
         select t.id, t.tenant_id, t.agentable_id, t.agentable_id, n, 'run.queued', '{{}}', '{{}}', 0, clock_timestamp()
           from houston.triggers t, generate_series(1, 2) n where t.next_at is null;
         analyze houston.triggers, houston.trigger_firings;\n"
    )
}

/// Reading them, and firing one. A page of what was heard is the beginning of an index, whatever is behind it.
pub(crate) fn all() -> Vec<Case> {
    let (tenant, user, goal) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let (one, users) = (":'trigger'", format!("array[{user}]::uuid[]"));
    let by_id = &["triggers_pkey"];
    let heard = [one, &goal, "1"];
    let fired =
        [one, "gen_random_uuid()", "array[]::uuid[]", "1::smallint", "now()", "now()", "'[{}]'", "20"];
    let cases = [
        // The first, since each case leaves a dead row of the user in the index.
        case(
            "store::trigger_reader::listening",
            "of a user",
            &[&users],
            &["triggers_hearing_by_user"],
            [10, 40],
        ),
        case("store::trigger::list", "", &[&tenant, &user], &["triggers_by_user"], [20, 60]),
        // A hundred of them, and their agentables.
        case("store::trigger::due_next", "", &[&tenant], &["triggers_due_of_tenant"], [400, 900]),
        case("store::trigger::get", "", &[&tenant, one], by_id, [10, 40]),
        case("store::trigger::firings", "", &[&tenant, one], by_id, [5, 20]),
        case("store::trigger::count", "", &[&tenant, &user], &["triggers_by_user"], [10, 40]),
        case("store::trigger_firing::due", "none is", &["now()", "500"], &["triggers_due"], [5, 20]),
        case("store::trigger_firing::lock", "", &[one], by_id, [5, 40]),
        case(
            "store::trigger_firing::take",
            "",
            &heard,
            &["trigger_firings_pkey", "runs_by_agentable"],
            [5, 70],
        ),
        case("store::trigger_effect::fired", "", &fired, by_id, [10, 60]),
        case(
            "store::trigger_reader::failed",
            "",
            &[one, "1", "'limit'", "'[{}]'", "20", "false"],
            by_id,
            [10, 60],
        ),
        case("store::trigger_effect::parent", "", &[&goal, "'archived'"], &["run_locks_pkey"], [10, 40]),
    ];
    cases.into_iter().map(|case| case.after(seeded())).collect()
}
