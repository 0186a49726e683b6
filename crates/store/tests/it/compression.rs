//! The context of runs after a compression, large results, and titles.

use futures_util::future::join_all;
use houston_domain::agentable::DoubleTexting::Rollback;
use houston_domain::compression::CompressionReason;
use houston_domain::history::{Block, Entry};
use houston_domain::id::RunId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::run::RunStatus;
use houston_domain::step::LargeResult;
use houston_domain::step::RunTransition;
use houston_store::claim::ClaimedRun;
use houston_store::compression::{Metrics, NewCompression};
use houston_store::record::Owner;
use houston_store::run_context::RunContext;
use houston_store::step::Commit;

use crate::step::{answer, done, ending, finished};
use crate::test_store::TestStore;

fn owner(test: &TestStore, claimed: &ClaimedRun) -> Owner {
    Owner {
        tenant: test.tenant,
        user: claimed.user,
        agentable: test.goal,
        run: claimed.run,
        untrusted: false,
    }
}

/// Replaces all but the newest `remaining` entries by `summary`; `own` of these are the run's.
async fn compress(test: &TestStore, claimed: &ClaimedRun, summary: &str, remaining: usize, own: usize) {
    let metrics = Metrics { entries_before: 9, entries_after: 3, tokens_before: 900, tokens_after: 300 };
    let new = NewCompression {
        id: test.ids.next(),
        remaining_entries: remaining,
        run_entries: own,
        summary: summary.into(),
        reason: CompressionReason::Budget,
        metrics,
        model: None,
        cost: None,
        untrusted: false,
    };
    let mut tx = test.runs().begin_fenced(&claimed.fence).await.unwrap();
    tx.compress(owner(test, claimed), &new).await.unwrap();
    done(tx.commit(&test.step(claimed, RunTransition::Continue { read: false, event: None })).await.unwrap());
}

/// A complete run: a message and its answer.
async fn talk(test: &TestStore, text: &str) {
    test.post(text).await;
    let claimed = test.claim().await.unwrap();
    test.runs().commit(&claimed.fence, &answer(test, &claimed, &text.to_uppercase())).await.unwrap();
}

async fn context(test: &TestStore, run: RunId) -> RunContext {
    test.runs().run_context(test.goal, run, 10, &PromptLimits::default()).await.unwrap()
}

