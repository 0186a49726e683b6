//! Records a run: drives the state machine of the engine with given answers, and writes down what it makes of them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::agent::AgentRun;
use houston_domain::agent::Next;
use houston_domain::agent::Reply;
use houston_domain::agent::limits::Limits;
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{MessageId, QuestionId, RunId};
use houston_domain::model::{ModelAnswer, StopReason, Usage};
use houston_domain::overseer;
use houston_domain::question::{ClosedQuestion, NewQuestion, QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::trace::{FORMAT, Header, Line, Trace, VERSION};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) struct Recorder {
    pub(crate) header: Header,
    lines: Vec<Line>,
    history: Vec<Entry>,
    own: usize,
    run: Option<AgentRun>,
    now: DateTime<Utc>,
    seq: i64,
    attempt: i32,
    anew: Vec<(overseer::Signal, u64)>,
    compressed: Option<(usize, Entry)>,
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolUse { id: id.to_owned(), name: name.to_owned(), input, raw: None }
}

fn search() -> ToolDefinition {
    ToolDefinition {
        name: "search".to_owned(),
        description: "Search the web.".to_owned(),
        input_schema: Arc::new(json!({"type": "object", "properties": {"query": {"type": "string"}}})),
        effect: EffectClass::Read,
        timeout: Duration::from_secs(20),
    }
}

