//! AG-UI events as those of OpenAI's Responses: a state machine without I/O.
//!
//! It is passed the frames of the events of one response in order, and each durable event before its frames. Whatever an
//! attempt had written before it broke off is closed as incomplete and is not in the final output.

use std::collections::BTreeMap;

use houston_domain::event::{Committed, Event as Durable};
use houston_domain::id::MessageId;
use houston_domain::question::QuestionKind;
use houston_domain::question::input::CLIENT_PREFIX;
use houston_domain::run::RunStatus;
use houston_protocol::agui::{EntityId, Event, Fact, Outcome, RunResult, TokenUsage};
use houston_protocol::openai::event::StreamEvent;
use houston_protocol::openai::item::{ItemStatus, OutputItem, SERVER_LABEL};
use houston_protocol::openai::response::{Status, usage};
use serde::Serialize;
use serde_json::{Value, json};

use super::id::{ResponseId, approval_id};
use super::items::Items;
use super::replay::Said;

/// The name of the function whose answer is a person's: no client declares it.
pub(super) const ASK_USER: &str = "ask_user";

/// The name in an approval request that is about no tool.
pub(super) const QUESTION: &str = "question";

/// A call of a function of the client.
#[derive(Debug, Clone)]
struct FunctionCall {
    key: EntityId,
    name: String,
    arguments: String,
}

/// What a response has before its events.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: ResponseId,
    /// Seconds since 1970.
    pub(crate) created_at: i64,
    pub(crate) conversation: String,
    pub(crate) said: Said,
}

/// Why a response failed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Failure {
    /// `server_error` or `rate_limit_exceeded`.
    pub(super) code: &'static str,
    /// For end users.
    pub(super) message: String,
}

/// A response, as far as its events say.
#[derive(Debug, Clone)]
pub(crate) struct Translator {
    pub(super) head: Head,
    pub(super) status: Status,
    pub(super) error: Option<Failure>,
    /// What cut it off: `max_output_tokens`, `content_filter`, or a stop rule of Houston.
    pub(super) reason: Option<String>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) items: Items,
    /// Calls that waited for an approval when the response began: name and arguments.
    waiting: BTreeMap<String, (String, String)>,
    /// Calls of the client's functions, by Houston's id of the call: sent when the client is asked to carry them out.
    calls: BTreeMap<String, FunctionCall>,
    /// The message that was committed last.
    sent: Option<(EntityId, String)>,
    /// The reasoning that was committed last.
    thought: Option<String>,
}

impl Translator {
    pub(crate) fn new(head: Head) -> Self {
        Self {
            head,
            status: Status::Queued,
            error: None,
            reason: None,
            usage: None,
            items: Items::default(),
            waiting: BTreeMap::new(),
            calls: BTreeMap::new(),
            sent: None,
            thought: None,
        }
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        self.status.is_final()
    }

    /// The same for the part of the run after this one.
    pub(crate) fn goes_on(&self, head: Head) -> Self {
        let calls = self.items.output().into_iter().filter_map(|item| match item {
            OutputItem::McpCall { id, name, arguments, status: ItemStatus::Incomplete, .. } => {
                Some((id, (name, arguments)))
            }
            _ => None,
        });
        let waiting = self.waiting.clone().into_iter().chain(calls).collect();
        Self { waiting, calls: self.calls.clone(), ..Self::new(head) }
    }

    /// The response object.
    pub(crate) fn response(&self) -> Value {
        let Head { id, created_at, conversation, said } = &self.head;
        json!({
            "id": id.to_string(),
            "object": "response",
            "created_at": created_at,
            "status": self.status,
            "background": said.background,
            "error": self.error,
            "incomplete_details": self.reason.as_ref().map(|reason| json!({"reason": reason})),
            "instructions": null,
            "max_output_tokens": null,
            "metadata": said.metadata,
            "model": said.model,
            "output": self.items.output(),
            "parallel_tool_calls": true,
            "previous_response_id": said.previous,
            "conversation": {"id": conversation},
            "reasoning": {"effort": null, "summary": null},
            "store": true,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": self.usage.as_ref().map(usage),
        })
    }

