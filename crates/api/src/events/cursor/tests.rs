//! With any lost items and any disconnects, the client ends with the texts in Postgres.

mod client;
mod plans;
pub(crate) mod script;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Delta, Event as Durable, Part};
use proptest::prelude::*;
use serde_json::Value;

use self::client::Client;
use self::script::{Item, play, script};
use super::*;

/// The iteration that is open at `seq`, as the store computes it on resume.
pub(crate) fn open_iteration_at(log: &[Committed], seq: i64) -> Option<OpenIteration> {
    let mut cursor = Cursor::new("goal_1", Position::after(0), None);
    for event in log.iter().take_while(|event| event.seq <= seq) {
        cursor.durable(event, &Needed::default(), &mut |_, _| {});
    }
    cursor.iteration
}

fn snapshot(log: &[Committed], before: i64) -> Vec<SnapshotMessage> {
    crate::events::snapshot::of(log.iter().rev().filter(|event| event.seq < before).cloned().collect())
}

/// A stream and its client, with a connection that breaks after the frames in `cuts`.
struct TestStream {
    log: Vec<Committed>,
    cursor: Cursor,
    client: Client,
    last_id: String,
    delivered: usize,
    cuts: BTreeSet<usize>,
    /// Which requests for the text written so far are answered.
    answers: Vec<bool>,
    asked: usize,
    /// The deltas of the current iteration.
    written: Vec<Delta>,
}

impl TestStream {
    fn new(cuts: BTreeSet<usize>, answers: Vec<bool>) -> Self {
        Self {
            log: Vec::new(),
            cursor: Cursor::new("goal_1", Position::after(0), None),
            client: Client::default(),
            last_id: "0".into(),
            delivered: 0,
            cuts,
            answers,
            asked: 0,
            written: Vec::new(),
        }
    }

    /// Delivers frames to the client; `true` if the connection broke.
    fn deliver(&mut self, frames: Vec<(String, Value)>) -> bool {
        for (id, event) in frames {
            self.client.apply(&id, &event);
            self.last_id = id;
            self.delivered += 1;
            if self.cuts.contains(&self.delivered) {
                let at: Position = self.last_id.parse().unwrap();
                self.cursor = Cursor::new("goal_1", at, open_iteration_at(&self.log, at.seq));
                return true;
            }
        }
        false
    }

    /// Reads the log from the client's position to its end, across any number of broken connections.
    fn catch_up(&mut self) {
        while let Some(event) = self.log.iter().find(|event| event.seq > self.cursor.seq()).cloned() {
            let snapshot = self.cursor.snapshot_before(&event).map(|before| snapshot(&self.log, before));
            let needed = Needed { snapshot: snapshot.unwrap_or_default(), questions: Vec::new() };
            let mut frames = Vec::new();
            self.cursor.durable(&event, &needed, &mut |at, event| {
                frames.push((at.to_string(), serde_json::to_value(event).unwrap()));
            });
            self.deliver(frames);
        }
    }

    fn receive_delta(&mut self, delta: &Delta) {
        let mut frames = Vec::new();
        let outcome = self.cursor.delta(delta, &mut |at, event| {
            frames.push((at.to_string(), serde_json::to_value(event).unwrap()));
        });
        if self.deliver(frames) {
            self.catch_up();
        }
        match outcome {
            DeltaOutcome::Handled => {}
            DeltaOutcome::Behind => self.catch_up(),
            DeltaOutcome::Gap => {
                self.asked += 1;
                if self.answers[self.asked % self.answers.len()] {
                    for delta in self.transcript() {
                        self.receive_delta(&delta);
                    }
                }
            }
        }
    }

    /// The text written so far, as the worker publishes it on request.
    fn transcript(&self) -> Vec<Delta> {
        let mut parts: BTreeMap<bool, Delta> = BTreeMap::new();
        for delta in &self.written {
            let so_far = parts.entry(delta.part == Part::Message).or_insert_with(|| Delta {
                offset: 0,
                text: String::new(),
                ..delta.clone()
            });
            so_far.text.push_str(&delta.text);
        }
        parts.into_values().collect()
    }

    fn publish(&mut self, item: &Item, lost: bool) {
        match item {
            Item::Delta(delta) => {
                if self.written.first().is_some_and(|first| first.message_id != delta.message_id) {
                    self.written.clear();
                }
                self.written.push(delta.clone());
                if !lost {
                    self.receive_delta(delta);
                }
            }
            Item::Batch(events) => {
                self.commit(events);
                if !lost {
                    self.catch_up();
                }
            }
        }
    }

