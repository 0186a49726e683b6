//! With any lost items, any disconnects and any retries, the client of a response ends with its texts.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::event::{Committed, Delta, Event as Durable};
use houston_domain::id::RunId;
use houston_protocol::sse::SseEncoder;
use proptest::prelude::*;
use serde_json::Value;

use super::id::ResponseId;
use super::replay::{Next, Replay};
use super::stream::{Place, ResponseEvents};
use crate::events::cursor::tests::open_iteration_at;
use crate::events::cursor::tests::script::{Item, Script, forgotten_thought, play, script};
use crate::events::cursor::{Cursor, Needed};
use crate::events::position::Position;
use crate::events::stream::Dialect as _;

/// What a client has of a response.
#[derive(Debug, Default)]
struct Client {
    numbers: Vec<u64>,
    /// The texts of open and complete items, by id, as the deltas say.
    texts: BTreeMap<String, String>,
    /// Ids of items that were announced and are not done.
    open: BTreeSet<String>,
    /// Ids of messages that broke off.
    broken: BTreeSet<String>,
    indexes: BTreeMap<u64, String>,
    end: Option<Value>,
}

impl Client {
    fn apply(&mut self, event: &Value) {
        assert!(self.end.is_none(), "an event after the end: {event}");
        let number = event["sequence_number"].as_u64().unwrap();
        let name = event["type"].as_str().unwrap();
        match self.numbers.last() {
            None => assert_eq!(name, "response.created"),
            Some(last) => assert!(number > *last, "{number} after {last}: {event}"),
        }
        assert!(number < 1 << 53);
        self.numbers.push(number);
        let id = event["item_id"].as_str().unwrap_or_default().to_owned();
        match name {
            "response.output_item.added" => {
                let id = event["item"]["id"].as_str().unwrap().to_owned();
                assert!(self.open.insert(id.clone()), "{id} is announced twice");
                self.indexes.insert(event["output_index"].as_u64().unwrap(), id.clone());
                self.texts.insert(id, String::new());
            }
            "response.output_text.delta" | "response.reasoning_summary_text.delta" => {
                assert!(self.open.contains(&id), "a delta of {id}, which is not open");
                self.texts.get_mut(&id).unwrap().push_str(event["delta"].as_str().unwrap());
            }
            "response.output_text.done" | "response.reasoning_summary_text.done" => {
                // The whole text takes the place of the pieces.
                self.texts.insert(id, event["text"].as_str().unwrap().to_owned());
            }
            "response.output_item.done" => {
                let item = &event["item"];
                let id = item["id"].as_str().unwrap().to_owned();
                assert!(self.open.remove(&id), "{id} is done, but was not open");
                if item["status"] == "incomplete" {
                    self.broken.insert(id);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end = Some(event["response"].clone());
            }
            _ => {}
        }
    }
}

/// The stream of the response of one run.
struct TestStream {
    base: i64,
    id: ResponseId,
    log: Vec<Committed>,
    cursor: Cursor,
    events: ResponseEvents,
    client: Client,
    delivered: usize,
    cuts: BTreeSet<usize>,
}

impl TestStream {
    fn new(base: i64, run: RunId, cuts: BTreeSet<usize>) -> Self {
        let id = ResponseId { run, after: 0 };
        let head = super::replay::Said::default().head(id, 0, "goal_1");
        Self {
            base,
            id,
            log: Vec::new(),
            cursor: Cursor::new("goal_1", Position::after(base), None).with_interrupts(false),
            events: ResponseEvents::new(super::translate::Translator::new(head), base, 0),
            client: Client::default(),
            delivered: 0,
            cuts,
        }
    }

    /// Delivers the buffered frames; the connection may break after each.
    fn deliver(&mut self, mut frames: SseEncoder) -> bool {
        let text = String::from_utf8(frames.take().unwrap_or_default()).unwrap();
        for frame in text.split("\n\n").filter(|frame| !frame.is_empty()) {
            let (name, data) = frame.split_once('\n').unwrap();
            let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: "), event["type"].as_str());
            self.client.apply(&event);
            self.delivered += 1;
            if self.cuts.contains(&self.delivered) && self.client.end.is_none() {
                self.reconnect();
                return true;
            }
        }
        false
    }

    /// As [`super::responses::Found::resume`].
    fn reconnect(&mut self) {
        let number = *self.client.numbers.last().unwrap();
        let place = Place::of(number);
        let mut replay = Some(Replay::new(("goal_1", "goal"), self.id, self.base, Some((number, place))));
        let mut events = None;
        for nth in 0..self.log.len() {
            let of = replay.as_mut().unwrap();
            match of.step(&self.log[nth..], &Needed::default()) {
                Next::More => {}
                Next::Missing => panic!("missing"),
                Next::Over => break,
                Next::Reached => {
                    let event = &self.log[nth];
                    let iteration = open_iteration_at(&self.log, event.seq - 1);
                    events = replay.take().unwrap().up_to(event, iteration, &Needed::default());
                    break;
                }
            }
        }
        self.events = events.or_else(|| replay.unwrap().finish()).unwrap();
        let at = Position { seq: place.at.seq + self.base, ..place.at };
        let iteration = open_iteration_at(&self.log, at.seq);
        self.cursor = Cursor::new("goal_1", at, iteration).with_interrupts(false);
        let mut frames = SseEncoder::default();
        frames.push_raw(&self.events.take_missing());
        self.deliver(frames);
    }

