//! What a run starts from once its session was compressed, and what is kept beside the history.

use futures_util::future::join_all;
use houston_domain::agentable::DoubleTexting::Rollback;
use houston_domain::compression::Reason;
use houston_domain::history::{Block, Entry};
use houston_domain::id::RunId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{Record, ToolResponse};
use houston_domain::tool_result::Reading;
use houston_store::claim::Claimed;
use houston_store::compression::{Metrics, NewCompression};
use houston_store::history::RunContext;
use houston_store::record::Owner;
use houston_store::step::{Commit, RunTransition};
use houston_store::tool_result::LargeResult;

use crate::fresh::Fresh;
use crate::step::{answer, done, ending, finished};

fn owner(fresh: &Fresh, claimed: &Claimed) -> Owner {
    Owner { tenant: fresh.tenant, user: claimed.user, agentable: fresh.goal, run: claimed.run }
}

/// Puts `summary` in the place of all but the newest `kept` entries, `own` of which are the run's.
async fn compress(fresh: &Fresh, claimed: &Claimed, summary: &str, kept: usize, own: usize) {
    let metrics = Metrics { entries_before: 9, entries_after: 3, tokens_before: 900, tokens_after: 300 };
    let new = NewCompression {
        id: fresh.ids.next(),
        kept,
        own,
        summary: summary.into(),
        reason: Reason::Budget,
        metrics,
        model: None,
        cost: None,
    };
    let mut tx = fresh.store.begin_fenced(&claimed.fence).await.unwrap();
    tx.compress(owner(fresh, claimed), &new).await.unwrap();
    done(tx.commit(&fresh.step(claimed, RunTransition::Continue { read: false, event: None })).await.unwrap());
}

/// A whole run: a message and its answer.
async fn talk(fresh: &Fresh, text: &str) {
    fresh.post(text).await;
    let claimed = fresh.claim().await.unwrap();
    fresh.store.commit(&claimed.fence, &answer(fresh, &claimed, &text.to_uppercase())).await.unwrap();
}

async fn context(fresh: &Fresh, run: RunId) -> RunContext {
    fresh.store.run_context(fresh.goal, run, 10, &PromptLimits::default()).await.unwrap()
}

