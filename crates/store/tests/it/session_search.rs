//! What agents find again of what was said.

use chrono::NaiveDate;
use houston_domain::id::SessionId;
use houston_domain::session::{CompletionReason, HistoryQuery, Timeframe};
use houston_domain::tool_call::{Record, ToolErrorCode, ToolResponse};
use houston_store::claim::Claimed;
use houston_store::record::Owner;
use houston_store::session::Closed;
use houston_store::session_summary::NewSummary;
use houston_store::step::RunTransition;

use crate::fresh::Fresh;
use crate::sessions::{archiving, exchange, two_hours_pass};

/// A closed session with this summary and conversation.
async fn session(fresh: &Fresh, summary: &str, conversation: &str) -> SessionId {
    exchange(fresh, conversation).await;
    let id = fresh.ids.next();
    let closed = fresh.store.close_session(fresh.goal, CompletionReason::Reset, id).await.unwrap();
    assert_eq!(closed, Closed::Now(id));
    let new =
        NewSummary { summary: Some(summary), call: None, message_count: 2, token_count: 9, conversation };
    assert!(fresh.store.write_summary(id, &new).await.unwrap());
    id
}

async fn ask(fresh: &Fresh, claimed: &Claimed, query: HistoryQuery) -> ToolResponse {
    let Claimed { tenant, user, run, fence, .. } = claimed;
    let owner = Owner { tenant: *tenant, user: *user, agentable: fence.agentable, run: *run };
    let mut tx = fresh.store.begin_fenced(fence).await.unwrap();
    let answer = tx.record(owner, fresh.ids.next(), &Record::SessionHistory(query)).await.unwrap();
    tx.commit(&fresh.step(claimed, RunTransition::Continue { read: false, event: None })).await.unwrap();
    answer
}

fn search(query: &str) -> HistoryQuery {
    HistoryQuery::Search { query: query.into(), timeframe: None, from: None, to: None }
}

