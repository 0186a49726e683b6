//! Posts, claims and steps in one commit: no item suffers from another.

use futures_util::future::join_all;
use houston_domain::history::{Block, Entry};
use houston_domain::id::AgentableId;
use houston_domain::step::Step;
use houston_store::claim::{ClaimedRun, CrashPolicy, Fence};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::message::{NewPost, Posted};
use houston_store::step::Commit;
use houston_store::{Error, Fairness, Store};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::fairness::goals_of;
use crate::step::{answer, done};
use crate::test_store::{ClaimRun as _, TestStore, goal};

/// Claims a run of each of `count` new goals.
async fn claimed(test: &TestStore, count: usize) -> Vec<ClaimedRun> {
    let mut claimed = Vec::new();
    for _ in 0..count {
        let goal = goal(&test.store, &test.ids, test.tenant).await;
        test.post_to(goal, "hi").await.unwrap();
        claimed.push(test.claim_of(goal).await.unwrap());
    }
    claimed
}

pub(crate) async fn commit_all(
    test: &TestStore,
    steps: &[(Fence, Step)],
) -> Vec<houston_store::Result<Commit>> {
    join_all(steps.iter().map(|(fence, step)| test.runs().commit(fence, step))).await
}

/// The number of transactions that wrote the rows of a table.
pub(crate) fn transactions(test: &TestStore, table: &str) -> usize {
    test.sql(&format!("select count(distinct xmin::text) from houston.{table}")).trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_and_steps_submitted_together_share_commits() {
    let test = TestStore::start().await;
    let mut goals = Vec::new();
    for _ in 0..64 {
        goals.push(goal(&test.store, &test.ids, test.tenant).await);
    }
    let posted = join_all(goals.iter().map(|goal| test.post_to(*goal, "hi"))).await;
    assert!(posted.into_iter().all(|posted| posted.is_ok()));
    // The first batches have few items, since nothing else is queued yet.
    assert!(transactions(&test, "runs") <= 16, "{}", transactions(&test, "runs"));
    let mut steps = Vec::new();
    for goal in goals {
        let run = test.claim_of(goal).await.unwrap();
        steps.push((run.fence, answer(&test, &run, "hello")));
    }
    for result in commit_all(&test, &steps).await {
        done(result.unwrap());
    }
    assert!(transactions(&test, "runs") <= 16, "{}", transactions(&test, "runs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn post_whose_outcome_was_unknown_is_stored_once() {
    let test = TestStore::start().await;
    // The second message joins the run that the first one opens.
    for (content, opened) in [("one", true), ("two", false)] {
        let post = NewPost::new(test.ids.next(), test.ids.next(), content, json!({}));
        let Created::New(first) = test.requests().post_message(test.goal, &post, None).await.unwrap() else {
            panic!("the message is new");
        };
        assert_eq!(first.opened, opened);
        // The answer to the batch was lost: the same post is sent by itself.
        let again = test.requests().post_message(test.goal, &post, None).await.unwrap();
        assert_eq!(again, Created::New(Posted { needs_hint: true, ..first }));
    }
    assert_eq!(test.sql("select count(*) from houston.messages").trim(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_and_refused_steps_spoil_no_other() {
    let test = TestStore::start().await;
    let runs = claimed(&test, 32).await;
    let mut steps: Vec<(Fence, Step)> =
        runs.iter().map(|run| (run.fence, answer(&test, run, "hello"))).collect();
    // One was taken over by another worker, one has a text that Postgres refuses.
    steps[7].0.epoch -= 1;
    steps[11].1.entries = vec![Entry::assistant(vec![Block::text("\0")])];
    let results = commit_all(&test, &steps).await;
    for (nth, result) in results.into_iter().enumerate() {
        match nth {
            7 => assert!(matches!(result, Err(Error::Fenced)), "{result:?}"),
            11 => assert!(matches!(result, Err(Error::Database(_))), "{result:?}"),
            _ => assert_eq!(done(result.unwrap()).events.len(), 2),
        }
    }
    let unfinished = format!("{}|{}", runs[7].run.0, runs[11].run.0);
    let open = "select id from houston.runs where ended_at is null order by id";
    let mut expected: Vec<&str> = unfinished.split('|').collect();
    expected.sort_unstable();
    assert_eq!(test.sql(open).split_whitespace().collect::<Vec<_>>(), expected);
    let again = commit_all(&test, &steps[..7]).await;
    assert!(again.into_iter().all(|again| again.unwrap() == Commit::AlreadyCommitted));
    assert_eq!(test.sql("select count(*) from houston.messages where source = 'agent'").trim(), "30");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_post_spoils_no_other() {
    let test = TestStore::start().await;
    let mut goals = Vec::new();
    for _ in 0..31 {
        goals.push(goal(&test.store, &test.ids, test.tenant).await);
    }
    let text = |nth: usize| if nth == 13 { "\0" } else { "hi" };
    let posts = goals.iter().enumerate().map(|(nth, goal)| test.post_to(*goal, text(nth)));
    for (nth, posted) in join_all(posts.collect::<Vec<_>>()).await.into_iter().enumerate() {
        match posted {
            Err(Error::Database(_)) => assert_eq!(nth, 13),
            posted => assert!(matches!(posted, Ok(Created::New(_))) && nth != 13, "{nth}: {posted:?}"),
        }
    }
    assert_eq!(
        test.sql("select count(*), count(distinct agentable_id) from houston.messages").trim(),
        "30|30"
    );
    let half = "select count(*) from houston.run_locks where run_open or wake or last_seq > 0 or unread > 0";
    assert_eq!(test.sql(half).trim(), "30", "the refused one left nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_held_and_locked_rows_spoil_no_other() {
    let test = TestStore::start().await;
    let mut goals = Vec::new();
    for _ in 0..32 {
        let goal = goal(&test.store, &test.ids, test.tenant).await;
        test.post_to(goal, "hi").await.unwrap();
        goals.push(goal);
    }
    // One is driven already, and the row of another is locked by a transaction that takes its time.
    let driven = test.claim_of(goals[5]).await.unwrap();
    let mut application = PgConnection::connect(test.database.url()).await.unwrap();
    let mut tx = application.begin().await.unwrap();
    let lock = "select from houston.run_locks where agentable_id = $1 for update";
    sqlx::query(lock).bind(goals[9].0).execute(&mut *tx).await.unwrap();
    let (locked, others): (Vec<_>, Vec<_>) = goals.iter().partition(|goal| **goal == goals[9]);
    let mut waits = std::pin::pin!(claim_all(&test, &locked, &test.store));
    let claimed = tokio::select! {
        biased;
        claimed = &mut waits => panic!("{claimed:?} although its row is locked"),
        claimed = claim_all(&test, &others, &test.store) => claimed,
    };
    assert_eq!(claimed.len(), 30);
    assert!(claimed.iter().all(|run| run.run != driven.run && run.fence.epoch == 1));
    tx.rollback().await.unwrap();
    assert_eq!(waits.await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_row_delays_only_its_own_step() {
    let test = TestStore::start().await;
    let runs = claimed(&test, 8).await;
    let mut steps: Vec<(Fence, Step)> =
        runs.iter().map(|run| (run.fence, answer(&test, run, "hello"))).collect();
    let (fence, step) = steps.remove(3);
    let held = test.runs().begin_fenced(&fence).await.unwrap();
    let others = async {
        for result in commit_all(&test, &steps).await {
            done(result.unwrap());
        }
        drop(held);
    };
    let blocked = async {
        loop {
            // On a busy machine the lock may be held for longer than `lock_timeout`.
            match test.runs().commit(&fence, &step).await {
                Err(error) if error.is_transient() => {}
                result => return result,
            }
        }
    };
    let (blocked, ()) = tokio::join!(blocked, others);
    done(blocked.unwrap());
}

/// Claims all of these goals at once.
async fn claim_all(test: &TestStore, goals: &[AgentableId], store: &Store) -> Vec<ClaimedRun> {
    let claims = goals.iter().map(|goal| {
        store.runs().claim_run(*goal, test.worker, test.ids.next(), test.ids.next(), CrashPolicy::default())
    });
    join_all(claims).await.into_iter().filter_map(|claimed| claimed.unwrap()).collect()
}

fn held_slots(test: &TestStore) -> Vec<String> {
    let held = test.sql("select slot from houston.runs where held_for is not null order by slot");
    held.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_submitted_together_share_commits() {
    let test = TestStore::start().await;
    let mut goals = Vec::new();
    for _ in 0..64 {
        let goal = goal(&test.store, &test.ids, test.tenant).await;
        test.post_to(goal, "hi").await.unwrap();
        goals.push(goal);
    }
    assert_eq!(claim_all(&test, &goals, &test.store).await.len(), 64);
    assert!(transactions(&test, "runs") <= 16, "{}", transactions(&test, "runs"));
    let read =
        "select count(*) from houston.entries where content = '[{\"type\": \"text\", \"text\": \"hi\"}]'";
    assert_eq!(test.sql(read).trim(), "64");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_one_user_at_once_take_each_slot_once() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 40).await;
    for goal in &goals {
        test.post_to(*goal, "hi").await.unwrap();
    }
    let slots: Vec<String> = (1..=10).map(|slot| slot.to_string()).collect();
    // Two processes, one of which claims without batches.
    let (other, alone) = (
        test.store.clone().with(|own| own.fairness = Fairness::default()),
        test.store.clone().with(|own| own.is_unbatched = true),
    );
    let mut left = 40;
    while left > 0 {
        let claimed: Vec<ClaimedRun> =
            join_all([&test.store, &other, &alone].map(|store| claim_all(&test, &goals, store)))
                .await
                .into_iter()
                .flatten()
                .collect();
        assert_eq!(claimed.len(), 10, "as many as the user may have");
        assert_eq!(held_slots(&test), slots);
        let steps: Vec<_> = claimed.iter().map(|run| (run.fence, answer(&test, run, "hello"))).collect();
        for result in commit_all(&test, &steps).await {
            done(result.unwrap());
        }
        left -= claimed.len();
    }
    assert_eq!(held_slots(&test), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_of_a_row_that_changed_is_decided_anew() {
    let test = TestStore::start().await;
    // Posts and claims race: whatever a claim does not read is still unread, and the run is awake.
    for round in 1..=20 {
        let goal = goal(&test.store, &test.ids, test.tenant).await;
        test.post_to(goal, "one").await.unwrap();
        let (claimed, posted) = tokio::join!(test.claim_of(goal), test.post_to(goal, "two"));
        posted.unwrap();
        let run = claimed.unwrap().run;
        let state = test.sql(&format!(
            "select jsonb_array_length(h.content), k.unread, k.wake from houston.run_locks k
               join houston.entries h using (agentable_id) where k.agentable_id = '{}' and k.run_id = '{}'",
            goal.0, run.0
        ));
        assert!(["2|0|f", "1|1|t"].contains(&state.trim()), "round {round}: {state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_key_of_another_transaction_holds_no_batch() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 8).await;
    // An application posts in its own transaction, which stays open.
    let mut application = PgConnection::connect(test.database.url()).await.unwrap();
    let mut tx = application.begin().await.unwrap();
    let posted = sqlx::query("select houston.post_message($1, 'hi', 'one')").bind(goals[0].0);
    posted.execute(&mut *tx).await.unwrap();
    let post = |goal: &AgentableId, key: &str| {
        let (goal, key) = (*goal, key.to_owned());
        let test = &test;
        async move {
            let post = NewPost::new(test.ids.next(), test.ids.next(), "hi", json!({}));
            let key = IdempotencyKey { key: &key, request_sha256: &[0; 32] };
            test.requests().post_message(goal, &post, Some(key)).await
        }
    };
    // The same key, for another goal: it waits for the application. The others are posted meanwhile.
    let mut same = std::pin::pin!(post(&goals[1], "one"));
    let others = join_all(goals[2..].iter().enumerate().map(|(nth, goal)| {
        let key = format!("other {nth}");
        let post = post(goal, &key);
        async move { post.await.is_ok() }
    }));
    tokio::select! {
        biased;
        result = &mut same => panic!("{result:?} while the application's transaction is open"),
        posted = others => assert_eq!(posted, [true; 6]),
    }
    tx.rollback().await.unwrap();
    assert!(matches!(same.await, Ok(Created::New(_))));
}
