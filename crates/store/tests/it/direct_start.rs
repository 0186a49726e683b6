//! Direct starts: a message is posted and its run is claimed in one commit.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use houston_domain::clock::SystemClock;
use houston_domain::id::{AgentableId, Ids, WorkerId};
use houston_domain::knowledge::PromptLimits;
use houston_store::Fairness;
use houston_store::claim::{ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::direct_start::{DirectSlot, DirectWorker};
use houston_store::idempotency::{Created, IdempotencyKey};
use houston_store::message::{NewPost, Posted};
use houston_store::run_context::ContextLimits;
use houston_testkit::event_stream::EVENTS;
use serde_json::json;

use crate::fairness::goals_of;
use crate::step::{answer, done};
use crate::test_store::{TestStore, goal};

fn limits() -> ContextLimits {
    ContextLimits { notes: 10, prompt: PromptLimits::default() }
}

/// A worker with any number of slots that drives nothing.
struct TestWorker {
    id: WorkerId,
    ids: Ids,
    done: Arc<Mutex<Done>>,
}

#[derive(Default)]
struct Done {
    started: Vec<ClaimedRun>,
    abandoned: Vec<AgentableId>,
}

struct TestSlot {
    request: ClaimRequest,
    done: Arc<Mutex<Done>>,
}

impl DirectWorker for TestWorker {
    fn slot(&self, agentable: AgentableId) -> Option<Box<dyn DirectSlot>> {
        let request = ClaimRequest {
            agentable,
            worker: self.id,
            token: self.ids.next(),
            next_message: self.ids.beside(agentable),
            crashes: CrashPolicy::default(),
            trial: Trial::None,
            context: Some(limits()),
        };
        Some(Box::new(TestSlot { request, done: Arc::clone(&self.done) }))
    }
}

impl DirectSlot for TestSlot {
    fn request(&self) -> ClaimRequest {
        self.request
    }

    fn start(self: Box<Self>, run: ClaimedRun) {
        self.done.lock().unwrap().started.push(run);
    }

    fn claim(self: Box<Self>) {}

    fn abandon(self: Box<Self>) {
        self.done.lock().unwrap().abandoned.push(self.request.agentable);
    }
}

/// A store whose process has a worker. The worker exists for as long as the returned handle.
fn worker(test: &TestStore) -> Arc<TestWorker> {
    let worker =
        Arc::new(TestWorker { id: test.worker, ids: Ids::new(Arc::new(SystemClock)), done: Arc::default() });
    let handle: Arc<dyn DirectWorker> = worker.clone();
    test.runs().start_directly(Arc::downgrade(&handle));
    worker
}

impl TestWorker {
    fn started(&self) -> Vec<ClaimedRun> {
        std::mem::take(&mut self.done.lock().unwrap().started)
    }
}

/// Where the messages of a client belong.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn post(
    test: &TestStore,
    goal: AgentableId,
    content: &str,
    key: Option<IdempotencyKey<'_>>,
) -> Created<Posted> {
    let metadata = json!({"from": "ios"});
    let mut post = NewPost::new(test.ids.beside(goal), test.ids.beside(goal), content, metadata);
    post.starts = true;
    post.kind = Some("goal".to_owned());
    post.traceparent = Some(TRACE.to_owned());
    test.requests().post_message(goal, &post, key).await.unwrap()
}

fn posted(created: Created<Posted>) -> Posted {
    let Created::New(posted) = created else { panic!("{created:?}") };
    posted
}

