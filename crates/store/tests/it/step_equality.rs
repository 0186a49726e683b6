//! Steps in batches write the rows that the functions of the database write.

use houston_domain::agentable::DoubleTexting;
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::AgentableId;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{ModelCall, NewMessage, RunTransition, Step};
use houston_store::Error;
use houston_store::claim::{ClaimedRun, Fence};
use houston_store::message::NewPost;
use houston_store::step::{Commit, CommittedStep};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::fairness::goals_of;
use crate::step::{ending, finished};
use crate::step_batch::commit_all;
use crate::test_store::{TestStore, goal};

/// What happens to one of the goals.
#[derive(Debug, Clone)]
enum Act {
    Post(DoubleTexting),
    Claim,
    Cancel,
    Step(Shape),
}

#[derive(Debug, Clone)]
struct Shape {
    end: End,
    entries: usize,
    messages: usize,
    call: Option<Option<&'static str>>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Poll,
    Continue { read: bool },
    Complete,
    Terminate(RunStatus),
    Retry { counts: bool },
    Release,
}

fn act() -> impl Strategy<Value = Act> {
    let texting = prop_oneof![
        4 => Just(DoubleTexting::Enqueue),
        1 => Just(DoubleTexting::Interrupt),
        1 => Just(DoubleTexting::Rollback),
        1 => Just(DoubleTexting::Reject),
    ];
    let end = prop_oneof![
        1 => Just(End::Poll),
        3 => any::<bool>().prop_map(|read| End::Continue { read }),
        3 => Just(End::Complete),
        2 => prop_oneof![Just(RunStatus::MaxIterations), Just(RunStatus::Failed), Just(RunStatus::Cancelled)]
            .prop_map(End::Terminate),
        2 => any::<bool>().prop_map(|counts| End::Retry { counts }),
        1 => Just(End::Release),
    ];
    let call = proptest::option::of(proptest::option::of(prop_oneof![Just("0.25"), Just("0.000001")]));
    let shape = (end, 0..3_usize, 0..3_usize, call).prop_map(|(end, entries, messages, call)| Shape {
        end,
        entries,
        messages,
        call,
    });
    prop_oneof![3 => texting.prop_map(Act::Post), 4 => Just(Act::Claim), 1 => Just(Act::Cancel), 6 => shape.prop_map(Act::Step)]
}

/// A goal of one of two users to whom the same happens.
struct Twin {
    goal: AgentableId,
    claimed: Option<ClaimedRun>,
}

fn step(test: &TestStore, claimed: &ClaimedRun, shape: &Shape) -> Step {
    let next = || Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
    let transition = match shape.end {
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
    };
    let mut step = test.step(claimed, transition);
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

/// All rows of a user, without ids and times.
fn rows(test: &TestStore, of: &[Twin]) -> String {
    let goals: Vec<String> = of.iter().map(|twin| format!("'{}'", twin.goal.0)).collect();
    let goals = goals.join(", ");
    let user = format!("(select user_id from houston.agentables where id in ({goals}) limit 1)");
    let nth = format!("array_position(array[{goals}]::uuid[], agentable_id)");
    let plain = |row: &str| {
        format!(
            "regexp_replace(regexp_replace(to_jsonb({row})::text, '[0-9a-f]{{8}}-?([0-9a-f]{{4}}-?){{3}}[0-9a-f]{{12}}', '#', 'g'),
                            '\\d{{4}}-\\d\\d-\\d\\dT[0-9:.+]*', 'time', 'g')"
        )
    };
    let tables = [
        ("run_locks", "agentable_id"),
        ("runs", "first_seq"),
        ("messages", "seq"),
        ("events", "seq"),
        ("history", "position"),
        ("session_states", "agentable_id"),
        ("model_calls", "created_at"),
    ];
    let mut text = String::new();
    for (table, order) in tables {
        text += &test.sql(&format!(
            "select '{table}', {nth}, {} from houston.{table} t where agentable_id in ({goals}) order by {nth}, {order}",
            plain("t")
        ));
    }
    text += &test
        .sql(&format!("select 'spending', {} from houston.spending t where user_id = {user}", plain("t")));
    text += &test.sql(&format!(
        "select 'agentables', {} from houston.agentables t where id in ({goals}) order by array_position(array[{goals}]::uuid[], id)",
        plain("t")
    ));
    text
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
    async fn post_as(&self, goal: AgentableId, double_texting: DoubleTexting) -> bool {
        let metadata = json!({});
        let post = NewPost {
            kind: None,
            id: self.ids.next(),
            run: self.ids.next(),
            content: "hi",
            metadata: &metadata,
            double_texting,
        };
        self.store.post_message(self.tenant, goal, &post, None).await.is_ok()
    }

    async fn twins(&self, count: usize) -> Vec<Twin> {
        let first = goal(&self.store, &self.ids, self.tenant).await;
        let goals = goals_of(self, first, count).await;
        goals.into_iter().map(|goal| Twin { goal, claimed: None }).collect()
    }

    /// The effect of an act that is no step.
    async fn act(&self, twin: &mut Twin, act: &Act) -> bool {
        match act {
            Act::Post(texting) => self.post_as(twin.goal, *texting).await,
            Act::Claim => match self.claim_of(twin.goal).await {
                Some(claimed) => {
                    twin.claimed = Some(claimed);
                    true
                }
                None => false,
            },
            Act::Cancel => {
                let open = self.sql(&format!(
                    "select run_id from houston.run_locks where run_open and agentable_id = '{}'",
                    twin.goal.0
                ));
                let Ok(run) = open.trim().parse() else { return false };
                self.store.cancel_run(self.tenant, houston_domain::id::RunId(run)).await.is_ok()
            }
            Act::Step(_) => false,
        }
    }
}

