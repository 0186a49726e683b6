//! Whatever is lost and wherever the client is cut off, it ends with what Postgres has.

mod client;
mod script;

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Delta, Event as Durable, Part};
use proptest::prelude::*;
use serde_json::Value;

use self::client::Client;
use self::script::{Item, play, script};
use super::*;

/// What the store does on resume.
fn open_iteration_at(log: &[Committed], seq: i64) -> Option<OpenIteration> {
    let mut cursor = Cursor::new("goal_1", Position::after(0), None);
    for event in log.iter().take_while(|event| event.seq <= seq) {
        cursor.durable(event, &[], &mut |_, _| {});
    }
    cursor.iteration
}

fn snapshot(log: &[Committed], before: i64) -> Vec<SnapshotMessage> {
    crate::events::snapshot::of(log.iter().rev().filter(|event| event.seq < before).cloned().collect())
}

/// A stream and its client, with a line between them that breaks after some frames.
struct Line {
    log: Vec<Committed>,
    cursor: Cursor,
    client: Client,
    last_id: String,
    delivered: usize,
    cuts: BTreeSet<usize>,
    /// Which questions for the text so far are answered.
    answers: Vec<bool>,
    asked: usize,
    /// What has been streamed of the iteration at hand.
    written: Vec<Delta>,
}

impl Line {
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

    /// Hands frames to the client; true when the line broke.
    fn deliver(&mut self, frames: Vec<(String, Value)>) -> bool {
        for (id, event) in frames {
            self.client.take(&id, &event);
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

    /// Reads the log to its end, from wherever the client is, however often the line breaks.
    fn catch_up(&mut self) {
        while let Some(event) = self.log.iter().find(|event| event.seq > self.cursor.seq()).cloned() {
            let messages = self.cursor.snapshot_before(&event).map(|before| snapshot(&self.log, before));
            let mut frames = Vec::new();
            self.cursor.durable(&event, &messages.unwrap_or_default(), &mut |at, event| {
                frames.push((at.to_string(), serde_json::to_value(event).unwrap()));
            });
            self.deliver(frames);
        }
    }

    fn hear(&mut self, delta: &Delta) {
        let mut frames = Vec::new();
        let heard = self.cursor.delta(delta, &mut |at, event| {
            frames.push((at.to_string(), serde_json::to_value(event).unwrap()));
        });
        if self.deliver(frames) {
            self.catch_up();
        }
        match heard {
            Heard::Fine => {}
            Heard::Behind => self.catch_up(),
            Heard::Gap => {
                self.asked += 1;
                if self.answers[self.asked % self.answers.len()] {
                    for delta in self.transcript() {
                        self.hear(&delta);
                    }
                }
            }
        }
    }

    /// The text so far, as the worker tells it.
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
                    self.hear(delta);
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

    /// Reads the log while these still wait to be heard.
    fn run_ahead(&mut self, waiting: &[Item]) {
        for item in waiting {
            if let Item::Batch(events) = item {
                self.commit(events);
            }
        }
        self.catch_up();
    }
}

fn check(line: &Line) {
    let (client, log) = (&line.client, &line.log);
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
            (Durable::Thought { text }, _) => {
                assert_eq!(client.reasonings.get(reasoning.as_ref().unwrap()), Some(text));
            }
            (Durable::ToolCalled { message_id, input, .. }, _) => {
                arguments.insert(message_id.to_string(), input.to_string());
            }
            (Durable::ToolReturned { message_id, content, .. }, _) => {
                results.insert(message_id.to_string(), content.clone());
            }
            (Durable::ErrorShown { message_id, content, metadata }, _) => {
                errors.insert(message_id.to_string(), ErrorMessage::shown(content, metadata));
            }
            _ => {}
        }
    }
    assert_eq!(client.texts, texts);
    assert_eq!(client.arguments, arguments);
    assert_eq!(client.results, results);
    assert_eq!(client.errors, errors);
    let count = |of: fn(&Durable) -> bool| log.iter().filter(|committed| of(&committed.event)).count();
    // What is told between two runs has a run around it.
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
    fn any_loss_and_any_cut_end_in_the_same_texts(
        script in script(),
        lost in proptest::collection::vec(proptest::bool::weighted(0.25), 1..60),
        cuts in proptest::collection::btree_set(1..150usize, 0..12),
        answers in proptest::collection::vec(any::<bool>(), 1..8),
        ahead in proptest::collection::vec(prop_oneof![8 => Just(0), 1 => 1..9usize], 1..30),
    ) {
        let mut line = Line::new(cuts, answers);
        let items = play(&script);
        for (at, (lost, ahead)) in (0..items.len()).zip(lost.iter().cycle().zip(ahead.iter().cycle())) {
            if *ahead > 0 {
                line.run_ahead(&items[at..items.len().min(at + ahead)]);
            }
            line.publish(&items[at], *lost);
        }
        line.catch_up();
        check(&line);
        prop_assert_eq!(line.cursor.seq(), line.log.last().unwrap().seq);
        prop_assert!(!line.client.is_running());
    }

}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn a_replay_continues_alike_from_each_of_its_positions(script in script()) {
        let log: Vec<Committed> = play(&script).into_iter().filter_map(|item| match item {
            Item::Batch(events) => Some(events),
            Item::Delta(_) => None,
        }).flatten().collect();
        let replay = |from: &str| {
            let at: Position = from.parse().unwrap();
            let mut cursor = Cursor::new("goal_1", at, open_iteration_at(&log, at.seq));
            let mut frames = Vec::new();
            for event in log.iter().filter(|event| event.seq > at.seq) {
                cursor.durable(event, &[], &mut |at, event| {
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
