use std::collections::HashSet;

use houston_domain::agentable::DoubleTexting;
use houston_domain::id::{AgentableId, UserId};
use houston_domain::run::RunStatus;
use houston_store::agentable::NewAgentable;
use houston_store::claim::{Claimed, Crashes};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::lease::LeaseConnection;
use houston_store::message::{NewPost, Posted};
use houston_store::step::{Commit, Done, RunTransition};
use houston_store::{Error, Fairness};
use serde_json::Value;

use crate::fresh::{Fresh, goal};
use crate::step::{ending, finished};

/// `count` goals of one user, the first being that of `of`.
pub(crate) async fn goals_of(fresh: &Fresh, of: AgentableId, count: usize) -> Vec<AgentableId> {
    let user: UserId = fresh.store.agentable(fresh.tenant, "goal", of).await.unwrap().user;
    let mut goals = vec![of];
    while goals.len() < count {
        let new = NewAgentable {
            id: fresh.ids.next(),
            user,
            kind: "goal",
            title: "Tokyo",
            description: "",
            status: None,
            tools: None,
            created_at: fresh.ids.clock().now(),
        };
        fresh.store.create_agentable(fresh.tenant, &new, None, &Value::Null).await.unwrap();
        goals.push(new.id);
    }
    goals
}

pub(crate) async fn post_to(fresh: &Fresh, goal: AgentableId, content: &str) -> Result<Posted, Error> {
    let metadata = Value::Object(serde_json::Map::new());
    let post = NewPost {
        id: fresh.ids.next(),
        run: fresh.ids.next(),
        content,
        metadata: &metadata,
        double_texting: DoubleTexting::Enqueue,
    };
    match fresh.store.post_message(fresh.tenant, goal, &post, None).await? {
        Created::New(posted) => Ok(posted),
        other => panic!("{other:?}"),
    }
}

async fn claim(fresh: &Fresh, goal: AgentableId) -> Option<Claimed> {
    fresh
        .store
        .claim_run(goal, fresh.worker, fresh.ids.next(), fresh.ids.next(), Crashes::default())
        .await
        .unwrap()
}

async fn end(fresh: &Fresh, claimed: &Claimed) -> Done {
    let status = RunStatus::Failed;
    let then = RunTransition::Terminate { event: finished(status), ending: ending(fresh, status) };
    match fresh.store.commit(&claimed.fence, &fresh.step(claimed, then)).await.unwrap() {
        Commit::Done(done) => done,
        Commit::Landed => panic!("it landed before"),
    }
}