/// The sessions found, best first.
async fn found(fresh: &Fresh, claimed: &Claimed, query: HistoryQuery) -> Vec<SessionId> {
    let answer = ask(fresh, claimed, query).await;
    assert!(answer.is_success(), "{answer:?}");
    answer.text().lines().filter_map(|line| line.split_once(':')?.0.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_what_was_said_whatever_the_ending_or_the_slip_of_the_pen() {
    let fresh = archiving().await;
    let money =
        session(&fresh, "They sorted the household finances.", "how much is the rent of the flat").await;
    let trip =
        session(&fresh, "A journey to Kyoto was booked.", "the ryokan near the Nishiki market, über Osaka")
            .await;
    let both = session(&fresh, "The journey's finances: 900 EUR.", "trains are expensive").await;
    fresh.post("what about last time?").await;
    let claimed = fresh.claim().await.unwrap();
    for (query, expected) in [
        ("ryokan", vec![trip]),
        ("RENT", vec![money]),
        ("finances", vec![both, money]),
        // Another ending, then a slip of the pen.
        ("financial matters", vec![both, money]),
        ("finanzes", vec![both, money]),
        ("jurney", vec![both, trip]),
        ("über", vec![trip]),
        // What has all words comes before what has one.
        ("journey to Kyoto", vec![trip, both]),
        ("nishiki's \\ market & 'x' | ! <-> :*", vec![trip]),
        ("dentist", vec![]),
        ("?!", vec![]),
    ] {
        let mut got = found(&fresh, &claimed, search(query)).await;
        if query != "journey to Kyoto" {
            got.sort();
        }
        let mut expected = expected;
        if query != "journey to Kyoto" {
            expected.sort();
        }
        assert_eq!(got, expected, "{query}");
    }
    let told = ask(&fresh, &claimed, search("ryokan")).await;
    assert!(told.text().contains("2 messages\nA journey to Kyoto was booked."), "{}", told.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_five_of_many_are_found_and_none_of_another_agentable() {
    let mut fresh = archiving().await;
    let mut mine = Vec::new();
    for nth in 0..7 {
        mine.push(session(&fresh, "They talked of the weather.", &format!("weather {nth}")).await);
    }
    let (first, ids) = (fresh.goal, &fresh.ids);
    fresh.goal = crate::fresh::goal(&fresh.store, ids, fresh.tenant).await;
    session(&fresh, "They talked of the weather and of snow.", "snow").await;
    fresh.goal = first;
    fresh.post("and the weather?").await;
    let claimed = fresh.claim().await.unwrap();
    mine.reverse();
    assert_eq!(found(&fresh, &claimed, search("weather")).await, mine[..5]);
    assert!(found(&fresh, &claimed, search("snow")).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeframe_is_that_of_the_user() {
    let fresh = archiving().await;
    fresh.sql("update houston.users set time_zone = 'Pacific/Auckland'");
    let session = session(&fresh, "They talked of boats.", "boats").await;
    fresh.post("when was it?").await;
    let claimed = fresh.claim().await.unwrap();
    // When each timeframe begins, and a second before it; `yesterday` also ends.
    let day = "date_trunc('day', clock_timestamp() at time zone 'Pacific/Auckland')";
    for (timeframe, since, until) in [
        (Timeframe::Today, day.to_owned(), None),
        (Timeframe::Yesterday, format!("{day} - interval '1 day'"), Some(day)),
        (Timeframe::LastWeek, format!("date_trunc('week', {day}) - interval '1 week'"), None),
        (Timeframe::LastMonth, format!("date_trunc('month', {day}) - interval '1 month'"), None),
        (Timeframe::LastYear, format!("date_trunc('year', {day}) - interval '1 year'"), None),
    ] {
        let look = async |at: &str, shift: &str| {
            fresh.sql(&format!(
                "update houston.sessions
                    set started_at = ({at}) at time zone 'Pacific/Auckland' + interval '{shift}',
                        completed_at = ({at}) at time zone 'Pacific/Auckland' + interval '{shift}'"
            ));
            let query = HistoryQuery::Search {
                query: "boats".into(),
                timeframe: Some(timeframe),
                from: None,
                to: None,
            };
            !found(&fresh, &claimed, query).await.is_empty()
        };
        assert!(look(&since, "0 s").await, "{timeframe:?}");
        assert!(!look(&since, "-1 s").await, "before {timeframe:?}");
        if let Some(until) = until {
            assert!(look(until, "-1 s").await && !look(until, "0 s").await, "the end of {timeframe:?}");
        }
    }
    fresh.sql("update houston.users set time_zone = 'Atlantis/Capital'");
    let lost = HistoryQuery::Search {
        query: "boats".into(),
        timeframe: Some(Timeframe::LastYear),
        from: None,
        to: None,
    };
    assert!(ask(&fresh, &claimed, lost).await.is_success(), "a name Postgres does not know is UTC");
    fresh.sql("update houston.users set time_zone = 'Pacific/Auckland'");
    // The 3rd in Auckland begins on the 2nd in UTC.
    fresh.sql("update houston.sessions set started_at = '2026-03-02 12:00+00', completed_at = '2026-03-02 12:00+00'");
    for (from, to, is_found) in [(3, 3, true), (1, 2, false), (4, 9, false), (1, 9, true)] {
        let date = |day| NaiveDate::from_ymd_opt(2026, 3, day);
        let query =
            HistoryQuery::Search { query: "boats".into(), timeframe: None, from: date(from), to: date(to) };
        let expected = if is_found { vec![session] } else { vec![] };
        assert_eq!(found(&fresh, &claimed, query).await, expected, "{from} to {to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_read_page_by_page_by_its_own_agentable() {
    let mut fresh = archiving().await;
    for nth in 0..12 {
        exchange(&fresh, &format!("question {nth}")).await;
    }
    two_hours_pass(&fresh);
    let id: SessionId = fresh.ids.next();
    assert!(fresh.store.close_quiet(fresh.goal, id).await.unwrap());
    fresh.post("what did I ask?").await;
    let claimed = fresh.claim().await.unwrap();
    let first = ask(&fresh, &claimed, HistoryQuery::Read { session: id, after: 0 }).await;
    assert!(first.text().starts_with("user: question 0\nyou: about question 0\n"), "{}", first.text());
    assert!(first.text().ends_with("`after` set to 20."), "{}", first.text());
    let rest = ask(&fresh, &claimed, HistoryQuery::Read { session: id, after: 20 }).await;
    assert!(rest.text().starts_with("user: question 10\n"), "{}", rest.text());
    assert!(rest.text().ends_with("you: about question 11"), "and no further: {}", rest.text());
    fresh.sql("update houston.history set rolled_back = true where position between 21 and 24");
    let only = ask(&fresh, &claimed, HistoryQuery::Read { session: id, after: 0 }).await;
    assert!(only.text().ends_with("you: about question 9"), "nothing is left to read on: {}", only.text());
    fresh.goal = crate::fresh::goal(&fresh.store, &fresh.ids, fresh.tenant).await;
    fresh.post("let me see").await;
    let claimed = fresh.claim().await.unwrap();
    let refused = ask(&fresh, &claimed, HistoryQuery::Read { session: id, after: 0 }).await;
    assert!(matches!(refused, ToolResponse::Failure { code: ToolErrorCode::NotFound, .. }), "{refused:?}");
}