    fn catch_up(&mut self) {
        while let Some(event) = self.log.iter().find(|event| event.seq > self.cursor.seq()).cloned() {
            if self.client.end.is_some() {
                return;
            }
            let (mut frames, events) = (SseEncoder::default(), &mut self.events);
            events.committed(&event);
            self.cursor.durable(&event, &Needed::default(), &mut |at, event| {
                events.push(at, event, &mut frames);
            });
            self.deliver(frames);
        }
    }

    fn receive_delta(&mut self, delta: &Delta) {
        let (mut frames, events) = (SseEncoder::default(), &mut self.events);
        self.cursor.delta(delta, &mut |at, event| events.push(at, event, &mut frames));
        if self.deliver(frames) {
            self.catch_up();
        }
    }
}

/// The items of each run, with the position before its first event.
fn runs(items: Vec<Item>) -> Vec<(i64, RunId, Vec<Item>)> {
    let mut runs: Vec<(i64, RunId, Vec<Item>)> = Vec::new();
    for item in items {
        if let Item::Batch(events) = &item
            && let Some(first) = events.first().filter(|first| matches!(first.event, Durable::RunQueued {}))
        {
            runs.push((first.seq - 1, first.run_id, Vec::new()));
        }
        if let Some((_, _, items)) = runs.last_mut() {
            items.push(item);
        }
    }
    runs
}

fn check(stream: &TestStream) {
    let client = &stream.client;
    let end = client.end.as_ref().expect("the response has ended");
    let mut sent = BTreeMap::new();
    for event in &stream.log {
        if let (Durable::MessageSent { message_id }, Some(body)) = (&event.event, &event.body) {
            sent.insert(message_id.to_string(), body.content.clone());
        }
        if matches!(event.event, Durable::RunFinished { .. }) {
            break;
        }
    }
    let output = end["output"].as_array().unwrap();
    let in_output: BTreeMap<String, String> = output
        .iter()
        .filter(|item| item["type"] == "message")
        .map(|item| {
            (item["id"].as_str().unwrap().to_owned(), item["content"][0]["text"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(in_output, sent, "the texts of the final response");
    for (id, text) in &sent {
        assert_eq!(client.texts.get(id), Some(text), "the streamed text of {id}");
    }
    let kept = |id: &String| id.starts_with("msg_") && !client.broken.contains(id);
    let streamed: BTreeSet<&String> = client.texts.keys().filter(|id| kept(id)).collect();
    assert_eq!(streamed, sent.keys().collect(), "the messages that did not break off");
    assert!(client.open.iter().all(|id| id.starts_with("mcp_")), "open at the end: {:?}", client.open);
    // What a request that comes later reads.
    let mut replay = Replay::new(("goal_1", "goal"), stream.id, stream.base, None);
    for nth in 0..stream.log.len() {
        if replay.step(&stream.log[nth..], &Needed::default()) != Next::More {
            break;
        }
    }
    let read = serde_json::to_value(replay.finish().unwrap().translator.response()).unwrap();
    for field in ["status", "usage", "incomplete_details", "error", "id"] {
        assert_eq!(read[field], end[field], "{field}");
    }
    let by_id = |response: &Value| -> BTreeMap<String, Value> {
        let items = response["output"].as_array().unwrap().iter();
        items.map(|item| (item["id"].as_str().unwrap().to_owned(), item.clone())).collect()
    };
    assert_eq!(by_id(&read), by_id(end), "the items of the response that is read later");
}

/// Reads the responses of a script, of which the live stream loses some items, with connections that break after `cuts` frames.
fn read(script: &Script, lost: &[bool], cuts: &BTreeSet<usize>) {
    for (base, run, items) in runs(play(script)) {
        let mut stream = TestStream::new(base, run, cuts.clone());
        for (item, lost) in items.iter().zip(lost.iter().cycle()) {
            match item {
                Item::Delta(delta) if !lost => stream.receive_delta(delta),
                Item::Delta(_) => {}
                Item::Batch(events) => {
                    stream.log.extend(events.iter().cloned());
                    if !lost {
                        stream.catch_up();
                    }
                }
            }
        }
        stream.catch_up();
        check(&stream);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_disconnect_ends_in_the_same_response(
        script in script(),
        lost in proptest::collection::vec(proptest::bool::weighted(0.25), 1..60),
        cuts in proptest::collection::btree_set(1..120usize, 0..12),
    ) {
        read(&script, &lost, &cuts);
    }
}

#[test]
fn reasoning_that_is_forgotten_is_done_once() {
    let script = forgotten_thought();
    // The stream loses the end of the message. Two breaks: within the end of the reasoning, and within that of a call.
    let lost: Vec<bool> = (0..40).map(|nth| nth == 4).collect();
    for first in 1..30 {
        for next in 0..20 {
            read(&script, &lost, &BTreeSet::from([first, first + next]));
        }
    }
}
