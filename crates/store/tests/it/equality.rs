//! Posts, claims and steps write the rows that the functions of the database wrote ([`oracle`]), in batches of any size.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::id::{AgentableId, MessageId, RunId, UserId, WorkerId};
use houston_domain::knowledge::PromptLimits;
use houston_store::claim::{ClaimedRun, CrashPolicy};
use houston_store::session::Archiving;
use houston_store::step::{Commit, CommittedStep};
use houston_store::{Error, Fairness, Store};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, TestRunner};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use self::rows::rows;
use self::sequence::{Act, Sequence, sequence};
use self::steps::step;
use self::tasks::create_task;
use crate::test_store::TestStore;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod post;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod sequence;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod tasks;

/// A goal, or a task of a goal, of one of two users to whom the same happens.
struct Twin {
    /// The goal or task; `None` until the task is created.
    agentable: Option<AgentableId>,
    /// The goal of a task.
    parent: Option<AgentableId>,
    /// The worker that claims the goals of its user.
    worker: WorkerId,
    claimed: Option<ClaimedRun>,
    /// The call that was started and not answered, with its message.
    open_call: Option<(String, MessageId)>,
}

/// Who writes.
#[derive(Clone, Copy)]
enum Writer<'a> {
    /// The rules in Rust, in batches.
    Rust(&'a Store),
    /// The functions; the store is one without batches.
    Functions(&'a Store),
}

impl Writer<'_> {
    fn store(&self) -> &Store {
        let (Writer::Rust(store) | Writer::Functions(store)) = self;
        store
    }
}

/// A text without its ids and the marks of frames, which follow from them: hexadecimal numbers of 16 digits or more.
fn without_ids(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let parts = text.split_inclusive(|c| !is_digit(c)).map(|part| {
        let rest = part.trim_start_matches(is_digit);
        if part.len() - rest.len() < 16 { part.to_owned() } else { format!("#{rest}") }
    });
    parts.collect()
}

/// What the caller learns of a commit, without ids and times.
fn learned(result: houston_store::Result<Commit>) -> String {
    match result {
        Ok(Commit::Done(CommittedStep { events, read, continued, opened, cancel_seq, waiting })) => {
            let events: Vec<_> = events
                .iter()
                .map(|committed| {
                    let event = serde_json::to_value(&committed.event).unwrap();
                    (committed.seq, event["type"].clone(), event["status"].clone(), event["code"].clone())
                })
                .collect();
            format!("{events:?} {read:?} {continued} {opened} {cancel_seq:?} {}", waiting.len())
        }
        Ok(Commit::AlreadyCommitted) => "already committed".into(),
        Err(Error::Fenced) => "fenced".into(),
        Err(error) => panic!("{error}"),
    }
}