fn texts(context: &RunContext) -> Vec<String> {
    context.history.iter().map(Entry::text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn run_reads_newest_summary_and_rest_people_read_all() {
    let test = TestStore::start().await;
    for text in ["a", "b"] {
        talk(&test, text).await;
    }
    test.post("c").await;
    let claimed = test.claim().await.unwrap();
    compress(&test, &claimed, "first", 3, 1).await;
    let seen = context(&test, claimed.run).await;
    assert_eq!((seen.summary.as_deref(), seen.summarised_entries, seen.run_entries), (Some("first"), 0, 1));
    assert_eq!(texts(&seen), ["b", "B", "c"]);
    compress(&test, &claimed, "second", 1, 1).await;
    test.runs().commit(&claimed.fence, &answer(&test, &claimed, "C")).await.unwrap();
    let next = context(&test, test.ids.next()).await;
    assert_eq!((next.summary.as_deref(), texts(&next)), (Some("second"), vec!["c".into(), "C".into()]));

    let all = test.requests().history(test.goal, 0, 10).await.unwrap();
    assert_eq!(all.len(), 6, "nothing is deleted");
    let listed = test.requests().compressions(test.goal, None, 10).await.unwrap();
    let through: Vec<(&str, i64)> =
        listed.iter().map(|one| (one.summary.as_str(), one.through_position)).collect();
    assert_eq!(through, [("second", 4), ("first", 2)]);
    assert!(test.store.tenant(test.ids.next()).compressions(test.goal, None, 10).await.unwrap().is_empty());

    // The summaries of a closed session are not read any more.
    test.sql("update houston.run_locks set session_position = last_position where session_position = 0");
    talk(&test, "d").await;
    let fresh_session = context(&test, test.ids.next()).await;
    assert_eq!((fresh_session.summary.clone(), texts(&fresh_session)), (None, vec!["d".into(), "D".into()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_compressed_midway_keeps_its_own_entries() {
    let test = TestStore::start().await;
    talk(&test, "a").await;
    test.post("b").await;
    let claimed = test.claim().await.unwrap();
    let mut step = test.step(&claimed, RunTransition::Continue { read: false, event: None });
    step.entries = vec![
        Entry::assistant(vec![Block::text("B1")]),
        Entry::user(vec![Block::text("b2")]),
        Entry::assistant(vec![Block::text("B2")]),
        Entry::user(vec![Block::text("b3")]),
    ];
    test.runs().commit(&claimed.fence, &step).await.unwrap();
    compress(&test, &claimed, "all but the last two", 2, 5).await;
    let own = context(&test, claimed.run).await;
    assert_eq!(texts(&own), ["b", "B1", "b2", "B2", "b3"], "all entries of the run");
    assert_eq!((own.run_entries, own.summarised_entries), (5, 3), "the first are replaced by the summary");
    let others = context(&test, test.ids.next()).await;
    assert_eq!((texts(&others), others.summarised_entries), (vec!["B2".into(), "b3".into()], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_includes_the_compression_of_its_entries() {
    let test = TestStore::start().await;
    for text in ["a", "b"] {
        talk(&test, text).await;
    }
    test.post("forget this").await;
    let claimed = test.claim().await.unwrap();
    // First of entries before the run, then of entries of the run itself.
    compress(&test, &claimed, "they said a", 3, 1).await;
    let mut step = test.step(&claimed, RunTransition::Continue { read: false, event: None });
    step.entries = vec![Entry::assistant(vec![Block::text("X")]), Entry::user(vec![Block::text("x")])];
    test.runs().commit(&claimed.fence, &step).await.unwrap();
    compress(&test, &claimed, "they said a, b, forget this", 1, 3).await;
    test.try_post_as("c", Rollback, None).await.unwrap();
    let status = RunStatus::Cancelled;
    let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    test.runs().commit(&claimed.fence, &test.step(&claimed, then)).await.unwrap();
    let next = test.claim().await.unwrap();
    let seen = context(&test, next.run).await;
    assert_eq!(seen.summary.as_deref(), Some("they said a"));
    assert_eq!(texts(&seen), ["b", "B", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_result_is_stored_once_and_read_by_permitted_agents() {
    let test = TestStore::start().await;
    test.post("look").await;
    let claimed = test.claim().await.unwrap();
    let large = LargeResult {
        id: test.ids.next(),
        call: "c1".into(),
        tool: "look".into(),
        content: "seen\n".repeat(900),
    };
    let mut step = answer(&test, &claimed, "done");
    step.large_results.push(large.clone());
    assert!(!context(&test, claimed.run).await.has_results);
    assert!(matches!(test.runs().commit(&claimed.fence, &step).await.unwrap(), Commit::Done(_)));
    assert_eq!(
        test.runs().commit(&claimed.fence, &step).await.unwrap(),
        Commit::AlreadyCommitted,
        "sent again"
    );
    assert_eq!(test.sql("select count(*) from houston.tool_results").trim(), "1");
    assert!(context(&test, claimed.run).await.has_results);

    test.post("again").await;
    let claimed = test.claim().await.unwrap();
    let read = async |owner: Owner| {
        let mut tx = test.runs().begin_fenced(&claimed.fence).await.unwrap();
        test.rows(&mut tx, owner).large_result(large.id).await.unwrap()
    };
    let own = owner(&test, &claimed);
    let seen = read(own).await.expect("the agentable may read its own result");
    assert_eq!((seen.content, seen.tool.as_str()), (large.content.clone(), "look"));
    // A task may read the results of the agentable that created it, and the reverse; no other agentable may.
    let insert = "insert into houston.agentables (id, tenant_id, user_id, kind, title, parent_id, depth)
                select gen_random_uuid(), tenant_id, user_id, 'task', 'x', PARENT from houston.agentables
                 where kind = 'goal' returning id";
    let child = test.sql(&insert.replace("PARENT", "id, 1"));
    let stranger =
        test.sql(&insert.replace("PARENT", "null, 0").replace("kind = 'goal' ", "kind = 'goal' limit 1 "));
    let as_of = |id: &str| Owner { agentable: uuid::Uuid::parse_str(id.trim()).unwrap().into(), ..own };
    assert!(read(as_of(&child)).await.is_some());
    assert!(read(as_of(&stranger)).await.is_none());
    let other_tenant = Owner { tenant: test.ids.next(), ..own };
    assert!(read(other_tenant).await.is_none());
    test.sql(&format!(
        "update houston.tool_results set agentable_id = '{c}', parent_id = '{g}'",
        c = child.trim(),
        g = test.goal.0
    ));
    assert!(read(own).await.is_some(), "the result of a task");
    assert!(context(&test, claimed.run).await.has_results);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_titles_are_set_once() {
    let test = TestStore::start().await;
    test.sql("update houston.agentables set title = ''");
    let patience = std::time::Duration::from_secs(60);
    let request = async || test.runs().request_title(test.goal, 3, patience).await.unwrap();
    let take =
        async |agentable| test.runs().take_title_requests(agentable, patience, (6, 100), 10).await.unwrap();
    for text in ["a", "b"] {
        talk(&test, text).await;
        assert!(!request().await, "not yet");
    }
    talk(&test, "c").await;
    assert!(request().await && request().await);
    assert!(take(None).await.is_empty(), "the worker of its run may take it first");
    let taken = take(Some(test.goal)).await;
    let texts: Vec<&str> = taken[0].messages.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["a", "A", "b", "B", "c", "C"]);
    assert!(take(Some(test.goal)).await.is_empty(), "another worker has it");
    test.sql("update houston.title_requests set due_at = now() - interval '1 s'");
    assert_eq!(take(None).await.len(), 1, "the worker that had it died");

    let before = test.requests().open_stream("goal", test.goal, None, 1).await.unwrap().0.last_seq;
    let racing = (0..20).map(|nth| {
        let (store, goal) = (test.store.clone(), test.goal);
        async move { store.runs().set_title(goal, &format!("title {nth}"), &[]).await.unwrap() }
    });
    let set: Vec<_> = join_all(racing).await.into_iter().flatten().collect();
    assert_eq!(set.len(), 1, "{set:?}");
    let events = test.requests().events_after(test.goal, before, 10).await.unwrap();
    assert_eq!(events, set, "the returned event is the stored one");
    assert!(!request().await, "it has a title");
}