    fn commit(&mut self, events: &[Committed]) {
        let last = self.log.last().map_or(0, |event| event.seq);
        self.log.extend(events.iter().filter(|event| event.seq > last).cloned());
    }

    /// Commits the batches in `waiting` and reads the log, before these items are published.
    fn run_ahead(&mut self, waiting: &[Item]) {
        for item in waiting {
            if let Item::Batch(events) = item {
                self.commit(events);
            }
        }
        self.catch_up();
    }
}

fn check(stream: &TestStream) {
    let (client, log) = (&stream.client, &stream.log);
    let mut texts = BTreeMap::new();
    let (mut arguments, mut results) = (BTreeMap::new(), BTreeMap::new());
    let (mut reasoning, mut errors) = (None, BTreeMap::new());
    for committed in log {
        match (&committed.event, &committed.body) {
            (Durable::MessageSent { message_id }, Some(body)) => {
                texts.insert(message_id.to_string(), body.content.clone());
            }
            (
                Durable::AttemptStarted { next_message_id, .. }
                | Durable::StepFinished { next_message_id, .. },
                _,
            ) => reasoning = Some(EntityId::Reasoning(*next_message_id).to_string()),
            (Durable::Thought { text, withdrawn_at }, _) => {
                let has = client.reasonings.get(reasoning.as_ref().unwrap()).unwrap();
                // What is withdrawn after reasoning that has ended is not added to it.
                let ended = withdrawn_at.filter(|at| *at > 0).map(|at| text.chars().take(at as usize));
                assert!(has == text || ended.is_some_and(|ended| has.chars().eq(ended)), "{has}");
            }
            (Durable::ToolCalled { message_id, input, .. }, _) => {
                arguments.insert(message_id.to_string(), input.to_string());
            }
            (Durable::ToolReturned { message_id, content, .. }, _) => {
                results.insert(message_id.to_string(), content.clone());
            }
            (Durable::ErrorShown { message_id, content, metadata }, _) => {
                errors.insert(message_id.to_string(), ErrorMessage::client_fields(content, metadata));
            }
            _ => {}
        }
    }
    assert_eq!(client.texts, texts);
    assert_eq!(client.arguments, arguments);
    assert_eq!(client.results, results);
    assert_eq!(client.errors, errors);
    let count = |of: fn(&Durable) -> bool| log.iter().filter(|committed| of(&committed.event)).count();
    // An event between two runs is wrapped into a run.
    let between = count(|event| matches!(event, Durable::TitleSet { between_runs: true, .. }));
    assert_eq!(client.runs.len(), count(|event| matches!(event, Durable::RunQueued {})) + between);
    assert_eq!(client.ends.len(), count(|event| matches!(event, Durable::RunFinished { .. })) + between);
    let customs = |name: &str| client.customs.iter().filter(|custom| custom.as_str() == name).count();
    for (name, events) in [
        ("houston.message.posted", count(|event| matches!(event, Durable::MessagePosted { .. }))),
        ("houston.attempt.started", count(|event| matches!(event, Durable::AttemptStarted { .. }))),
        ("houston.retry.scheduled", count(|event| matches!(event, Durable::RetryScheduled { .. }))),
        ("houston.model.fallback", count(|event| matches!(event, Durable::ModelFallback { .. }))),
        ("houston.team.routed", count(|event| matches!(event, Durable::TeamRouted { .. }))),
        ("houston.context.compressed", count(|event| matches!(event, Durable::ContextCompressed { .. }))),
        ("houston.title.set", count(|event| matches!(event, Durable::TitleSet { .. }))),
        ("houston.run.waiting", count(|event| matches!(event, Durable::RunWaiting { .. }))),
        ("houston.run.handed_over", count(|event| matches!(event, Durable::HandedOver { .. }))),
    ] {
        assert_eq!(customs(name), events, "{name}");
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_loss_and_any_disconnect_end_in_the_same_texts(
        script in script(),
        lost in proptest::collection::vec(proptest::bool::weighted(0.25), 1..60),
        cuts in proptest::collection::btree_set(1..150usize, 0..12),
        answers in proptest::collection::vec(any::<bool>(), 1..8),
        ahead in proptest::collection::vec(prop_oneof![8 => Just(0), 1 => 1..9usize], 1..30),
    ) {
        let mut stream = TestStream::new(cuts, answers);
        let items = play(&script);
        for (at, (lost, ahead)) in (0..items.len()).zip(lost.iter().cycle().zip(ahead.iter().cycle())) {
            if *ahead > 0 {
                stream.run_ahead(&items[at..items.len().min(at + ahead)]);
            }
            stream.publish(&items[at], *lost);
        }
        stream.catch_up();
        check(&stream);
        prop_assert_eq!(stream.cursor.seq(), stream.log.last().unwrap().seq);
        prop_assert!(!stream.client.is_running());
    }

}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn replay_is_the_same_from_every_position(script in script()) {
        let log: Vec<Committed> = play(&script).into_iter().filter_map(|item| match item {
            Item::Batch(events) => Some(events),
            Item::Delta(_) => None,
        }).flatten().collect();
        let replay = |from: &str| {
            let at: Position = from.parse().unwrap();
            let mut cursor = Cursor::new("goal_1", at, open_iteration_at(&log, at.seq));
            let mut frames = Vec::new();
            for event in log.iter().filter(|event| event.seq > at.seq) {
                cursor.durable(event, &Needed::default(), &mut |at, event| {
                    frames.push((at.to_string(), serde_json::to_string(event).unwrap()));
                });
            }
            frames
        };
        let all = replay("0");
        for (number, (id, _)) in all.iter().enumerate() {
            prop_assert_eq!(&replay(id), &all[number + 1..]);
        }
    }
}