impl TestStore {
    /// A new user with goals, and a worker for them.
    async fn twins(&self, pool: &PgPool, count: usize) -> Vec<Twin> {
        let (user, worker): (UserId, WorkerId) = (self.ids.next(), self.ids.next());
        let goals: Vec<AgentableId> = (0..count).map(|_| self.ids.beside(user)).collect();
        let insert = "with u as (
                insert into houston.users (id, tenant_id, name, time_zone) values ($1, $2, 'Ann', 'UTC')),
            g as materialized (select unnest($3::uuid[]) as id),
            a as (
                insert into houston.agentables (id, tenant_id, user_id, kind, title)
                select g.id, $2, $1, 'goal', 'Tokyo' from g),
            l as (insert into houston.run_locks (agentable_id, tenant_id, user_id) select g.id, $2, $1 from g)
            insert into houston.workers (id, name, alive_until)
            values ($4, 'equality', clock_timestamp() + interval '1 hour')";
        let ids: Vec<uuid::Uuid> = goals.iter().map(|goal| goal.0).collect();
        let insert = sqlx::query(insert).bind(user.0).bind(self.tenant.0).bind(ids).bind(worker.0);
        insert.execute(pool).await.unwrap();
        let twin = |agentable, parent| Twin { agentable, parent, worker, claimed: None, open_call: None };
        let tasks: Vec<Twin> = goals.iter().map(|goal| twin(None, Some(*goal))).collect();
        goals.into_iter().map(|goal| twin(Some(goal), None)).chain(tasks).collect()
    }

    /// Claims the goal's run and reads its context.
    async fn claim_twin(
        &self,
        pool: &PgPool,
        writer: Writer<'_>,
        twin: &mut Twin,
        agentable: AgentableId,
    ) -> String {
        let (token, message, store) = (self.ids.next(), self.ids.next(), writer.store());
        let crashes = CrashPolicy { grace: Duration::ZERO, ..CrashPolicy::default() };
        let claimed = match writer {
            Writer::Rust(store) => {
                store.runs().claim_run(agentable, twin.worker, token, message, crashes).await
            }
            Writer::Functions(store) => {
                oracle::claim(pool, store, agentable, (twin.worker, token, message), crashes).await
            }
        };
        let Some(claimed) = claimed.unwrap() else { return "not claimed".into() };
        let seen = format!(
            "{} {} {} {:?} {:?} {:?}",
            claimed.fence.epoch,
            claimed.kind,
            claimed.title,
            (claimed.attempt, claimed.iterations, claimed.deaths, claimed.claims),
            (claimed.failed_attempts, claimed.cancel_seq, claimed.usage, claimed.error.is_some()),
            claimed.event.seq
        );
        if let Writer::Rust(store) = writer {
            self.assert_read(store, agentable, std::slice::from_ref(&claimed.event)).await;
        }
        let limits = PromptLimits::default();
        let context = store.runs().run_context(agentable, claimed.run, 10, &limits).await.unwrap();
        (twin.claimed, twin.open_call) = (Some(claimed), None);
        format!("{seen} {} {}", without_ids(&format!("{:?}", context.history)), context.run_entries)
    }

    /// The effect of an act on a goal or a task, and what its caller learns.
    async fn act(&self, pool: &PgPool, writer: Writer<'_>, twin: &mut Twin, act: &Act) -> String {
        let store = writer.store();
        if let (Act::CreateTask, Some(parent), None) = (act, twin.parent, twin.agentable) {
            twin.agentable = create_task(self, pool, parent).await;
            return format!("{}", twin.agentable.is_some());
        }
        let Some(agentable) = twin.agentable else { return "there is no task".into() };
        match act {
            // A task never chats.
            Act::Post(_) if twin.parent.is_some() => String::new(),
            Act::CreateTask => String::new(),
            Act::Post(new) => self.post_twin(pool, writer, agentable, new).await,
            Act::Claim => self.claim_twin(pool, writer, twin, agentable).await,
            Act::Cancel => {
                let open = "select run_id from houston.run_locks where run_open and agentable_id = $1";
                let open = sqlx::query_scalar(open).bind(agentable.0).fetch_optional(pool).await.unwrap();
                let Some(run) = open else { return "nothing to cancel".into() };
                let cancelled = store.tenant(self.tenant).cancel_run(RunId(run)).await.unwrap();
                format!("{}", cancelled.is_some())
            }
            Act::Die => {
                let dies = "update houston.run_locks set holder = gen_random_uuid()
                             where agentable_id = $1 and holder is not null";
                sqlx::query(dies).bind(agentable.0).execute(pool).await.unwrap();
                String::new()
            }
            Act::Rest => {
                rest(pool, agentable).await;
                String::new()
            }
            Act::Step(shape) => {
                let Some(run) = &twin.claimed else { return "not claimed".into() };
                let fence = run.fence;
                let step = step(self, run, &mut twin.open_call, shape);
                match writer {
                    Writer::Rust(store) => {
                        let result = store.runs().commit(&fence, &step).await;
                        if let Ok(Commit::Done(done)) = &result {
                            self.assert_read(store, agentable, &done.events).await;
                        }
                        learned(result)
                    }
                    Writer::Functions(store) => {
                        learned(oracle::commit(pool, &fence, &step, store.fairness()).await)
                    }
                }
            }
        }
    }
}

/// Makes everything that happened on the goal an hour older.
async fn rest(pool: &PgPool, goal: AgentableId) {
    for rest in [
        "update houston.history set created_at = created_at - interval '1 hour' where agentable_id = $1",
        "update houston.session_states set look_at = look_at - interval '1 hour' where agentable_id = $1",
    ] {
        sqlx::query(rest).bind(goal.0).execute(pool).await.unwrap();
    }
}

/// Goals of each user; each may have a task.
const GOALS: usize = 4;

