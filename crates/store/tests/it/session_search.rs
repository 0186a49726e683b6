//! Searching and reading closed sessions.

use chrono::NaiveDate;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::SessionId;
use houston_domain::session::{CompletionReason, SessionSearch, Timeframe};
use houston_domain::step::RunTransition;
use houston_store::claim::ClaimedRun;
use houston_store::record::{FencedTx, Owner};
use houston_store::session_search::FoundSession;
use houston_store::session_summary::NewSummary;

use crate::sessions::{archiving, close, exchange, two_hours_pass};
use crate::test_store::TestStore;

/// A closed session with this summary and conversation.
async fn session(test: &TestStore, summary: &str, conversation: &str) -> SessionId {
    exchange(test, conversation).await;
    let id = test.ids.next();
    assert_eq!(close(test, CompletionReason::Reset, id).await, "closed");
    let new = NewSummary {
        summary: Some(summary),
        calls: &[],
        message_count: 2,
        token_count: 9,
        conversation,
        untrusted: false,
    };
    assert!(test.runs().write_summary(id, &new).await.unwrap());
    id
}

async fn begin(test: &TestStore, claimed: &ClaimedRun) -> (FencedTx, Owner) {
    let ClaimedRun { tenant, user, run, fence, .. } = claimed;
    let owner =
        Owner { tenant: *tenant, user: *user, agentable: fence.agentable, run: *run, untrusted: false };
    (test.runs().begin_fenced(fence).await.unwrap(), owner)
}

async fn find(test: &TestStore, claimed: &ClaimedRun, search: SessionSearch) -> Vec<FoundSession> {
    let (mut tx, owner) = begin(test, claimed).await;
    let found = test.rows(&mut tx, owner).find_sessions(&search).await.unwrap();
    tx.commit(&test.step(claimed, RunTransition::Continue { read: false, event: None })).await.unwrap();
    found
}

/// The texts of entries of a session, with those who said them.
async fn entries(
    test: &TestStore,
    claimed: &ClaimedRun,
    session: SessionId,
    after: i64,
) -> Vec<(i64, Role, String)> {
    let (mut tx, owner) = begin(test, claimed).await;
    let entries = test.rows(&mut tx, owner).session_entries(session, after).await.unwrap();
    let text = |content: Vec<Block>| Entry { role: Role::User, content }.text();
    entries.into_iter().map(|entry| (entry.position, entry.role, text(entry.content))).collect()
}

fn search(query: &str) -> SessionSearch {
    SessionSearch { query: query.into(), timeframe: None, from: None, to: None }
}

