//! Event streams: their next events, snapshots, and where they resume.

use crate::batch::SETTINGS;
use crate::case::{Case, IDLE, SEQ, case, id};

/// The queries of event streams.
pub(crate) fn all() -> Vec<Case> {
    let (tenant, idle) = (id("tenant", 0), id("goal", IDLE));
    let (seq, before) = (SEQ.to_string(), (SEQ - 5).to_string());
    let many: Vec<String> = (0..64).map(|nth| id("goal", nth * 1_000)).collect();
    let many = format!("array[{}]::uuid[]", many.join(", "));
    vec![
        resumed("a stream resumes", &tenant, "null", &before),
        resumed("a stream begins", &tenant, "'goal'", "null"),
        case(
            "store::event::thread_before",
            "a snapshot",
            &[&idle, &seq, "100", &tenant],
            &["events_pkey"],
            [50, 150],
        ),
        case(
            "store::event::position::since",
            "nothing new",
            &["pg_current_snapshot()::text", "null", &id("goal", IDLE), "0", "100", "null"],
            &["events_by_transaction", "messages_by_transaction", "runs_by_transaction"],
            [10, 60],
        )
        .after("set local enable_seqscan = off;\n".to_owned()),
        case("store::event::last_seqs", "64 streams", &[&many], &["run_locks_pkey"], [64, 300]),
        case("store::event::open_iteration_at", "", &[&idle, &seq, &tenant], &["events_pkey"], [60, 50]),
    ]
}

/// The next events of a stream.
fn resumed(when: &'static str, tenant: &str, kind: &str, after: &str) -> Case {
    let list = |item: &str, kind: &str| format!("array[{item}]::{kind}[]");
    let arguments = [
        list(&id("goal", IDLE), "uuid"),
        list(tenant, "uuid"),
        list(kind, "text"),
        list(after, "bigint"),
        list("500", "bigint"),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    case("store::event::batch::read", when, &arguments, &["events_pkey", "run_locks_pkey"], [40, 80])
        .after(SETTINGS.to_owned())
}
