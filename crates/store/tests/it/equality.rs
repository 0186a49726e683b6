//! Posts, claims and steps write the rows that the functions of the database wrote ([`oracle`]), in batches of any size.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, MessageId, RunId, WorkerId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Intent, ModelCall, NewMessage, RunTransition, Step};
use houston_domain::tool_call::{EffectClass, ToolResponse};
use houston_store::claim::{ClaimedRun, CrashPolicy};
use houston_store::session::Archiving;
use houston_store::step::{Commit, CommittedStep};
use houston_store::{Error, Fairness, Store};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use sqlx::PgPool;

use self::rows::rows;
use self::sequence::{Act, End, Sequence, Shape, sequence};
use crate::fairness::goals_of;
use crate::step::{ending, finished};
use crate::test_store::{TestStore, goal};

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod post;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod sequence;
#[cfg(test)]
mod stream;

/// A goal of one of two users to whom the same happens.
struct Twin {
    goal: AgentableId,
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

fn transition(test: &TestStore, end: End) -> RunTransition {
    let next = || Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
    match end {
        End::Poll => RunTransition::Continue { read: true, event: None },
        End::Continue { read } => RunTransition::Continue { read, event: Some(next()) },
        End::Complete => RunTransition::Complete {
            event: finished(RunStatus::Completed),
            continue_event: next(),
            ending: ending(test, RunStatus::Completed),
        },
        End::Terminate(status) => {
            let mut ending = ending(test, status);
            if status == RunStatus::Failed {
                (ending.error_code, ending.error_message) = (Some("TIMEOUT".into()), Some("too slow".into()));
            }
            RunTransition::Terminate { event: finished(status), ending }
        }
        End::Retry { counts } => RunTransition::Retry {
            event: Event::HandedOver { iteration: 1 },
            at: chrono::DateTime::UNIX_EPOCH,
            counts,
            ending: ending(test, RunStatus::Retrying),
        },
        End::Release => RunTransition::Release { event: Event::HandedOver { iteration: 1 } },
    }
}

fn step(
    test: &TestStore,
    claimed: &ClaimedRun,
    open_call: &mut Option<(String, MessageId)>,
    shape: &Shape,
) -> Step {
    let mut step = test.step(claimed, transition(test, shape.end));
    if matches!(shape.end, End::Poll) {
        return step;
    }
    step.entries =
        (0..shape.entries).map(|nth| Entry::assistant(vec![Block::text(format!("ä {nth}"))])).collect();
    for nth in 0..shape.messages {
        let id = if nth == 1 {
            houston_domain::error_message::ErrorMessage::id_of(claimed.run)
        } else {
            test.ids.next()
        };
        step.messages.push(NewMessage {
            id,
            event: nth,
            source: if nth == 1 { Source::Error } else { Source::Agent },
            message_type: MessageType::Text,
            content: format!("hello {nth}"),
            metadata: json!({"nth": nth}),
        });
        step.events.push(Event::MessageSent { message_id: id });
    }
    if shape.calls_tool {
        match open_call.take() {
            Some(open) => answer_call(&mut step, open),
            None if shape.entries == 0 => {
                let call = start_call(test, &mut step);
                answer_call(&mut step, call);
            }
            None => *open_call = Some(start_call(test, &mut step)),
        }
    }
    step.usage = Usage { input_tokens: 7, output_tokens: 5, reasoning_tokens: 1, ..Usage::default() };
    step.model = shape.call.is_some().then(|| "openai/gpt-5-mini".to_owned());
    step.call = shape.call.map(|cost| ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: Usage { cost: cost.map(|cost| cost.parse().unwrap()), ..step.usage },
        reported: false,
    });
    step
}

/// Adds a call that is about to execute, with its message.
fn start_call(test: &TestStore, step: &mut Step) -> (String, MessageId) {
    let cell: MessageId = test.ids.next();
    let call = cell.to_string();
    step.intents.push(Intent {
        call: call.clone(),
        name: "send_mail".into(),
        effect: EffectClass::Effect,
        cell,
    });
    step.messages.push(NewMessage {
        id: cell,
        event: step.events.len(),
        source: Source::Agent,
        message_type: MessageType::Tool,
        content: "send_mail".into(),
        metadata: json!({"status": "running"}),
    });
    step.events.push(Event::MessageSent { message_id: cell });
    (call, cell)
}