/// The rows of a goal, with ids and times as whether they are there and which of them are equal.
fn rows(test: &TestStore, goal: AgentableId) -> String {
    let (goal, worker) = (goal.0, test.worker.0);
    test.sql(&format!(
        "select 'lock', k.epoch, k.run_token is not null, k.holder = '{worker}', k.run_id = r.id, k.run_open, k.last_seq,
                k.last_position, k.read_seq, k.unread, k.wake, k.waiting_since = r.created_at, k.next_attempt_at,
                k.failed_attempts, k.crash_count, k.died_with,
                'run', r.tenant_id = k.tenant_id, r.mode, r.status, r.attempt, r.epoch, r.worker_id = '{worker}',
                r.held_for = k.user_id, r.slot, r.first_seq, r.traceparent, r.iterations, r.cost, r.started_at >= r.created_at, r.ended_at,
                (select array_agg(to_jsonb(m) - '{{id,agentable_id,run_id,created_at,xid}}'::text[] order by m.seq)
                   from houston.messages m where m.agentable_id = k.agentable_id and m.run_id = r.id),
                (select array_agg(to_jsonb(e) - '{{agentable_id,run_id,message_id,created_at,data,xid}}'::text[]
                                  || jsonb_build_object('data', e.data - 'message_id' - 'next_message_id',
                                                        'message', m.seq) order by e.seq)
                   from ({EVENTS}) e left join houston.messages m on m.id = e.message_id
                  where e.agentable_id = k.agentable_id and e.run_id = r.id),
                (select array_agg(to_jsonb(h) - '{{agentable_id,run_id,created_at}}'::text[] order by h.position)
                   from houston.entries h where h.agentable_id = k.agentable_id and h.run_id = r.id),
                (select s.look_at > r.created_at from houston.session_states s where s.agentable_id = k.agentable_id)
           from houston.run_locks k join houston.runs r on r.id = k.run_id where k.agentable_id = '{goal}'"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_start_leaves_the_rows_of_a_post_and_a_claim() {
    let test = TestStore::start().await;
    let other = goal(&test.store, &test.ids, test.tenant).await;
    // The second run finds the entries of the first.
    for text in ["one", "two"] {
        assert!(!posted(post(&test, test.goal, text, None).await).is_started);
        let expected = test.claim().await.unwrap();
        let direct = worker(&test);
        let message = posted(post(&test, other, text, None).await);
        assert!(message.is_started && message.opened && !message.needs_hint);
        let [run] = &direct.started()[..] else { panic!("one run is started") };
        assert_eq!(rows(&test, other), rows(&test, test.goal));
        assert_eq!((run.run, run.attempt, run.claims), (message.run, expected.attempt, expected.claims));
        assert_eq!([&run.traceparent, &expected.traceparent].map(Option::as_deref), [Some(TRACE); 2]);
        let seqs: Vec<i64> = run.posted.iter().chain([&run.event]).map(|event| event.seq).collect();
        assert_eq!(seqs, [message.run_seq, message.seq, message.seq + 1]);
        let context = test.runs().run_context(other, run.run, 10, &PromptLimits::default()).await.unwrap();
        // The one that ends with this message is known only when the run asks.
        let [direct_context, read] = [run.context.as_deref().unwrap(), &context].map(|context| {
            let mut context = context.clone();
            let pauses = context.pauses_until(context.answered_at.unwrap_or_default()).len();
            context.answered_at = None;
            format!("{pauses} pauses, {context:?}")
        });
        assert_eq!(direct_context, read);
        for run in [&expected, run] {
            done(test.runs().commit(&run.fence, &answer(&test, run, "hello")).await.unwrap());
        }
        drop(direct);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn post_of_another_tenant_starts_no_run() {
    let test = TestStore::start().await;
    let direct = worker(&test);
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let mut post = NewPost::new(test.ids.beside(test.goal), test.ids.beside(test.goal), "hi", json!({}));
    post.starts = true;
    post.kind = Some("goal".to_owned());
    let refused = test.store.tenant(stranger).post_message(test.goal, &post, None).await;
    assert!(matches!(refused, Err(houston_store::Error::NotFound { .. })), "{refused:?}");
    assert!(direct.started().is_empty());
    assert_eq!(test.sql("select count(*) from houston.runs"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_is_what_streams_read_later() {
    let test = TestStore::start().await;
    let direct = worker(&test);
    post(&test, test.goal, "hi", None).await;
    let run = direct.started().pop().unwrap();
    let published: Vec<_> = run.posted.into_iter().chain([run.event]).collect();
    assert_eq!(test.requests().events_after(test.goal, 0, 10).await.unwrap(), published);
}

#[tokio::test(flavor = "multi_thread")]
async fn message_that_cannot_start_its_run_is_posted_as_usual() {
    let test = TestStore::start().await;
    let direct = worker(&test);
    let goals = goals_of(&test, test.goal, 3).await;
    assert!(posted(post(&test, test.goal, "one", None).await).is_started);
    let joined = posted(post(&test, test.goal, "two", None).await);
    assert!(!joined.is_started && !joined.opened, "a run is open");
    assert!(
        !posted(post(&test, goals[1], "three", None).await).is_started,
        "the first goal waits: it has unread messages"
    );
    assert_eq!(direct.started().len(), 1);
    let one =
        test.store.clone().with(|own| own.fairness = Fairness { max_running: 1, ..Fairness::default() });
    let handle: Arc<dyn DirectWorker> = direct.clone();
    one.runs().start_directly(Arc::downgrade(&handle));
    test.sql("update houston.run_locks set wake = false");
    let mut full = NewPost::new(test.ids.next(), test.ids.next(), "four", json!({}));
    full.starts = true;
    let full = posted(one.tenant(test.tenant).post_message(goals[2], &full, None).await.unwrap());
    assert!(full.opened && !full.is_started, "the user has as many runs as allowed");
    assert!(direct.started().is_empty());
    assert_eq!(test.sql("select count(*) from houston.messages").trim(), "4");
    assert_eq!(test.sql("select count(*) from houston.runs where status = 'running'").trim(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_repeated_starts_one_run() {
    let test = TestStore::start().await;
    let direct = worker(&test);
    let key = || Some(IdempotencyKey { key: "k", request_sha256: &[7; 32] });
    let all = join_all((0..8).map(|_| post(&test, test.goal, "hi", key()))).await;
    let new: Vec<_> = all.iter().filter(|created| matches!(created, Created::New(_))).collect();
    assert_eq!(new.len(), 1, "{all:?}");
    let ids: Vec<_> = all
        .iter()
        .map(|created| match created {
            Created::New(posted) | Created::Replayed(posted) => posted.id,
            Created::KeyReused => panic!("the requests are equal"),
        })
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert!(direct.started().len() <= 1);
    assert_eq!(test.sql("select count(*) from houston.messages").trim(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_unknown_outcome_is_released() {
    let test = TestStore::start().await;
    let direct = worker(&test);
    let goals = goals_of(&test, test.goal, 2).await;
    let id = test.ids.next();
    let same = |content| {
        let mut post = NewPost::new(id, test.ids.next(), content, json!({}));
        post.starts = true;
        post
    };
    let first = posted(test.requests().post_message(goals[0], &same("one"), None).await.unwrap());
    assert!(first.is_started);
    let run = direct.started().pop().unwrap();
    done(test.runs().commit(&run.fence, &answer(&test, &run, "hello")).await.unwrap());
    // The statement fails: a message with this id exists. It could have failed after its commit.
    let again = posted(test.requests().post_message(goals[0], &same("one"), None).await.unwrap());
    assert_eq!((again.id, again.seq, again.is_started), (first.id, first.seq, false));
    assert_eq!(direct.done.lock().unwrap().abandoned, [goals[0]]);
    assert!(direct.started().is_empty());
}