    fn event(&self, name: &'static str) -> StreamEvent {
        StreamEvent { name, response: Some(self.response()), ..StreamEvent::default() }
    }

    /// A durable event, before its frames.
    pub(crate) fn committed(&mut self, committed: &Committed) {
        match &committed.event {
            Durable::Thought { text, withdrawn_at } => {
                // What was withdrawn as a message comes again as reasoning.
                if *withdrawn_at != Some(0) {
                    self.items.confirm_reasoning(text);
                }
                self.thought = Some(text.clone());
            }
            Durable::MessageSent { message_id } => {
                let text = committed.body.as_ref().map(|body| body.content.clone());
                self.sent = text.map(|text| (EntityId::Message(*message_id), text));
            }
            Durable::AttemptStarted { .. }
            | Durable::StepFinished { .. }
            | Durable::RetryScheduled { .. }
            | Durable::RunWaiting { .. }
            | Durable::HandedOver { .. }
            | Durable::RunFinished { .. } => {
                self.items.drop_unconfirmed();
                (self.sent, self.thought) = (None, None);
            }
            _ => {}
        }
    }

    /// The events for a frame.
    pub(crate) fn push(&mut self, event: &Event<'_>) -> Vec<StreamEvent> {
        if self.is_over() {
            return Vec::new();
        }
        match event {
            Event::TextMessageContent { message_id, delta, .. }
            | Event::ReasoningMessageContent { message_id, delta, .. } => {
                self.items.text_delta(*message_id, delta).into_iter().collect()
            }
            Event::RunStarted { .. } => vec![self.event("response.created"), self.event("response.queued")],
            Event::TextMessageStart { message_id, .. } | Event::ReasoningMessageStart { message_id, .. } => {
                self.items.start_text(*message_id)
            }
            Event::TextMessageEnd { message_id, .. } => {
                let sent = self.sent.take_if(|(id, _)| id == message_id);
                self.items.end_text(*message_id, sent.as_ref().map(|(_, text)| text.as_str()), false)
            }
            Event::ReasoningMessageEnd { message_id, timestamp } => {
                let is_live = timestamp.is_none();
                let thought = if is_live { None } else { self.thought.take() };
                self.items.end_text(*message_id, thought.as_deref(), is_live)
            }
            Event::ToolCallStart { tool_call_id, tool_call_name, metadata, .. }
                if self.head.said.functions.iter().any(|name| *name == **tool_call_name) =>
            {
                let call = metadata.houston.call_id.as_deref().unwrap_or_default().to_owned();
                let (key, name) = (*tool_call_id, tool_call_name.to_string());
                self.calls.insert(call, FunctionCall { key, name, arguments: String::new() });
                Vec::new()
            }
            Event::ToolCallArgs { tool_call_id, delta, .. } if self.is_function(*tool_call_id) => {
                let calls = self.calls.values_mut();
                calls
                    .filter(|call| call.key == *tool_call_id)
                    .for_each(|call| call.arguments.push_str(delta));
                Vec::new()
            }
            Event::ToolCallResult { tool_call_id, .. } if self.is_function(*tool_call_id) => Vec::new(),
            Event::ToolCallStart { tool_call_id, tool_call_name, .. } => {
                self.items.start_call(*tool_call_id, call(*tool_call_id, tool_call_name, String::new()))
            }
            Event::ToolCallArgs { tool_call_id, delta, .. } => {
                self.items.arguments(*tool_call_id, delta).into_iter().collect()
            }
            Event::ToolCallEnd { tool_call_id, .. } => {
                self.items.arguments_done(*tool_call_id).into_iter().collect()
            }
            Event::ToolCallResult { tool_call_id, content, metadata, .. } => {
                let failed = metadata.as_ref().is_some_and(|metadata| metadata.houston.is_error);
                self.result(*tool_call_id, content, failed)
            }
            Event::Custom { fact, .. } => self.fact(fact),
            Event::RunFinished { result, outcome, usage, .. } => {
                self.ended(result, outcome, usage.map(|[usage]| usage))
            }
            Event::RunError { message, code, usage, .. } => {
                self.usage = usage.map(|[usage]| usage);
                let code = if &**code == "RATE_LIMITED" { "rate_limit_exceeded" } else { "server_error" };
                self.error = Some(Failure { code, message: message.to_string() });
                self.status = Status::Failed;
                self.items.close();
                vec![self.event("response.failed")]
            }
            _ => Vec::new(),
        }
    }

