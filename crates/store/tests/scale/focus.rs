//! What messages are about: what providers have answered, and what clients offer.

use crate::case::{Case, DRIVEN, IDLE, OPEN_RUNS, USERS, case, id};

/// The offer of a message of an open run, with a focus that differs from the last one.
pub(crate) fn offered(goal: u32) -> String {
    format!(
        "insert into houston.client_offers (agentable_id, tenant_id, message_id, offer, last_focus)
         select m.agentable_id, m.tenant_id, m.id, '{{\"focus\": {{\"type\": \"order\", \"id\": \"18\"}}}}',
                '{{\"type\": \"order\", \"id\": \"17\"}}'
           from houston.messages m where m.run_id = {} limit 1
         on conflict (agentable_id) do update set message_id = excluded.message_id;",
        id("run", OPEN_RUNS + goal)
    )
}

pub(crate) fn all() -> Vec<Case> {
    let (tenant, user, idle) = (id("tenant", 0), id("user", IDLE % USERS), id("goal", IDLE));
    let (own, key) = (&["context_cache_pkey"], ["'order'", "'1'", "'get_order'"]);
    let [kind, thing, tool] = key;
    let (latest, offer) = (id("message", 0), "'{\"focus\": {\"type\": \"order\", \"id\": \"18\"}}'");
    vec![
        case("store::context_cache::get", "", &[&tenant, &user, kind, thing, tool, "86400"], own, [5, 10]),
        case("store::context_cache::of_agentable", "", &[&idle, kind, thing, tool, "86400"], own, [5, 15]),
        case(
            "store::context_cache::begin",
            "another thing",
            &[&tenant, &user, kind, "'new'", tool, "35", "200"],
            &["context_cache_pkey", "users_pkey"],
            [20, 40],
        ),
        case(
            "store::context_cache::end",
            "",
            &[&tenant, &user, kind, thing, tool, "now()", "'paid'"],
            own,
            [5, 30],
        ),
        case("store::context_cache::void", "", &[&tenant, &user, "array['1', '2', 'new']"], own, [20, 60]),
        case(
            "store::context_cache::forget_old",
            "none is",
            &["86400", "100"],
            &["context_cache_old"],
            [5, 10],
        ),
        case(
            "store::client_offer::put",
            "",
            &[&tenant, &id("goal", DRIVEN), &latest, offer],
            &["messages_pkey"],
            [10, 50],
        ),
    ]
}