async fn same_rows(test: &TestStore, pool: &PgPool, store: &Store, sequence: &Sequence) {
    let alone = store.clone().without_batches();
    let (mut batched, mut single) = (test.twins(pool, GOALS).await, test.twins(pool, GOALS).await);
    let mut acts = sequence.acts.iter().peekable();
    while let Some((nth, act)) = acts.next() {
        // Acts of the same sort that follow each other, on different goals, happen at once.
        let mut group = vec![(*nth, act)];
        while let Some((nth, other)) = acts.next_if(|(nth, other)| {
            // A task and its goal change each other's rows.
            other.goes_with(act, sequence) && group.iter().all(|(earlier, _)| earlier % GOALS != nth % GOALS)
        }) {
            group.push((*nth, other));
        }
        let mut twins: HashMap<usize, &mut Twin> = batched.iter_mut().enumerate().collect();
        let together = group.iter().map(|(nth, act)| {
            let twin = twins.remove(nth).unwrap();
            test.act(pool, Writer::Rust(store), twin, act)
        });
        let together = join_all(together.collect::<Vec<_>>()).await;
        let mut one_by_one = Vec::new();
        for (nth, act) in &group {
            one_by_one.push(test.act(pool, Writer::Functions(&alone), &mut single[*nth], act).await);
        }
        let several = group.len() > 1;
        let comparable = |learned: &String| match (several, act) {
            // How many agentables may run next depends on the order in which the slots become free.
            (true, Act::Step(_)) => learned.rsplit_once(' ').map(|(rest, _)| rest.to_owned()),
            // So does whether a message that arrives meanwhile needs a hint.
            (true, Act::Post(_)) => learned.rsplit_once(' ').map(|(rest, _)| rest.to_owned()),
            _ => Some(learned.clone()),
        };
        assert!(
            together.iter().map(comparable).eq(one_by_one.iter().map(comparable)),
            "{group:?} {together:#?} {one_by_one:#?}"
        );
    }
    // The functions did not know this column.
    let ended = "update houston.runs r set last_seq = e.seq from houston.events e
                  where r.agentable_id = any ($1) and r.last_seq is null and e.run_id = r.id
                    and e.agentable_id = r.agentable_id and e.data ->> 'type' = 'run_finished'";
    let goals: Vec<_> =
        single.iter().filter_map(|twin| twin.agentable).map(|agentable| agentable.0).collect();
    sqlx::query(ended).bind(goals).execute(pool).await.unwrap();
    for (batched, single) in batched.iter().zip(&single) {
        let (batched, single) = (test.stream(store, batched).await, test.stream(&alone, single).await);
        assert_eq!(batched, single);
    }
    let (batched, single) = (rows(pool, &batched).await, rows(pool, &single).await);
    for (batched, single) in batched.iter().zip(&single) {
        assert_eq!(batched, single);
    }
    assert_eq!(batched.len(), single.len());
}

/// Sequences in a usual run; `HOUSTON_SEQUENCES` sets another number.
const SEQUENCES: usize = 500;
/// Sequences that happen at once, so that batches contain items of several users.
const AT_ONCE: usize = 16;

/// Prints the sequence if the test fails.
struct Printed(Sequence);

impl Drop for Printed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.0);
        }
    }
}

fn store(test: &TestStore, max_running: u16, closes_sessions: bool) -> Store {
    let fairness = Fairness { max_running, ..Fairness::default() };
    let kinds = if closes_sessions { vec!["goal".to_owned()] } else { Vec::new() };
    test.store.clone().with_fairness(fairness).with_archiving(Archiving { kinds, ..Archiving::default() })
}

/// What all sequences share.
struct Shared {
    test: TestStore,
    pool: PgPool,
    /// By the settings of a sequence.
    stores: HashMap<(u16, bool), Store>,
}

/// Lets `count` sequences happen, one after the other.
async fn sequences(shared: Arc<Shared>, count: usize) {
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..count {
        let printed = Printed(sequence().new_tree(&mut runner).unwrap().current());
        let Sequence { max_running, closes_sessions, .. } = printed.0;
        let store = &shared.stores[&(max_running, closes_sessions)];
        same_rows(&shared.test, &shared.pool, store, &printed.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_that_the_functions_wrote() {
    let test = TestStore::start().await;
    let at_once = u32::try_from(AT_ONCE).unwrap();
    let pool = PgPoolOptions::new().max_connections(at_once).connect(test.database.url()).await.unwrap();
    oracle::install(&pool).await;
    #[expect(clippy::disallowed_methods, reason = "set by a command that runs many")]
    let count = std::env::var("HOUSTON_SEQUENCES").map_or(SEQUENCES, |count| count.parse().unwrap());
    let settings = [2, 10].into_iter().flat_map(|max| [(max, false), (max, true)]);
    let stores = settings.map(|(max, closes)| ((max, closes), store(&test, max, closes))).collect();
    let shared = Arc::new(Shared { test, pool, stores });
    let mut all = JoinSet::new();
    for _ in 0..AT_ONCE {
        all.spawn(sequences(Arc::clone(&shared), count.div_ceil(AT_ONCE)));
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}