    fn is_function(&self, key: EntityId) -> bool {
        self.calls.values().any(|call| call.key == key)
    }

    /// The result of a call, which the response before may have announced.
    fn result(&mut self, key: EntityId, content: &str, failed: bool) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        if !self.items.has(key) {
            let (name, arguments) = self.waiting.remove(&call_id(key)).unwrap_or_default();
            events.extend(self.items.start_call(key, call(key, &name, arguments)));
        }
        events.extend(self.items.result(key, content, failed));
        events
    }

    fn fact(&mut self, fact: &Fact<'_>) -> Vec<StreamEvent> {
        match fact {
            Fact::AttemptStarted { .. } if self.status == Status::Queued => {
                self.status = Status::InProgress;
                vec![self.event("response.in_progress")]
            }
            Fact::QuestionAsked { question_id, subject, kind, text, schema, approval, .. } => {
                let (id, key) = (approval_id(*question_id), EntityId::Result(MessageId(question_id.0)));
                if let Some(call) = approval {
                    if let Some(cell) = call.message_id {
                        self.items.call_waits_for(EntityId::Message(cell), &id);
                    }
                    let (name, arguments) = (call.tool.clone(), call.input.to_string());
                    return self.items.complete(key, approval_request(id, name, arguments));
                }
                let arguments = json!({"question": text, "answer_schema": schema}).to_string();
                if *kind != QuestionKind::Input {
                    return self.items.complete(key, approval_request(id, QUESTION.to_owned(), arguments));
                }
                let call = subject.as_deref().and_then(|subject| subject.strip_prefix(CLIENT_PREFIX));
                let call = call.and_then(|call| self.calls.get(call));
                let (name, arguments) = match call {
                    Some(call) => (call.name.clone(), call.arguments.clone()),
                    None => (ASK_USER.to_owned(), arguments),
                };
                let digits = question_id.0.simple();
                let (id, call_id) = (format!("fc_{digits}"), format!("call_{digits}"));
                let status = ItemStatus::Completed;
                self.items.complete(key, OutputItem::FunctionCall { id, call_id, name, arguments, status })
            }
            _ => Vec::new(),
        }
    }

    fn ended(
        &mut self,
        result: &RunResult<'_>,
        outcome: &Outcome<'_>,
        usage: Option<TokenUsage>,
    ) -> Vec<StreamEvent> {
        self.usage = usage;
        self.items.close();
        let stopped = result.stop_reason.as_deref();
        (self.status, self.reason) = match outcome {
            // What is asked is an item: a call of a function, or a request for an approval.
            Outcome::Interrupt { .. } => (Status::Completed, None),
            Outcome::Cancelled => (Status::Cancelled, Some("cancelled".to_owned())),
            Outcome::Success if result.status == RunStatus::MaxTokens => {
                (Status::Incomplete, Some("max_output_tokens".to_owned()))
            }
            Outcome::Success => match stopped {
                Some(reason) => (Status::Incomplete, Some(reason.to_owned())),
                None => (Status::Completed, None),
            },
        };
        // Clients know no event for what was cancelled.
        let is_complete = self.status == Status::Completed;
        vec![self.event(if is_complete { "response.completed" } else { "response.incomplete" })]
    }
}

fn approval_request(id: String, name: String, arguments: String) -> OutputItem {
    OutputItem::McpApprovalRequest { id, server_label: SERVER_LABEL, name, arguments }
}

/// The id of the item of a call.
fn call_id(key: EntityId) -> String {
    let text = key.to_string();
    format!("mcp_{}", text.rsplit_once('_').map_or(text.as_str(), |(_, digits)| digits))
}

fn call(key: EntityId, name: &str, arguments: String) -> OutputItem {
    OutputItem::McpCall {
        id: call_id(key),
        server_label: SERVER_LABEL,
        name: name.to_owned(),
        arguments,
        output: None,
        error: None,
        status: ItemStatus::InProgress,
        approval_request_id: None,
    }
}