/// The frames of an iteration that streams `text` after `thinking`, and withdraws the text, each as its id, type and text.
fn withdrawal(thinking: &str, text: &str) -> Vec<(String, String, String)> {
    let message = MessageId(uuid::Uuid::from_u128(7));
    let chars = |text: &str| u32::try_from(text.chars().count()).unwrap();
    let begun = Durable::AttemptStarted {
        attempt: 1,
        iteration: 1,
        next_message_id: message,
        takeover: false,
        resumed: false,
    };
    let thought = Durable::Thought { text: format!("{thinking}{text}"), withdrawn_at: Some(chars(thinking)) };
    let committed = |seq, event| Committed {
        seq,
        run_id: uuid::Uuid::nil().into(),
        at: chrono::DateTime::UNIX_EPOCH,
        event,
        body: None,
    };
    let delta = |part, reasoning_chars, text: &str| Delta {
        message_id: message,
        part,
        reasoning_chars,
        offset: 0,
        text: text.to_owned(),
        is_draft: false,
    };
    let mut cursor = Cursor::new("goal_1", Position::after(0), None);
    cursor.durable(&committed(1, begun), &Needed::default(), &mut |_, _| {});
    let mut frames = Vec::new();
    let mut emit = |at: Position, event: &Event<'_>| {
        let event = serde_json::to_value(event).unwrap();
        let of = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        frames.push((at.to_string(), of("type"), of("delta")));
    };
    let message = delta(Part::Message, chars(thinking), text);
    cursor.delta(&delta(Part::Reasoning, 0, thinking), &mut emit);
    cursor.delta(&message, &mut emit);
    let thought = committed(2, thought);
    assert!(cursor.snapshot_before(&thought).is_some(), "the thread replaces what the client has");
    cursor.durable(&thought, &Needed::default(), &mut emit);
    // It is late, or was requested before.
    assert_eq!(cursor.delta(&message, &mut emit), DeltaOutcome::Handled);
    frames
}

#[test]
fn withdrawn_text_ends_and_becomes_reasoning() {
    let frame = |id: &str, kind: &str, delta: &str| (id.to_owned(), kind.to_owned(), delta.to_owned());
    let expected = [
        frame("1:0", "TEXT_MESSAGE_START", ""),
        frame("1:4", "TEXT_MESSAGE_CONTENT", "I go"),
        frame("1:4f1", "TEXT_MESSAGE_END", ""),
        frame("1:4f2", "MESSAGES_SNAPSHOT", ""),
        frame("1:4f3", "REASONING_MESSAGE_START", ""),
        frame("1:4f4", "REASONING_MESSAGE_CONTENT", "I go"),
        frame("2", "REASONING_MESSAGE_END", ""),
    ];
    assert_eq!(withdrawal("", "I go"), expected);
    let expected = [
        frame("1:r0", "REASONING_MESSAGE_START", ""),
        frame("1:r2", "REASONING_MESSAGE_CONTENT", "Hm"),
        frame("1:d", "REASONING_MESSAGE_END", ""),
        frame("1:0", "TEXT_MESSAGE_START", ""),
        frame("1:4", "TEXT_MESSAGE_CONTENT", "I go"),
        frame("1:4f1", "TEXT_MESSAGE_END", ""),
        frame("2", "MESSAGES_SNAPSHOT", ""),
    ];
    assert_eq!(withdrawal("Hm", "I go"), expected);
}
