use std::collections::HashSet;

use houston_domain::id::{AgentableId, UserId};
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_store::agentable::NewAgentable;
use houston_store::claim::{ClaimedRun, CrashPolicy};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_store::message::{NewPost, Posted};
use houston_store::step::{Commit, CommittedStep};
use houston_store::{Error, Fairness, Store};
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};

use crate::step::{ending, finished};
use crate::test_store::{ClaimRun as _, LEASE, TestStore, goal, open};

/// `count` goals of the user of `of`, which is the first.
pub(crate) async fn goals_of(test: &TestStore, of: AgentableId, count: usize) -> Vec<AgentableId> {
    let user: UserId = test.requests().agentable("goal", of).await.unwrap().user;
    let mut goals = vec![of];
    while goals.len() < count {
        let new = NewAgentable {
            id: test.ids.next(),
            user,
            kind: "goal",
            title: "Tokyo",
            description: "",
            status: None,
            tools: None,
            created_at: test.ids.clock().now(),
        };
        test.requests().create_agentable(&new, (None, &Value::Null)).await.unwrap();
        goals.push(new.id);
    }
    goals
}

pub(crate) async fn post_to(test: &TestStore, goal: AgentableId, content: &str) -> Result<Posted, Error> {
    let post = NewPost::new(test.ids.next(), test.ids.next(), content, Value::Object(serde_json::Map::new()));
    match test.requests().post_message(goal, &post, None).await? {
        Created::New(posted) => Ok(posted),
        other => panic!("{other:?}"),
    }
}

async fn claim(test: &TestStore, goal: AgentableId) -> Option<ClaimedRun> {
    test.runs()
        .claim_run(goal, test.worker, test.ids.next(), test.ids.next(), CrashPolicy::default())
        .await
        .unwrap()
}

async fn end(test: &TestStore, claimed: &ClaimedRun) -> CommittedStep {
    let status = RunStatus::Failed;
    let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    match test.runs().commit(&claimed.fence, &test.step(claimed, then)).await.unwrap() {
        Commit::Done(done) => done,
        Commit::AlreadyCommitted => panic!("already committed"),
    }
}

