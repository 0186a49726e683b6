//! Sessions: closing, summarising, finding.

use houston_testkit::seed_data::SeedData;

use crate::case::{Case, IDLE, USERS, WAITING, case, id};

/// An id that no session has.
const NONE: u32 = SeedData::LARGE.agentables;

pub(crate) fn closed() -> Vec<Case> {
    let (idle, due, waiting) =
        (id("goal", IDLE), id("goal", SeedData::LARGE.agentables - 1), id("goal", WAITING));
    let (none, kinds) = (id("session", NONE), "array['goal']");
    let quiet = "store::session::fold";
    vec![
        case("store::session::due", "200 of 100,000", &["500"], &["session_states_due"], [250, 60]),
        case("store::session::lock_quiet", "", &[&idle], &["run_locks_pkey"], [5, 10]),
        case("store::session::open", "it is over", &[&due, kinds], &["history_pkey"], [10, 30]),
        case("store::session::open", "a run is open", &[&waiting, kinds], &["history_pkey"], [10, 30]),
        case(quiet, "it is over", &[&due, "1000000", "'session_timeout'", &none], &[], [40, 160]),
    ]
}

pub(crate) fn found() -> Vec<Case> {
    let (tenant, idle, user) = (id("tenant", 0), id("goal", IDLE), id("user", IDLE % USERS));
    let (session, list) = (id("session", IDLE), &["sessions_agentable_id_number_key"]);
    let written = [&session, "'A journey.'", "2", "20", "'Where shall we go?'", "false"];
    // As if its summary were pending.
    let waits = format!("update houston.sessions set summary_due_at = now() where id = {session};");
    let given_back = format!("array[{session}::uuid]");
    let (newest, read) = ("store::session_search::newest", "store::session_search::read");
    let of = |words: &str| format!("format('''@%s'' & {words}', {idle})");
    let (since, limit) = ("'2026-01-01'::timestamptz", "5");
    let (words, any) = (of("(journey | ^journ) & tokyo & to"), "'journey | ^journ | tokyo | to'");
    let common = [&tenant, &idle, since, "null", &words, any, limit];
    let words = [&user, &tenant, "'journey to Tokyo'"];
    let similar = of("(''~  j'' & ''~ ju'' & ''~jur'' | ''~jur'' & ''~urn'' & ''~rne'')");
    let trigrams = "'''~  j'' | ''~ ju'' | ''~jur'' | ''~urn'' | ''~rne'''";
    let slip = [&similar, &tenant, since, "null", "'{}'", "60", trigrams, "0.5", limit];
    let (by_time, by_words) = (&["sessions_by_time"], &["sessions_by_words"]);
    let (take, write) = ("store::session_summary::take", "store::session_summary::write");
    let back = "store::session_summary::give_back";
    let (late, settle) = ("store::health::unsummarised::late", "store::health::unsummarised::settle");
    vec![
        case("store::session::list", "", &[&tenant, &idle, "null", "21"], list, [10, 30]),
        case("store::session::get", "", &[&tenant, &session], &["sessions_pkey"], [10, 30]),
        case(take, "4 of 200", &["360", "4"], &["sessions_unsummarised_of_tenant"], [30, 400]),
        case(write, "", &written, &["sessions_pkey"], [10, 600]).after(waits.clone()),
        case(back, "200 wait", &[&given_back], &[], [250, 350]).after(waits),
        case(late, "200 wait", &["900", "5000"], &["sessions_unsummarised"], [250, 250]),
        case(settle, "no summary was attempted", &["6", "500"], &["sessions_unsummarised"], [250, 250]),
        case("store::session_search::words", "", &words, &[], [10, 30]),
        case(newest, "words that all sessions have", &common, by_time, [80, 400]),
        case("store::session_search::matches", "a slip of the pen", &slip, by_words, [30, 600]),
        case(read, "", &[&tenant, &idle, &session, "0", "20"], &["history_pkey"], [30, 60]),
        // The last one, since what it makes of the statistics stays.
        case(
            take,
            "of statistics without any",
            &["360", "4"],
            &["sessions_unsummarised_of_tenant"],
            [30, 400],
        )
        .after(UNSEEN.to_owned()),
    ]
}

/// Five thousand overdue summaries, of which the statistics know nothing, of sessions that no other case reads.
const UNSEEN: &str = "
    update houston.sessions set summary_due_at = null where summary_due_at is not null;
    analyze houston.sessions;
    update houston.sessions s set summary_due_at = now() - o.n * interval '1 second'
      from (select id, row_number() over (order by id) as n from houston.sessions order by id
            offset 60000 limit 5000) o
     where s.id = o.id;";
