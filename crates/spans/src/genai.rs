//! Spans of agents, models and tools, with the names of OpenTelemetry's semantic conventions for generative AI, version 1.41.
//! Later versions are in a repository of their own and have other names.

use std::time::Duration;

use houston_domain::frame::FrameMark;
use houston_domain::history::Entry;
use houston_domain::model::{ModelAnswer, StopReason, Usage};
use houston_domain::tool_call::{ToolCall, ToolResponse};

use crate::content::cut;
use crate::record::{SpanKind, attribute, count};
use crate::span::{Begun, Span};

/// Bytes of the name of a tool, or of a step of a plan.
const MAX_NAME_BYTES: usize = 200;

impl Span {
    /// An agent of a kind begins to answer in a conversation.
    pub fn agent(&self, kind: &str, conversation: impl FnOnce() -> String) -> Self {
        self.child(|| {
            let attributes = vec![
                attribute("gen_ai.operation.name", "invoke_agent"),
                attribute("gen_ai.agent.name", kind.to_owned()),
                attribute("gen_ai.conversation.id", conversation()),
            ];
            Begun { name: format!("invoke_agent {kind}").into(), kind: SpanKind::Internal, attributes }
        })
    }

    /// The agent is about to call a model of this provider for the first time.
    pub fn asks(&self, provider: &str) {
        self.set(|_| vec![attribute("gen_ai.provider.name", provider.to_owned())]);
    }

    /// An iteration of the agent's loop begins: a model call, and the tool calls it asks for.
    pub fn iteration(&self, number: u32) -> Self {
        self.child(|| {
            let attributes = vec![attribute("houston.iteration", i64::from(number))];
            Begun { name: format!("iteration {number}").into(), kind: SpanKind::Internal, attributes }
        })
    }

    /// A model is about to be called.
    pub fn chat(&self, provider: &str, model: &str, max_tokens: u32) -> Self {
        self.child(|| {
            let attributes = vec![
                attribute("gen_ai.operation.name", "chat"),
                attribute("gen_ai.provider.name", provider.to_owned()),
                attribute("gen_ai.request.model", model.to_owned()),
                attribute("gen_ai.request.max_tokens", i64::from(max_tokens)),
                attribute("gen_ai.request.stream", true),
            ];
            Begun { name: format!("chat {model}").into(), kind: SpanKind::Client, attributes }
        })
    }

    /// What the model is sent: the parts of the system prompt, and the history, in which frames have this mark. The mark is not in
    /// the span: who knew it could forge frames.
    pub fn sends<'t>(&self, system: impl Iterator<Item = &'t str>, history: &[Entry], mark: &FrameMark) {
        self.set(|contents| contents.of_request(system, history, mark));
    }

    /// The model has answered; `model` is the one that did.
    pub fn answered(&self, model: &str, answer: &ModelAnswer, usage: &Usage, first: Option<Duration>) {
        self.set(|contents| {
            let reason = finish_reason(&answer.stop);
            let mut attributes = vec![
                attribute("gen_ai.response.model", model.to_owned()),
                attribute("gen_ai.response.finish_reasons", vec![reason]),
                count("gen_ai.usage.input_tokens", usage.input_tokens),
                count("gen_ai.usage.output_tokens", usage.output_tokens),
                count("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
                count("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
                count("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
            ];
            attributes.extend(
                first.map(|first| attribute("gen_ai.response.time_to_first_chunk", first.as_secs_f64())),
            );
            attributes.extend(contents.of_answer(answer, reason));
            attributes
        });
    }

    /// A step of a plan begins that a task carries out.
    pub fn plan_step(&self, path: &str) -> Self {
        self.child(|| {
            // The model wrote it.
            let path = cut(path.to_owned(), MAX_NAME_BYTES);
            let attributes = vec![attribute("houston.plan.step", path)];
            Begun { name: "plan_step".into(), kind: SpanKind::Internal, attributes }
        })
    }

    /// A tool is about to be called.
    pub fn tool(&self, call: &ToolCall) -> Self {
        let span = self.child(|| {
            // The model wrote both.
            let [name, id] = [&call.name, &call.id].map(|text| cut(text.clone(), MAX_NAME_BYTES));
            let full_name = format!("execute_tool {name}");
            let attributes = vec![
                attribute("gen_ai.operation.name", "execute_tool"),
                attribute("gen_ai.tool.name", name),
                attribute("gen_ai.tool.type", "function"),
                attribute("gen_ai.tool.call.id", id),
            ];
            Begun { name: full_name.into(), kind: SpanKind::Internal, attributes }
        });
        span.set(|contents| contents.of_arguments(&call.input).into_iter().collect());
        span
    }

    /// The tool call has its response.
    pub fn responded(&self, response: &ToolResponse) {
        self.set(|contents| contents.of_result(response.text()).into_iter().collect());
        if let ToolResponse::Failure { code, .. } = response {
            self.failed(code.as_str());
        }
    }
}

fn finish_reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::ToolUse => "tool_call",
        _ => "stop",
    }
}