async fn due(fresh: &Fresh) -> Vec<AgentableId> {
    let page = fresh.store.due(None, 500).await.unwrap();
    page.due.into_iter().map(|due| due.agentable).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_runs_of_a_user_are_held_than_may_be_however_many_claim_at_once() {
    let fresh = Fresh::start().await;
    let goals = goals_of(&fresh, fresh.goal, 40).await;
    let stranger = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
    for goal in goals.iter().chain([&stranger]) {
        assert!(post_to(&fresh, *goal, "hello").await.unwrap().ring, "nothing runs yet");
    }
    assert_eq!(due(&fresh).await.len(), 11, "ten of one user, one of the other");
    for round in 0..5 {
        // All at once, each twice.
        let claims = goals.iter().chain(&goals).map(|goal| claim(&fresh, *goal));
        let held: Vec<Claimed> = futures_util::future::join_all(claims).await.into_iter().flatten().collect();
        assert_eq!(held.len(), if round == 0 { 10 } else { 5 }, "round {round}");
        if round == 0 {
            assert_eq!(due(&fresh).await, [stranger], "the user has no place left");
            assert!(claim(&fresh, stranger).await.is_some(), "others are not held up");
            let waiting = goals.iter().find(|goal| held.iter().all(|held| held.fence.agentable != **goal));
            let more = post_to(&fresh, *waiting.unwrap(), "and").await.unwrap();
            assert!(!more.ring, "a hint would be refused");
        }
        // Five end; each names who may run now, no more than there are places.
        let mut named = HashSet::new();
        for (nth, run) in held[..5].iter().enumerate() {
            let done = end(&fresh, run).await;
            assert!(done.waiting.len() <= nth + 1, "{done:?}");
            named.extend(done.waiting.iter().map(|due| due.agentable));
        }
        if round < 4 {
            assert_eq!(due(&fresh).await.into_iter().collect::<HashSet<_>>(), named);
            assert_eq!(named.len(), 5);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_waited_longest_is_next_and_runs_of_the_dead_take_no_place() {
    let mut fresh = Fresh::start().await;
    fresh.store = fresh.store.with_fairness(Fairness { max_running: 2, ..Fairness::default() });
    let goals = goals_of(&fresh, fresh.goal, 6).await;
    let order = [3, 1, 5, 0, 4, 2];
    for nth in order {
        post_to(&fresh, goals[nth], "hello").await.unwrap();
    }
    let dead = fresh.ids.next();
    let url = fresh.database.url();
    let mut lease = LeaseConnection::open(url, dead, std::time::Duration::from_secs(60)).await.unwrap();
    lease.register("dead").await.unwrap();
    for nth in &order[..2] {
        let token = fresh.ids.next();
        let claimed = fresh
            .store
            .claim_run(goals[*nth], dead, token, fresh.ids.next(), Crashes::default())
            .await
            .unwrap();
        assert!(claimed.is_some());
    }
    assert!(claim(&fresh, goals[5]).await.is_none(), "both places are taken");
    fresh.sql(&format!("delete from houston.workers where id = '{}'", dead.0));
    let orphans: HashSet<_> =
        fresh.store.orphans(10).await.unwrap().into_iter().map(|due| due.agentable).collect();
    assert_eq!(orphans, HashSet::from([goals[3], goals[1]]));
    let first = claim(&fresh, goals[3]).await.unwrap();
    assert_eq!(first.attempt, 2, "taken over");
    claim(&fresh, goals[1]).await.unwrap();
    let mut run = first;
    for nth in &order[2..] {
        let done = end(&fresh, &run).await;
        assert_eq!(done.waiting.iter().map(|due| due.agentable).collect::<Vec<_>>(), [goals[*nth]]);
        run = claim(&fresh, goals[*nth]).await.unwrap();
    }
    assert!(end(&fresh, &run).await.waiting.is_empty(), "nobody is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_goes_from_user_to_user_page_by_page() {
    let fresh = Fresh::start().await;
    let (flooding, mut others) = (goals_of(&fresh, fresh.goal, 200).await, Vec::new());
    for _ in 0..7 {
        others.push(goal(&fresh.store, &fresh.ids, fresh.tenant).await);
    }
    for goal in flooding.iter().chain(&others) {
        post_to(&fresh, *goal, "hello").await.unwrap();
    }
    let first = fresh.store.due(None, 12).await.unwrap();
    let ids: Vec<_> = first.due.iter().map(|due| due.agentable).collect();
    assert_eq!(ids.len(), 12);
    let flooding: HashSet<_> = flooding.iter().copied().collect();
    let first_of = |ids: &[AgentableId]| ids.iter().filter(|id| flooding.contains(id)).count();
    assert_eq!((first_of(&ids[..3]), first_of(&ids)), (1, 10), "each user has a turn before one has two");
    let mut seen: HashSet<_> = ids.into_iter().collect();
    let next = fresh.store.due(first.next, 12).await.unwrap();
    let ids: Vec<_> = next.due.iter().map(|due| due.agentable).collect();
    assert_eq!((ids.len(), next.next), (5, None));
    seen.extend(ids);
    assert!(others.iter().all(|other| seen.contains(other)), "nobody is passed by");
    // An hour later it is all the same, but for those that wait for an attempt that is not due.
    let one = fresh.goal;
    let run = claim(&fresh, one).await.unwrap();
    let at = fresh.ids.clock().now() + chrono::TimeDelta::hours(1);
    let event = houston_domain::event::Event::HandedOver { iteration: 1 };
    let then = RunTransition::Retry { event, at, counts: true, ending: ending(&fresh, RunStatus::Retrying) };
    fresh.store.commit(&run.fence, &fresh.step(&run, then)).await.unwrap();
    assert!(!due(&fresh).await.contains(&one));
    fresh.store.cancel_run(fresh.tenant, run.run).await.unwrap();
    assert!(due(&fresh).await.contains(&one), "who is cancelled need not wait for the retry");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_too_many_unread_messages_is_refused_until_some_are_read() {
    let mut fresh = Fresh::start().await;
    fresh.store = fresh.store.with_fairness(Fairness { max_pending: 5, ..Fairness::default() });
    let goals = goals_of(&fresh, fresh.goal, 2).await;
    let stranger = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
    let key = IdempotencyKey { key: "k", request_sha256: b"request" };
    let first = match fresh.try_post("first", Some(key)).await.unwrap() {
        Created::New(posted) => posted,
        other => panic!("{other:?}"),
    };
    for goal in [0, 1, 0, 1] {
        post_to(&fresh, goals[goal], "hello").await.unwrap();
    }
    let refused = post_to(&fresh, goals[1], "one too many").await.unwrap_err();
    assert!(matches!(refused, Error::TooManyPending { pending: 5, limit: 5 }), "{refused}");
    let key_of_refused = IdempotencyKey { key: "later", request_sha256: b"later" };
    let refused = fresh.try_post("one too many", Some(key_of_refused)).await.unwrap_err();
    assert!(matches!(refused, Error::TooManyPending { .. }), "{refused}");
    assert!(post_to(&fresh, stranger, "hello").await.is_ok(), "others may");
    match fresh.try_post("first", Some(key)).await.unwrap() {
        Created::Replayed(posted) => assert_eq!(posted.id, first.id),
        other => panic!("what was accepted is answered again: {other:?}"),
    }
    // A run reads three of them: there is room, and the refused request may use its key.
    claim(&fresh, goals[0]).await.unwrap();
    assert!(matches!(fresh.try_post("one too many", Some(key_of_refused)).await.unwrap(), Created::New(_)));
    for _ in 0..2 {
        post_to(&fresh, goals[1], "hello").await.unwrap();
    }
    assert!(post_to(&fresh, goals[1], "hello").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_is_refused_likewise() {
    let fresh = Fresh::start().await;
    post_to(&fresh, fresh.goal, "hello").await.unwrap();
    let goal = fresh.goal.0;
    fresh.sql(&format!("select houston.post_message('{goal}', 'hi')"));
    let full = format!("update houston.run_locks set unread = 10000 where agentable_id = '{goal}'");
    fresh.sql(&full);
    let mut verbose = fresh.database.psql(&format!("select houston.post_message('{goal}', 'hi')"));
    let told = verbose.args(["-v", "VERBOSITY=verbose"]).output().unwrap().stderr;
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("HO429") && told.contains("10000 of this user"), "{told}");
    let long = format!("select houston.post_message('{goal}', 'hi', repeat('k', 256))");
    let told = fresh.try_sql(&long).unwrap_err();
    assert!(told.contains("256 bytes, 1 to 255"), "{told}");
}
