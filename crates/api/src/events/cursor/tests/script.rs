//! Random histories of an agentable: committed events and deltas, in the order in which they were published.

use chrono::DateTime;
use houston_domain::compression::CompressionReason;
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Delta, Event as Durable, MessageBody, Part};
use houston_domain::id::{AgentId, CompressionId, MessageId, RunId, TeamId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::team::RoutedBy;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

/// One published item.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Delta(Delta),
    Batch(Vec<Committed>),
}

#[derive(Debug, Clone)]
pub(crate) struct Iteration {
    reasoning: Vec<String>,
    text: Vec<String>,
    /// Text that was streamed but is not in the committed message.
    excess: String,
    tools: usize,
    /// Whether the reasoning is committed.
    keeps_thought: bool,
    /// Whether a fallback model answered.
    falls_back: bool,
    /// Whether the text is withdrawn, because calls follow.
    withdrawn: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Crash,
    Retry,
    HandOver,
    Wait,
    Finish { status: RunStatus, notice: bool },
}

#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    iterations: Vec<Iteration>,
    end: End,
    /// After how many deltas the last iteration breaks off.
    cut: usize,
}

pub(crate) type Script = (Vec<Vec<Attempt>>, Vec<bool>);

fn chunks() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a-cäß€𝄞 \n\"]{1,5}", 0..5)
}