fn message_id() -> MessageId {
    MessageId(Uuid::from_u128(7))
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let limits = Limits::USUAL;
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            run: RunId(Uuid::from_u128(1)),
            kind: "goal".to_owned(),
            conversational: true,
            expects_reply: true,
            reply: Reply::SendMessage,
            driver: None,
            limits,
            compressed: None,
            position: 1,
            tools: vec![search()],
            overseer: toml::from_str(include_str!("../../../../jobs/overseer.toml")).unwrap(),
            cost: None,
        };
        Self {
            header,
            lines: Vec::new(),
            history: Vec::new(),
            own: 0,
            run: None,
            now: DateTime::from_timestamp(1_790_000_000, 0).unwrap(),
            seq: 0,
            attempt: 0,
            anew: Vec::new(),
            compressed: None,
        }
    }

    pub(crate) fn before(&mut self, entry: Entry) {
        self.history.push(entry.clone());
        self.lines.push(Line::Before(entry));
    }

    pub(crate) fn later(&mut self, seconds: i64) {
        self.now += TimeDelta::seconds(seconds);
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.seq += 1;
        self.lines.push(Line::Event { seq: self.seq, at: self.now, event: Box::new(event) });
    }

    fn resume(&mut self) {
        let mut run = AgentRun::resume(self.header.policy(), self.history.clone(), self.own, self.now)
            .overseen(self.header.overseer);
        if let Some((entries, summary)) = &self.compressed {
            run.replace_prefix_with_summary(*entries, summary.clone());
        }
        self.anew.iter().for_each(|(signal, at)| run.start_anew(*signal, *at));
        self.run = Some(run);
    }

    fn run(&mut self) -> &mut AgentRun {
        self.run.as_mut().unwrap()
    }

    pub(crate) fn next(&mut self) -> Next {
        let now = self.now;
        self.run().next(now)
    }

    /// The run begins with this message.
    pub(crate) fn start(&mut self, text: &str) {
        self.event(Event::RunQueued {});
        self.event(Event::MessagePosted { message_id: message_id() });
        let entry = Entry::user(vec![Block::text(text)]);
        self.lines.push(Line::Message { at: self.now, content: entry.content.clone() });
        self.push(entry);
        self.attempt(false, false);
    }

    pub(crate) fn attempt(&mut self, takeover: bool, resumed: bool) {
        self.attempt += 1;
        let (attempt, next_message_id) = (self.attempt, message_id());
        let iteration = self.run.as_ref().map_or(1, |run| run.iterations() + 1);
        self.event(Event::AttemptStarted { attempt, iteration, next_message_id, takeover, resumed });
        self.resume();
    }

    fn push(&mut self, entry: Entry) {
        self.history.push(entry);
        self.own += 1;
    }

    pub(crate) fn message(&mut self, text: &str) {
        self.event(Event::MessagePosted { message_id: message_id() });
        let entry = self.run().on_messages(vec![text.to_owned()]).unwrap();
        self.lines.push(Line::Message { at: self.now, content: entry.content.clone() });
        self.push(entry);
    }

    pub(crate) fn answer_with(&mut self, content: Vec<Block>, stop: StopReason) {
        assert_eq!(self.next(), Next::CallModel);
        self.later(1);
        let usage = Usage { input_tokens: 900, output_tokens: 40, ..Usage::default() };
        let answer = ModelAnswer { content: content.clone(), malformed: Vec::new(), stop, usage };
        let turn = self.run().on_model(answer).unwrap();
        let model = Some("simulated/simulated".to_owned());
        self.lines.push(Line::Answer { at: self.now, content, stop, usage, model });
        if turn.reply.is_some() {
            self.event(Event::MessageSent { message_id: message_id() });
        }
        if let Some(entry) = turn.entry {
            self.push(entry);
        }
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.answer_with(vec![Block::text(text)], StopReason::EndTurn);
    }

    pub(crate) fn calls(&mut self, calls: Vec<Block>) {
        self.answer_with(calls, StopReason::ToolUse);
    }

    /// Answers the open calls, in order: `Err` for failures.
    pub(crate) fn returns(&mut self, responses: &[Result<&str, &str>]) {
        let Next::CallTools(calls) = self.next() else { panic!("no call is open") };
        assert_eq!(calls.len(), responses.len());
        let mut answered = Vec::new();
        for (call, response) in calls.into_iter().zip(responses) {
            let response = match response {
                Ok(text) => ToolResponse::success(*text),
                Err(text) => ToolResponse::failure(ToolErrorCode::Unknown, *text),
            };
            let (call_id, name, input) = (call.id.clone(), call.name, call.input);
            let tool =
                Line::Tool { at: self.now, call_id, name, input, response: response.clone(), ms: Some(5) };
            self.lines.push(tool);
            answered.push((call.id, response));
        }
        let entry = self.run().on_tools(answered).unwrap();
        self.lines.push(Line::Results { at: self.now, content: entry.content.clone() });
        self.push(entry);
        if self.next() == Next::CallModel {
            let (iteration, next_message_id) = (self.run().iterations(), message_id());
            self.event(Event::StepFinished { iteration, next_message_id });
        }
    }

    /// One call of a tool and its result.
    pub(crate) fn turn(&mut self, id: &str, name: &str, input: Value, result: &str) {
        self.calls(vec![call(id, name, input)]);
        self.returns(&[Ok(result)]);
    }

    pub(crate) fn compress(&mut self, summary: &str, remaining: usize) {
        self.lines.push(Line::Compressed { at: self.now, summary: summary.to_owned(), remaining });
        let summary = Entry::user(vec![Block::text(summary)]);
        self.compressed = Some((self.history.len() - remaining, summary.clone()));
        let entries = self.run().history().len() - remaining;
        self.run().replace_prefix_with_summary(entries, summary);
    }

    pub(crate) fn asks(&mut self, subject: &str, text: &str) {
        let asked = NewQuestion {
            id: QuestionId(Uuid::from_u128(9)),
            kind: QuestionKind::Approval,
            subject: Some(subject.to_owned()),
            text: text.to_owned(),
            schema: None,
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: None,
        };
        self.event(Event::QuestionAsked(Box::new(asked)));
        let iteration = self.run().iterations();
        self.event(Event::RunWaiting { until: None, iteration });
        self.later(3_600);
    }

    pub(crate) fn answered(&mut self, answer: Value, goes_on: Option<(overseer::Signal, u64)>) {
        let (id, state) = (QuestionId(Uuid::from_u128(9)), QuestionState::Answered);
        self.event(Event::QuestionClosed(ClosedQuestion { id, state, answer: Some(answer) }));
        self.anew.extend(goes_on);
        self.attempt(false, true);
    }

    /// The run ends as the state machine says.
    pub(crate) fn end(mut self) -> Trace {
        let Next::Done(status) = self.next() else { panic!("the run has not ended: {:?}", self.next()) };
        self.end_as(status, None)
    }

    pub(crate) fn end_as(mut self, status: RunStatus, code: Option<&str>) -> Trace {
        let (iteration, usage) = (self.run.as_ref().map(AgentRun::iterations), Usage::default());
        let code = code.map(str::to_owned);
        self.event(Event::RunFinished { status, iteration, usage, message: None, code, result: None });
        Trace { header: self.header, lines: self.lines }
    }
}