fn texts(context: &RunContext) -> Vec<String> {
    context.history.iter().map(Entry::text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_the_newest_summary_and_what_comes_after_it_and_people_read_all() {
    let fresh = Fresh::start().await;
    for text in ["a", "b"] {
        talk(&fresh, text).await;
    }
    fresh.post("c").await;
    let claimed = fresh.claim().await.unwrap();
    compress(&fresh, &claimed, "first", 3, 1).await;
    let seen = context(&fresh, claimed.run).await;
    assert_eq!((seen.summary.as_deref(), seen.folded, seen.of_this_run), (Some("first"), 0, 1));
    assert_eq!(texts(&seen), ["b", "B", "c"]);
    compress(&fresh, &claimed, "second", 1, 1).await;
    fresh.store.commit(&claimed.fence, &answer(&fresh, &claimed, "C")).await.unwrap();
    let next = context(&fresh, fresh.ids.next()).await;
    assert_eq!((next.summary.as_deref(), texts(&next)), (Some("second"), vec!["c".into(), "C".into()]));

    let all = fresh.store.history(fresh.tenant, fresh.goal, 0, 10).await.unwrap();
    assert_eq!(all.len(), 6, "nothing is deleted");
    let listed = fresh.store.compressions(fresh.tenant, fresh.goal, None, 10).await.unwrap();
    let through: Vec<(&str, i64)> =
        listed.iter().map(|one| (one.summary.as_str(), one.through_position)).collect();
    assert_eq!(through, [("second", 4), ("first", 2)]);
    assert!(fresh.store.compressions(fresh.ids.next(), fresh.goal, None, 10).await.unwrap().is_empty());

    // A session that is closed takes its summaries along.
    fresh.sql("update houston.run_locks set session_position = last_position where session_position = 0");
    talk(&fresh, "d").await;
    let fresh_session = context(&fresh, fresh.ids.next()).await;
    assert_eq!((fresh_session.summary.clone(), texts(&fresh_session)), (None, vec!["d".into(), "D".into()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_compressed_in_its_middle_still_knows_what_it_did() {
    let fresh = Fresh::start().await;
    talk(&fresh, "a").await;
    fresh.post("b").await;
    let claimed = fresh.claim().await.unwrap();
    let mut step = fresh.step(&claimed, RunTransition::Continue { read: false, event: None });
    step.entries = vec![
        Entry::assistant(vec![Block::text("B1")]),
        Entry::user(vec![Block::text("b2")]),
        Entry::assistant(vec![Block::text("B2")]),
        Entry::user(vec![Block::text("b3")]),
    ];
    fresh.store.commit(&claimed.fence, &step).await.unwrap();
    compress(&fresh, &claimed, "all but the last two", 2, 5).await;
    let own = context(&fresh, claimed.run).await;
    assert_eq!(texts(&own), ["b", "B1", "b2", "B2", "b3"], "all of the run's own");
    assert_eq!((own.of_this_run, own.folded), (5, 3), "of which the first are not sent");
    let others = context(&fresh, fresh.ids.next()).await;
    assert_eq!((texts(&others), others.folded), (vec!["B2".into(), "b3".into()], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_of_what_is_rolled_back_is_rolled_back_with_it() {
    let fresh = Fresh::start().await;
    for text in ["a", "b"] {
        talk(&fresh, text).await;
    }
    fresh.post("forget this").await;
    let claimed = fresh.claim().await.unwrap();
    // Of what was before the run, then of the run itself.
    compress(&fresh, &claimed, "they said a", 3, 1).await;
    let mut step = fresh.step(&claimed, RunTransition::Continue { read: false, event: None });
    step.entries = vec![Entry::assistant(vec![Block::text("X")]), Entry::user(vec![Block::text("x")])];
    fresh.store.commit(&claimed.fence, &step).await.unwrap();
    compress(&fresh, &claimed, "they said a, b, forget this", 1, 3).await;
    fresh.try_post_as("c", Rollback, None).await.unwrap();
    let status = RunStatus::Cancelled;
    let then = RunTransition::Terminate { event: finished(status), ending: ending(&fresh, status) };
    fresh.store.commit(&claimed.fence, &fresh.step(&claimed, then)).await.unwrap();
    let next = fresh.claim().await.unwrap();
    let seen = context(&fresh, next.run).await;
    assert_eq!(seen.summary.as_deref(), Some("they said a"));
    assert_eq!(texts(&seen), ["b", "B", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_kept_once_with_its_step_and_read_by_those_who_may() {
    let fresh = Fresh::start().await;
    fresh.post("look").await;
    let claimed = fresh.claim().await.unwrap();
    let large =
        LargeResult { id: fresh.ids.next(), call: "c1".into(), tool: "look".into(), content: "seen\n".repeat(900) };
    let mut step = answer(&fresh, &claimed, "done");
    step.large_results.push(large.clone());
    assert!(!context(&fresh, claimed.run).await.has_results);
    assert!(matches!(fresh.store.commit(&claimed.fence, &step).await.unwrap(), Commit::Done(_)));
    assert_eq!(fresh.store.commit(&claimed.fence, &step).await.unwrap(), Commit::Landed, "sent again");
    assert_eq!(fresh.sql("select count(*) from houston.tool_results").trim(), "1");
    assert!(context(&fresh, claimed.run).await.has_results);

    fresh.post("again").await;
    let claimed = fresh.claim().await.unwrap();
    let read = async |owner: Owner| {
        let record = Record::ReadResult { id: large.id, reading: Reading::Line(2), most: 600 };
        let mut tx = fresh.store.begin_fenced(&claimed.fence).await.unwrap();
        tx.record(owner, uuid::Uuid::nil(), &record).await.unwrap()
    };
    let own = owner(&fresh, &claimed);
    let ToolResponse::Success { observation } = read(own).await else { panic!("it is its own") };
    assert!(observation.starts_with("seen\nseen\n") && observation.contains("[bytes 5 to"), "{observation}");
    // A sub-agent reads what the one it works for was answered, and the other way round; nobody else does.
    let made = "insert into houston.agentables (id, tenant_id, user_id, kind, title, parent_id, depth)
                select gen_random_uuid(), tenant_id, user_id, 'task', 'x', PARENT from houston.agentables
                 where kind = 'goal' returning id";
    let child = fresh.sql(&made.replace("PARENT", "id, 1"));
    let stranger =
        fresh.sql(&made.replace("PARENT", "null, 0").replace("kind = 'goal' ", "kind = 'goal' limit 1 "));
    let as_of = |id: &str| Owner { agentable: uuid::Uuid::parse_str(id.trim()).unwrap().into(), ..own };
    assert!(read(as_of(&child)).await.is_success());
    assert!(!read(as_of(&stranger)).await.is_success());
    let other_tenant = Owner { tenant: fresh.ids.next(), ..own };
    assert!(!read(other_tenant).await.is_success());
    fresh.sql(&format!(
        "update houston.tool_results set agentable_id = '{c}', parent_id = '{g}'",
        c = child.trim(),
        g = fresh.goal.0
    ));
    assert!(read(own).await.is_success(), "what a sub-agent was answered");
    assert!(context(&fresh, claimed.run).await.has_results);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_find_a_title_one_sets_it() {
    let fresh = Fresh::start().await;
    fresh.sql("update houston.agentables set title = ''");
    let patience = std::time::Duration::from_secs(60);
    let request = async || fresh.store.request_title(fresh.goal, 3, patience).await.unwrap();
    let take =
        async |agentable| fresh.store.take_title_requests(agentable, patience, (6, 100), 10).await.unwrap();
    for text in ["a", "b"] {
        talk(&fresh, text).await;
        assert!(!request().await, "not yet");
    }
    talk(&fresh, "c").await;
    assert!(request().await && request().await);
    assert!(take(None).await.is_empty(), "its own worker comes first");
    let taken = take(Some(fresh.goal)).await;
    let texts: Vec<&str> = taken[0].messages.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["a", "A", "b", "B", "c", "C"]);
    assert!(take(Some(fresh.goal)).await.is_empty(), "somebody is at it");
    fresh.sql("update houston.title_requests set due_at = now() - interval '1 s'");
    assert_eq!(take(None).await.len(), 1, "who was at it died");

    let before = fresh.store.stream_head(fresh.tenant, "goal", fresh.goal).await.unwrap().last_seq;
    let racing = (0..20).map(|nth| {
        let (store, goal, write) = (fresh.store.clone(), fresh.goal, fresh.ids.next());
        async move { store.set_title(goal, &format!("title {nth}"), write, None).await.unwrap() }
    });
    let set: Vec<_> = join_all(racing).await.into_iter().flatten().collect();
    assert_eq!(set.len(), 1, "{set:?}");
    let told = fresh.store.events_after(fresh.goal, before, 10).await.unwrap();
    assert_eq!(told, set, "streams are told the truth");
    assert!(!request().await, "it has one");
}