fn iteration() -> impl Strategy<Value = Iteration> {
    let excess = prop_oneof![6 => Just(String::new()), 1 => Just("…?".to_owned())];
    let (keeps_thought, falls_back) = (proptest::bool::weighted(0.9), proptest::bool::weighted(0.2));
    let withdrawn = proptest::bool::weighted(0.2);
    (chunks(), chunks(), excess, 0..3usize, (keeps_thought, falls_back, withdrawn)).prop_map(
        |(reasoning, text, excess, tools, (keeps_thought, falls_back, withdrawn))| {
            let withdrawn = withdrawn && !text.is_empty();
            let excess = if text.is_empty() || withdrawn { String::new() } else { excess };
            let tools = if withdrawn { tools.max(1) } else { tools };
            Iteration { reasoning, text, excess, tools, keeps_thought, falls_back, withdrawn }
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    let status = prop_oneof![
        Just(RunStatus::Completed),
        Just(RunStatus::MessageSent),
        Just(RunStatus::Cancelled),
        Just(RunStatus::Failed),
        Just(RunStatus::MaxIterations),
    ];
    prop_oneof![
        Just(End::Crash),
        Just(End::Retry),
        Just(End::HandOver),
        Just(End::Wait),
        (status, any::<bool>()).prop_map(|(status, notice)| End::Finish { status, notice }),
    ]
}

pub(crate) fn script() -> impl Strategy<Value = Script> {
    let attempt = (proptest::collection::vec(iteration(), 1..4), end(), 0..12usize)
        .prop_map(|(iterations, end, cut)| Attempt { iterations, end, cut });
    let run = proptest::collection::vec(attempt, 1..4);
    (proptest::collection::vec(run, 1..3), proptest::collection::vec(proptest::bool::weighted(0.15), 1..40))
}

/// A run that streams reasoning of which nothing is committed, and then calls tools.
pub(crate) fn forgotten_thought() -> Script {
    let whole = Iteration {
        reasoning: vec!["why".to_owned()],
        text: vec!["so".to_owned()],
        excess: String::new(),
        tools: 2,
        keeps_thought: false,
        falls_back: false,
        withdrawn: false,
    };
    let end = End::Finish { status: RunStatus::Completed, notice: false };
    (vec![vec![Attempt { iterations: vec![whole], end, cut: 0 }]], vec![false])
}

/// The items that a script publishes.
pub(crate) fn play((runs, posts): &Script) -> Vec<Item> {
    let mut recorder = Recorder { posts: posts.clone(), ..Recorder::default() };
    for run in runs {
        recorder.run(run);
    }
    recorder.items
}

#[derive(Default)]
struct Recorder {
    items: Vec<Item>,
    seq: i64,
    ids: u128,
    run: u128,
    number: u32,
    message: Option<MessageId>,
    posts: Vec<bool>,
    moments: usize,
    /// Whether the run's error message is unresolved.
    failing: bool,
}

impl Recorder {
    fn id(&mut self) -> MessageId {
        self.ids += 1;
        MessageId(Uuid::from_u128(self.ids))
    }

    fn committed(&mut self, event: Durable, body: Option<MessageBody>) -> Committed {
        self.seq += 1;
        let run_id = RunId(Uuid::from_u128(self.run));
        Committed { seq: self.seq, run_id, at: DateTime::UNIX_EPOCH, event, body }
    }

    fn publish(&mut self, events: Vec<(Durable, Option<MessageBody>)>) {
        let over = events.iter().any(|(event, _)| matches!(event, Durable::RunFinished { .. }));
        let batch = events.into_iter().map(|(event, body)| self.committed(event, body)).collect();
        self.items.push(Item::Batch(batch));
        if !over {
            self.moment();
        }
    }

    /// Publishes a user message or a title, at random, at any moment of a run.
    fn moment(&mut self) {
        self.moments += 1;
        if self.posts[self.moments % self.posts.len()] {
            let (event, body) = if self.moments.is_multiple_of(3) { title(false) } else { self.posted() };
            let batch = vec![self.committed(event, body)];
            self.items.push(Item::Batch(batch));
        }
    }

    fn posted(&mut self) -> (Durable, Option<MessageBody>) {
        let message_id = self.id();
        (Durable::MessagePosted { message_id }, Some(message_body(Source::User, "and?".into())))
    }

    fn run(&mut self, attempts: &[Attempt]) {
        if self.run > 0 && self.posts[0] {
            let (event, body) = title(true);
            let batch = vec![self.committed(event, body)];
            self.items.push(Item::Batch(batch));
        }
        self.run += 1;
        self.number = 1;
        self.failing = false;
        let posted = self.posted();
        self.publish(vec![(Durable::RunQueued {}, None), posted]);
        let last = attempts.len() - 1;
        let mut takeover = false;
        for (at, attempt) in attempts.iter().enumerate() {
            let end = match attempt.end {
                End::Finish { .. } if at < last => End::Crash,
                end @ End::Finish { .. } => end,
                _ if at == last => End::Finish { status: RunStatus::Completed, notice: false },
                end => end,
            };
            self.attempt(attempt, end, i32::try_from(at).unwrap() + 1, takeover);
            takeover = matches!(end, End::Crash);
        }
    }

    fn attempt(&mut self, attempt: &Attempt, end: End, number: i32, takeover: bool) {
        let next_message_id = self.id();
        self.message = Some(next_message_id);
        let iteration = self.number;
        let begun =
            Durable::AttemptStarted { attempt: number, iteration, next_message_id, takeover, resumed: false };
        self.publish(vec![(begun, None)]);
        if number == 2 {
            let compressed = Durable::ContextCompressed {
                compression_id: CompressionId(Uuid::from_u128(self.ids)),
                reason: CompressionReason::Budget,
                entries_before: 40,
                entries_after: 9,
                tokens_before: 30_000,
                tokens_after: 9_000,
                model: None,
            };
            self.publish(vec![(compressed, None)]);
        }
        let last = attempt.iterations.len() - 1;
        for (at, iteration) in attempt.iterations.iter().enumerate() {
            if at < last {
                self.iteration(iteration, None);
                continue;
            }
            let whole = matches!(end, End::Finish { status, .. }
                if !matches!(status, RunStatus::Cancelled | RunStatus::Failed));
            let closing = self.closing(end);
            if whole {
                self.iteration(iteration, Some(closing));
            } else {
                self.broken_iteration(iteration, attempt.cut);
                if !closing.is_empty() {
                    self.publish(closing);
                }
            }
        }
    }

    fn closing(&mut self, end: End) -> Vec<(Durable, Option<MessageBody>)> {
        let iteration = self.number;
        match end {
            End::Crash => vec![],
            End::Retry => {
                self.failing = true;
                let scheduled = Durable::RetryScheduled {
                    attempt: 1,
                    of: 3,
                    retry_at: DateTime::UNIX_EPOCH,
                    code: "TIMEOUT".into(),
                    message: "slow".into(),
                    iteration,
                };
                vec![self.error("waiting"), (scheduled, None)]
            }
            End::HandOver => vec![(Durable::HandedOver { iteration }, None)],
            End::Wait => vec![(Durable::RunWaiting { until: None, iteration }, None)],
            End::Finish { status, notice } => {
                let mut events = Vec::new();
                if notice {
                    let message_id = self.id();
                    events.push((
                        Durable::MessageSent { message_id },
                        Some(message_body(Source::Error, "Sorry.".into())),
                    ));
                }
                if std::mem::take(&mut self.failing) || status == RunStatus::Failed {
                    events.push(self.error(status.as_str()));
                }
                let (message, code) = (None, None);
                let usage = Usage::default();
                events.push((
                    Durable::RunFinished {
                        status,
                        iteration: Some(iteration),
                        usage,
                        message,
                        code,
                        result: None,
                    },
                    None,
                ));
                events
            }
        }
    }

    /// Publishes up to `most` deltas. Returns whether that was all.
    fn stream(&mut self, iteration: &Iteration, most: usize) -> bool {
        let Some(message_id) = self.message else { return true };
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap();
        let reasoning_chars = count(&iteration.reasoning.concat());
        let mut pieces = Vec::new();
        let parts =
            [(Part::Reasoning, &iteration.reasoning, 0), (Part::Message, &iteration.text, reasoning_chars)];
        for (part, chunks, reasoning_chars) in parts {
            let mut offset = 0;
            for text in chunks.iter().chain((part == Part::Message).then_some(&iteration.excess)) {
                pieces.push(Delta {
                    message_id,
                    part,
                    reasoning_chars,
                    offset,
                    text: text.clone(),
                    is_draft: false,
                });
                offset += count(text);
            }
        }
        let all = pieces.len() <= most;
        for piece in pieces.into_iter().take(most) {
            self.items.push(Item::Delta(piece));
            self.moment();
        }
        all
    }

    fn turn(&mut self, iteration: &Iteration, cells: &[MessageId]) -> Vec<(Durable, Option<MessageBody>)> {
        let mut events = Vec::new();
        if iteration.falls_back {
            let fallback = Durable::ModelFallback {
                from: "anthropic/a".into(),
                to: "openai/b".into(),
                code: "RATE_LIMITED".into(),
                message: "slow down".into(),
            };
            events.push((fallback, None));
            let routed = Durable::TeamRouted {
                team_id: TeamId(Uuid::nil()),
                agent_id: AgentId(Uuid::nil()),
                agent_name: "one".into(),
                by: RoutedBy::Rule,
                reason: "rule 1 holds".into(),
            };
            events.push((routed, None));
        }
        let reasoning = iteration.reasoning.concat();
        if iteration.withdrawn {
            let withdrawn_at = u32::try_from(reasoning.chars().count()).ok();
            let text = reasoning + &iteration.text.concat();
            events.push((Durable::Thought { text, withdrawn_at }, None));
        } else if !reasoning.is_empty() && iteration.keeps_thought {
            events.push((Durable::Thought { text: reasoning, withdrawn_at: None }, None));
        }
        for message_id in cells {
            let (call_id, name) = ("call_1_1".to_owned(), "create_note".to_owned());
            let event = Durable::ToolCalled {
                call_id,
                name,
                input: json!({"a": 1}),
                message_id: *message_id,
                decided_by: None,
            };
            events.push((event, Some(message_body(Source::Agent, "Note".into()))));
        }
        if std::mem::take(&mut self.failing) {
            events.push(self.error("resolved"));
        }
        events
    }

    /// The run's error message in the given state.
    fn error(&self, state: &str) -> (Durable, Option<MessageBody>) {
        let id = ErrorMessage::id_of(RunId(Uuid::from_u128(self.run << 64)));
        let (content, metadata) = ("slow".to_owned(), json!({"state": state}));
        let body = MessageBody { metadata: metadata.clone(), ..message_body(Source::Error, content.clone()) };
        (Durable::ErrorShown { message_id: id, content, metadata }, Some(body))
    }

    fn iteration(&mut self, iteration: &Iteration, closing: Option<Vec<(Durable, Option<MessageBody>)>>) {
        self.stream(iteration, usize::MAX);
        let cells: Vec<MessageId> = (0..iteration.tools).map(|_| self.id()).collect();
        let mut events = self.turn(iteration, &cells);
        if !cells.is_empty() {
            self.publish(std::mem::take(&mut events));
            for message_id in &cells {
                let (call_id, content) = ("call_1_1".to_owned(), "done".to_owned());
                let event = Durable::ToolReturned {
                    call_id,
                    content,
                    is_error: false,
                    message_id: *message_id,
                    code: None,
                };
                events.push((event, None));
            }
        }
        let has_message = !iteration.text.is_empty() && !iteration.withdrawn;
        if let (true, Some(message_id)) = (has_message, self.message) {
            let body = message_body(Source::Agent, iteration.text.concat());
            events.push((Durable::MessageSent { message_id }, Some(body)));
        }
        match closing {
            Some(closing) => events.extend(closing),
            None => {
                let next_message_id = self.id();
                self.message = Some(next_message_id);
                events.push((Durable::StepFinished { iteration: self.number, next_message_id }, None));
                self.number += 1;
            }
        }
        self.publish(events);
    }

    /// An iteration that breaks off after `cut` deltas or after the intents of its tools.
    fn broken_iteration(&mut self, iteration: &Iteration, cut: usize) {
        if self.stream(iteration, cut) && iteration.tools > 0 {
            let cells: Vec<MessageId> = (0..iteration.tools).map(|_| self.id()).collect();
            let turn = self.turn(iteration, &cells);
            self.publish(turn);
        }
    }
}

fn title(between_runs: bool) -> (Durable, Option<MessageBody>) {
    (Durable::TitleSet { title: "Tokyo".into(), between_runs }, None)
}

fn message_body(source: Source, content: String) -> MessageBody {
    MessageBody { source, message_type: MessageType::Text, content, metadata: Value::Null }
}