fn answer_call(step: &mut Step, (call, cell): (String, MessageId)) {
    step.responses.push((call, ToolResponse::success("done")));
    step.cells.push((cell, json!({"status": "done"})));
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
    async fn twins(&self, pool: &PgPool, count: usize) -> Vec<Twin> {
        let first = goal(&self.store, &self.ids, self.tenant).await;
        let goals = goals_of(self, first, count).await;
        let worker: WorkerId = self.ids.next();
        let lives = "insert into houston.workers (id, name, alive_until)
                     values ($1, 'equality', clock_timestamp() + interval '1 hour')";
        sqlx::query(lives).bind(worker.0).execute(pool).await.unwrap();
        goals.into_iter().map(|goal| Twin { goal, worker, claimed: None, open_call: None }).collect()
    }

    /// Claims the goal's run and reads its context.
    async fn claim_twin(&self, pool: &PgPool, writer: Writer<'_>, twin: &mut Twin) -> String {
        let (token, message, store) = (self.ids.next(), self.ids.next(), writer.store());
        let crashes = CrashPolicy { grace: Duration::ZERO, ..CrashPolicy::default() };
        let claimed = match writer {
            Writer::Rust(store) => {
                store.runs().claim_run(twin.goal, twin.worker, token, message, crashes).await
            }
            Writer::Functions(store) => {
                oracle::claim(pool, store, twin.goal, (twin.worker, token, message), crashes).await
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
            self.assert_read(store, twin.goal, std::slice::from_ref(&claimed.event)).await;
        }
        let limits = PromptLimits::default();
        let context = store.runs().run_context(twin.goal, claimed.run, 10, &limits).await.unwrap();
        (twin.claimed, twin.open_call) = (Some(claimed), None);
        format!("{seen} {:?} {}", context.history, context.run_entries)
    }

    /// The effect of an act on a goal, and what its caller learns.
    async fn act(&self, pool: &PgPool, writer: Writer<'_>, twin: &mut Twin, act: &Act) -> String {
        let store = writer.store();
        match act {
            Act::Post(double_texting) => self.post_twin(pool, writer, twin, *double_texting).await,
            Act::Claim => self.claim_twin(pool, writer, twin).await,
            Act::Cancel => {
                let open = "select run_id from houston.run_locks where run_open and agentable_id = $1";
                let open = sqlx::query_scalar(open).bind(twin.goal.0).fetch_optional(pool).await.unwrap();
                let Some(run) = open else { return "nothing to cancel".into() };
                let cancelled = store.tenant(self.tenant).cancel_run(RunId(run)).await.unwrap();
                format!("{}", cancelled.is_some())
            }
            Act::Die => {
                let dies = "update houston.run_locks set holder = gen_random_uuid()
                             where agentable_id = $1 and holder is not null";
                sqlx::query(dies).bind(twin.goal.0).execute(pool).await.unwrap();
                String::new()
            }
            Act::Rest => {
                rest(pool, twin.goal).await;
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
                            self.assert_read(store, twin.goal, &done.events).await;
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

/// Goals of each user.
const GOALS: usize = 4;

async fn same_rows(test: &TestStore, pool: &PgPool, store: &Store, sequence: &Sequence) {
    let alone = store.clone().without_batches();
    let (mut batched, mut single) = (test.twins(pool, GOALS).await, test.twins(pool, GOALS).await);
    let mut acts = sequence.acts.iter().peekable();
    while let Some((nth, act)) = acts.next() {
        // Acts of the same sort that follow each other, on different goals, happen at once.
        let mut group = vec![(*nth, act)];
        while let Some((nth, other)) = acts.next_if(|(nth, other)| {
            other.goes_with(act, sequence) && group.iter().all(|(earlier, _)| earlier != nth)
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
    let goals: Vec<_> = single.iter().map(|twin| twin.goal.0).collect();
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
const AT_ONCE: usize = 4;

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

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_that_the_functions_wrote() {
    let test = TestStore::start().await;
    let pool = PgPool::connect(test.database.url()).await.unwrap();
    oracle::install(&pool).await;
    #[expect(clippy::disallowed_methods, reason = "set by a command that runs many")]
    let count = std::env::var("HOUSTON_SEQUENCES").map_or(SEQUENCES, |count| count.parse().unwrap());
    let settings = [2, 10].into_iter().flat_map(|max| [(max, false), (max, true)]);
    let stores: HashMap<_, _> =
        settings.map(|(max, closes)| ((max, closes), store(&test, max, closes))).collect();
    let each = |count: usize| {
        let (test, pool, stores) = (&test, &pool, &stores);
        async move {
            let mut runner = TestRunner::new(Config::default());
            for _ in 0..count {
                let printed = Printed(sequence().new_tree(&mut runner).unwrap().current());
                let Sequence { max_running, closes_sessions, .. } = printed.0;
                same_rows(test, pool, &stores[&(max_running, closes_sessions)], &printed.0).await;
            }
        }
    };
    join_all((0..AT_ONCE).map(|_| each(count.div_ceil(AT_ONCE)))).await;
}