/// The sessions found, best first.
async fn found(test: &TestStore, claimed: &ClaimedRun, search: SessionSearch) -> Vec<SessionId> {
    find(test, claimed, search).await.into_iter().map(|session| session.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_sessions_despite_inflections_and_typos() {
    let test = archiving().await;
    let money =
        session(&test, "They sorted the household finances.", "how much is the rent of the flat").await;
    let trip =
        session(&test, "A journey to Kyoto was booked.", "the ryokan near the Nishiki market, über Osaka")
            .await;
    let both = session(&test, "The journey's finances: 900 EUR.", "trains are expensive").await;
    test.post("what about last time?").await;
    let claimed = test.claim().await.unwrap();
    for (query, expected) in [
        ("ryokan", vec![trip]),
        ("RENT", vec![money]),
        ("finances", vec![both, money]),
        // An inflected form, then a typo.
        ("financial matters", vec![both, money]),
        ("finanzes", vec![both, money]),
        ("jurney", vec![both, trip]),
        ("über", vec![trip]),
        // A match of all words ranks above a match of one.
        ("journey to Kyoto", vec![trip, both]),
        ("nishiki's \\ market & 'x' | ! <-> :*", vec![trip]),
        ("dentist", vec![]),
        ("?!", vec![]),
    ] {
        let mut got = found(&test, &claimed, search(query)).await;
        if query != "journey to Kyoto" {
            got.sort();
        }
        let mut expected = expected;
        if query != "journey to Kyoto" {
            expected.sort();
        }
        assert_eq!(got, expected, "{query}");
    }
    let found = find(&test, &claimed, search("ryokan")).await.remove(0);
    assert_eq!((found.message_count, found.summary.as_str()), (Some(2), "A journey to Kyoto was booked."));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_returns_newest_five_of_the_same_agentable() {
    let mut test = archiving().await;
    let mut mine = Vec::new();
    for nth in 0..7 {
        mine.push(session(&test, "They talked of the weather.", &format!("weather {nth}")).await);
    }
    let (first, ids) = (test.goal, &test.ids);
    test.goal = crate::test_store::goal(&test.store, ids, test.tenant).await;
    session(&test, "They talked of the weather and of snow.", "snow").await;
    test.goal = first;
    test.post("and the weather?").await;
    let claimed = test.claim().await.unwrap();
    mine.reverse();
    assert_eq!(found(&test, &claimed, search("weather")).await, mine[..5]);
    assert!(found(&test, &claimed, search("snow")).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn timeframe_uses_the_users_time_zone() {
    let test = archiving().await;
    test.sql("update houston.users set time_zone = 'Pacific/Auckland'");
    let session = session(&test, "They talked of boats.", "boats").await;
    test.post("when was it?").await;
    let claimed = test.claim().await.unwrap();
    // The beginning of each timeframe, and a second before it; `yesterday` also has an end.
    let day = "date_trunc('day', clock_timestamp() at time zone 'Pacific/Auckland')";
    for (timeframe, since, until) in [
        (Timeframe::Today, day.to_owned(), None),
        (Timeframe::Yesterday, format!("{day} - interval '1 day'"), Some(day)),
        (Timeframe::LastWeek, format!("date_trunc('week', {day}) - interval '1 week'"), None),
        (Timeframe::LastMonth, format!("date_trunc('month', {day}) - interval '1 month'"), None),
        (Timeframe::LastYear, format!("date_trunc('year', {day}) - interval '1 year'"), None),
    ] {
        let look = async |at: &str, shift: &str| {
            test.sql(&format!(
                "update houston.sessions
                    set started_at = ({at}) at time zone 'Pacific/Auckland' + interval '{shift}',
                        completed_at = ({at}) at time zone 'Pacific/Auckland' + interval '{shift}'"
            ));
            let query = SessionSearch { timeframe: Some(timeframe), ..search("boats") };
            !found(&test, &claimed, query).await.is_empty()
        };
        assert!(look(&since, "0 s").await, "{timeframe:?}");
        assert!(!look(&since, "-1 s").await, "before {timeframe:?}");
        if let Some(until) = until {
            assert!(look(until, "-1 s").await && !look(until, "0 s").await, "the end of {timeframe:?}");
        }
    }
    test.sql("update houston.users set time_zone = 'Atlantis/Capital'");
    let lost = SessionSearch { timeframe: Some(Timeframe::LastYear), ..search("boats") };
    // An unrecognised time zone counts as UTC.
    find(&test, &claimed, lost).await;
    test.sql("update houston.users set time_zone = 'Pacific/Auckland'");
    // The 3rd in Auckland begins on the 2nd in UTC.
    test.sql("update houston.sessions set started_at = '2026-03-02 12:00+00', completed_at = '2026-03-02 12:00+00'");
    for (from, to, is_found) in [(3, 3, true), (1, 2, false), (4, 9, false), (1, 9, true)] {
        let date = |day| NaiveDate::from_ymd_opt(2026, 3, day);
        let query = SessionSearch { from: date(from), to: date(to), ..search("boats") };
        let expected = if is_found { vec![session] } else { vec![] };
        assert_eq!(found(&test, &claimed, query).await, expected, "{from} to {to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_read_in_pages_only_by_its_agentable() {
    let mut test = archiving().await;
    for nth in 0..12 {
        exchange(&test, &format!("question {nth}")).await;
    }
    two_hours_pass(&test);
    let id: SessionId = test.ids.next();
    assert!(test.runs().close_quiet(test.goal, id).await.unwrap());
    test.post("what did I ask?").await;
    let claimed = test.claim().await.unwrap();
    let first = entries(&test, &claimed, id, 0).await;
    assert_eq!(first[0], (1, Role::User, "question 0".to_owned()));
    assert_eq!(first[1], (2, Role::Assistant, "about question 0".to_owned()));
    assert_eq!(first.len(), 21, "a page of 20, and one that says there are more");
    let rest = entries(&test, &claimed, id, 20).await;
    let texts: Vec<&str> = rest.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(texts, ["question 10", "about question 10", "question 11", "about question 11"]);
    test.sql("update houston.history set rolled_back = true where position between 21 and 24");
    let only = entries(&test, &claimed, id, 0).await;
    assert_eq!((only.len(), only[19].2.as_str()), (20, "about question 9"), "there is no next page");
    test.goal = crate::test_store::goal(&test.store, &test.ids, test.tenant).await;
    test.post("let me see").await;
    let claimed = test.claim().await.unwrap();
    assert_eq!(entries(&test, &claimed, id, 0).await, [], "it belongs to another agentable");
}