/// Goals of each user.
const GOALS: usize = 4;

async fn same_rows(test: &TestStore, acts: &[(usize, Act)]) {
    let (mut batched, mut alone) = (test.twins(GOALS).await, test.twins(GOALS).await);
    let mut acts = acts.iter().peekable();
    while let Some((nth, act)) = acts.next() {
        let Act::Step(shape) = act else {
            let same = (test.act(&mut batched[*nth], act).await, test.act(&mut alone[*nth], act).await);
            assert_eq!(same.0, same.1, "{act:?}");
            continue;
        };
        // Steps that follow each other, of different goals, are committed together.
        let mut group = vec![(*nth, shape)];
        while let Some((nth, Act::Step(shape))) = acts.next_if(|(nth, act)| {
            matches!(act, Act::Step(_)) && group.iter().all(|(earlier, _)| earlier != nth)
        }) {
            group.push((*nth, shape));
        }
        let steps: Vec<(Fence, Step)> = group
            .iter()
            .filter_map(|(nth, shape)| {
                batched[*nth].claimed.as_ref().map(|run| (run.fence, step(test, run, shape)))
            })
            .collect();
        let together = commit_all(test, &steps).await;
        let mut one_by_one = Vec::new();
        for (nth, shape) in &group {
            let Some(run) = &alone[*nth].claimed else { continue };
            // The functions of the database commit it.
            one_by_one.push(match test.store.begin_fenced(&run.fence).await {
                Ok(tx) => tx.commit(&step(test, run, shape)).await,
                Err(error) => Err(error),
            });
        }
        let together: Vec<String> = together.into_iter().map(learned).collect();
        let one_by_one: Vec<String> = one_by_one.into_iter().map(learned).collect();
        if group.len() == 1 {
            assert_eq!(together, one_by_one);
        } else {
            // How many agentables may run next depends on the order in which the slots become free.
            let without_waiting =
                |learned: &String| learned.rsplit_once(' ').map(|(rest, _)| rest.to_owned());
            assert!(
                together.iter().map(without_waiting).eq(one_by_one.iter().map(without_waiting)),
                "{together:#?} {one_by_one:#?}"
            );
        }
    }
    let (batched, alone) = (rows(test, &batched), rows(test, &alone));
    for (batched, alone) in batched.lines().zip(alone.lines()) {
        assert_eq!(batched, alone);
    }
    assert_eq!(batched.lines().count(), alone.lines().count());
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_write_the_rows_that_single_steps_write() {
    let test = TestStore::start().await;
    let sequences = proptest::collection::vec((0..GOALS, act()), 5..60);
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..40 {
        let acts = sequences.new_tree(&mut runner).unwrap().current();
        // Printed if the test fails.
        println!("{acts:?}");
        same_rows(&test, &acts).await;
    }
}