async fn due(test: &TestStore) -> Vec<AgentableId> {
    let page = test.runs().due(None, 500).await.unwrap();
    page.due.into_iter().map(|due| due.agentable).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_respect_the_limit_of_held_runs() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 40).await;
    let stranger = goal(&test.store, &test.ids, test.tenant).await;
    for goal in goals.iter().chain([&stranger]) {
        assert!(post_to(&test, *goal, "hello").await.unwrap().needs_hint, "nothing runs yet");
    }
    assert_eq!(due(&test).await.len(), 11, "ten of one user, one of the other");
    for round in 0..5 {
        // All at once, each twice.
        let claims = goals.iter().chain(&goals).map(|goal| claim(&test, *goal));
        let held: Vec<ClaimedRun> =
            futures_util::future::join_all(claims).await.into_iter().flatten().collect();
        assert_eq!(held.len(), if round == 0 { 10 } else { 5 }, "round {round}");
        if round == 0 {
            assert_eq!(due(&test).await, [stranger], "the user is at the limit");
            assert!(claim(&test, stranger).await.is_some(), "other users may run");
            let waiting = goals.iter().find(|goal| held.iter().all(|held| held.fence.agentable != **goal));
            let more = post_to(&test, *waiting.unwrap(), "and").await.unwrap();
            assert!(!more.needs_hint, "a hint would be refused");
        }
        // Five end; each returns the runs that may start now, never more than the limit allows.
        let mut named = HashSet::new();
        for (nth, run) in held[..5].iter().enumerate() {
            let done = end(&test, run).await;
            assert!(done.waiting.len() <= nth + 1, "{done:?}");
            named.extend(done.waiting.iter().map(|due| due.agentable));
        }
        if round < 4 {
            assert_eq!(due(&test).await.into_iter().collect::<HashSet<_>>(), named);
            assert_eq!(named.len(), 5);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn longest_waiting_run_is_next_and_dead_workers_hold_no_slot() {
    let mut test = TestStore::start().await;
    test.store = test.store.with(|own| own.fairness = Fairness { max_running: 2, ..Fairness::default() });
    let goals = goals_of(&test, test.goal, 6).await;
    let order = [3, 1, 5, 0, 4, 2];
    for nth in order {
        post_to(&test, goals[nth], "hello").await.unwrap();
    }
    let dead = test.ids.next();
    let url = test.database.url();
    let mut lease = LeaseConnection::open(url, dead, LEASE).await.unwrap();
    lease.register(WorkerDescription { name: "dead".into(), ..WorkerDescription::default() }).await.unwrap();
    for nth in &order[..2] {
        let token = test.ids.next();
        let claimed = test
            .runs()
            .claim_run(goals[*nth], dead, token, test.ids.next(), CrashPolicy::default())
            .await
            .unwrap();
        assert!(claimed.is_some());
    }
    assert!(claim(&test, goals[5]).await.is_none(), "the limit of two is reached");
    test.sql(&format!("delete from houston.workers where id = '{}'", dead.0));
    let orphans: HashSet<_> =
        test.runs().orphans(10).await.unwrap().into_iter().map(|due| due.agentable).collect();
    assert_eq!(orphans, HashSet::from([goals[3], goals[1]]));
    let first = claim(&test, goals[3]).await.unwrap();
    assert_eq!(first.attempt, 2, "taken over");
    claim(&test, goals[1]).await.unwrap();
    let mut run = first;
    for nth in &order[2..] {
        let done = end(&test, &run).await;
        assert_eq!(done.waiting.iter().map(|due| due.agentable).collect::<Vec<_>>(), [goals[*nth]]);
        run = claim(&test, goals[*nth]).await.unwrap();
    }
    assert!(end(&test, &run).await.waiting.is_empty(), "no run is waiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_goes_from_user_to_user_page_by_page() {
    let test = TestStore::start().await;
    let (flooding, mut others) = (goals_of(&test, test.goal, 200).await, Vec::new());
    for _ in 0..7 {
        others.push(goal(&test.store, &test.ids, test.tenant).await);
    }
    for goal in flooding.iter().chain(&others) {
        post_to(&test, *goal, "hello").await.unwrap();
    }
    let first = test.runs().due(None, 12).await.unwrap();
    let ids: Vec<_> = first.due.iter().map(|due| due.agentable).collect();
    assert_eq!(ids.len(), 12);
    let flooding: HashSet<_> = flooding.iter().copied().collect();
    let first_of = |ids: &[AgentableId]| ids.iter().filter(|id| flooding.contains(id)).count();
    assert_eq!(
        (first_of(&ids[..3]), first_of(&ids)),
        (1, 10),
        "every user comes once before any comes twice"
    );
    let mut seen: HashSet<_> = ids.into_iter().collect();
    let next = test.runs().due(first.next, 12).await.unwrap();
    let ids: Vec<_> = next.due.iter().map(|due| due.agentable).collect();
    assert_eq!((ids.len(), next.next), (5, None));
    seen.extend(ids);
    assert!(others.iter().all(|other| seen.contains(other)), "no user is skipped");
    // An hour later the result is the same, except for runs whose next attempt is not due.
    let one = test.goal;
    let run = claim(&test, one).await.unwrap();
    let at = test.ids.clock().now() + chrono::TimeDelta::hours(1);
    let event = houston_domain::event::Event::HandedOver { iteration: 1 };
    let then = RunTransition::Retry { event, at, counts: true, ending: ending(RunStatus::Retrying) };
    test.runs().commit(&run.fence, &test.step(&run, then)).await.unwrap();
    assert!(!due(&test).await.contains(&one));
    test.requests().cancel_run(run.run).await.unwrap();
    assert!(due(&test).await.contains(&one), "a cancelled run does not wait for its retry");
}

#[tokio::test(flavor = "multi_thread")]
async fn user_with_too_many_unread_messages_is_refused() {
    let mut test = TestStore::start().await;
    test.store = test.store.with(|own| own.fairness = Fairness { max_pending: 5, ..Fairness::default() });
    let goals = goals_of(&test, test.goal, 2).await;
    let stranger = goal(&test.store, &test.ids, test.tenant).await;
    let key = IdempotencyKey { key: "k", request_sha256: b"request" };
    let first = match test.try_post("first", Some(key)).await.unwrap() {
        Created::New(posted) => posted,
        other => panic!("{other:?}"),
    };
    for goal in [0, 1, 0, 1] {
        post_to(&test, goals[goal], "hello").await.unwrap();
    }
    let refused = post_to(&test, goals[1], "one too many").await.unwrap_err();
    assert!(matches!(refused, Error::TooManyPending { pending: 5, limit: 5 }), "{refused}");
    let key_of_refused = IdempotencyKey { key: "later", request_sha256: b"later" };
    let refused = test.try_post("one too many", Some(key_of_refused)).await.unwrap_err();
    assert!(matches!(refused, Error::TooManyPending { .. }), "{refused}");
    assert!(post_to(&test, stranger, "hello").await.is_ok(), "other users may post");
    match test.try_post("first", Some(key)).await.unwrap() {
        Created::Replayed(posted) => assert_eq!(posted.id, first.id),
        other => panic!("a repeated request gets its first answer: {other:?}"),
    }
    // A run reads three messages: there is room again, and the refused request may use its key.
    claim(&test, goals[0]).await.unwrap();
    assert!(matches!(test.try_post("one too many", Some(key_of_refused)).await.unwrap(), Created::New(_)));
    for _ in 0..2 {
        post_to(&test, goals[1], "hello").await.unwrap();
    }
    assert!(post_to(&test, goals[1], "hello").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn posting_by_sql_has_the_same_limits() {
    let test = TestStore::start().await;
    post_to(&test, test.goal, "hello").await.unwrap();
    let goal = test.goal.0;
    test.sql(&format!("select houston.post_message('{goal}', 'hi')"));
    let full = format!("update houston.run_locks set unread = 10000 where agentable_id = '{goal}'");
    test.sql(&full);
    let mut verbose = test.database.psql(&format!("select houston.post_message('{goal}', 'hi')"));
    let output = verbose.args(["-v", "VERBOSITY=verbose"]).output().unwrap().stderr;
    let error = String::from_utf8(output).unwrap();
    assert!(error.contains("HO429") && error.contains("10000 of this user"), "{error}");
    let long = format!("select houston.post_message('{goal}', 'hi', repeat('k', 256))");
    let error = test.try_sql(&long).unwrap_err();
    assert!(error.contains("256 bytes, 1 to 255"), "{error}");
}

/// Regression: a run that was let go keeps the number of its slot, which does not count. Of two processes that counted the
/// same free slots, each chose another number, so both claims succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn slot_of_a_run_that_was_let_go_is_not_given_twice() {
    let test = TestStore::start().await;
    let [first, second] = goals_of(&test, test.goal, 2).await.try_into().unwrap();
    let fairness = Fairness { max_running: 1, ..Fairness::default() };
    let process = || open(test.database.url()).with(|own| own.fairness = fairness);
    let (one, other) = (process(), process());
    let claim = async |store: &Store, goal| {
        let (token, message) = (test.ids.next(), test.ids.next());
        store.runs().claim_run(goal, test.worker, token, message, CrashPolicy::default()).await.unwrap()
    };
    for _ in 0..20 {
        post_to(&test, first, "hello").await.unwrap();
        let held = claim(&one, first).await.unwrap();
        one.runs().abandon(first, held.fence.token, false).await.unwrap();
        post_to(&test, second, "hello").await.unwrap();
        let (again, next) = tokio::join!(claim(&one, first), claim(&other, second));
        let held: Vec<ClaimedRun> = again.into_iter().chain(next).collect();
        assert!(held.len() <= 1, "{held:#?}");
        for run in &held {
            end(&test, run).await;
        }
        for goal in [first, second] {
            if let Some(run) = claim(&one, goal).await {
                end(&test, &run).await;
            }
        }
    }
}

/// Claims as several processes do, each for a worker of its own.
async fn claim_by(test: &TestStore, store: &Store, goal: AgentableId) -> Option<ClaimedRun> {
    let (token, message) = (test.ids.next(), test.ids.next());
    let crashes = CrashPolicy::default();
    store.runs().claim_run(goal, test.worker, token, message, crashes).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_several_processes_respect_the_limit_together() {
    let test = TestStore::start().await;
    let fairness = Fairness { max_running: 3, ..Fairness::default() };
    let stores: Vec<Store> =
        (0..4).map(|_| open(test.database.url()).with(|own| own.fairness = fairness)).collect();
    let goals = goals_of(&test, test.goal, 24).await;
    for goal in &goals {
        test.post_to(*goal, "hi").await.unwrap();
    }
    let mut left: Vec<AgentableId> = goals.clone();
    while !left.is_empty() {
        let claims =
            left.iter().zip(stores.iter().cycle()).map(|(goal, store)| claim_by(&test, store, *goal));
        let mut held: Vec<ClaimedRun> =
            futures_util::future::join_all(claims).await.into_iter().flatten().collect();
        assert!(held.len() <= 3, "{held:?}");
        // A claim that met another one at the same moment finds the slot later.
        for goal in &left {
            held.extend(claim_by(&test, &stores[0], *goal).await);
        }
        assert_eq!(held.len(), 3);
        let slots = "select count(*), count(distinct slot) from houston.runs where held_for is not null";
        assert_eq!(test.sql(slots).trim(), "3|3");
        left.retain(|goal| held.iter().all(|run| run.fence.agentable != *goal));
        for run in &held {
            end(&test, run).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_waits_for_no_other_claim_of_its_user() {
    let test = TestStore::start().await;
    let goals = goals_of(&test, test.goal, 2).await;
    for goal in &goals {
        test.post_to(*goal, "hi").await.unwrap();
    }
    // Claims of other processes whose commit takes its time: they take slots 1 and 2.
    let mut other = PgConnection::connect(test.database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let lock = "select pg_advisory_xact_lock(hashtext(user_id::text), slot)
                  from houston.agentables, generate_series(1, $2) as slot where id = $1";
    sqlx::query(lock).bind(goals[0].0).bind(2).execute(&mut *tx).await.unwrap();
    let fairness = |max_running| Fairness { max_running, ..Fairness::default() };
    let at_the_limit = open(test.database.url()).with(|own| own.fairness = fairness(2));
    assert!(claim_by(&test, &at_the_limit, goals[0]).await.is_none());
    let below = open(test.database.url()).with(|own| own.fairness = fairness(3));
    assert!(claim_by(&test, &below, goals[0]).await.is_some());
    assert!(claim_by(&test, &below, goals[1]).await.is_none());
    tx.rollback().await.unwrap();
    assert!(claim_by(&test, &below, goals[1]).await.is_some());
}
