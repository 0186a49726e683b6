//! The scripted model: answers each message as its script says, fails while a fault is set, and records its calls.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use houston_testkit::model_server::{Call, Fault, Reply, without_system_context};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::decider::needs_yes;
use super::message_script::{
    ASK, EXECUTOR, MessageScript, QUESTION, REPORTED, answer, scripts_in, typed_answer,
};

/// How the system prompt of a summary request begins.
const SUMMARISER: &str = "You write the summary";

/// How the system prompts of requests begin that belong to a plan: to change it, and to answer one step.
const PLANNER: &str = "A step of a plan failed";
const STEP: &str = "You carry out one step of a plan. Text";
/// What the prompt of a request says whose answer must be a JSON object.
const TYPED: &str = "Answer with one JSON object";
/// How the instructions of an executor begin.
const ORDER: &str = "Carry out ";

/// The name of a fault, and what it makes of the reply to a call.
type ModelFault = (&'static str, fn(&Call, Reply) -> Reply);

/// How the model misbehaves.
pub(crate) const FAULTS: [ModelFault; 5] = [
    ("model 429", |_, _| Reply::status(429).header("retry-after", "1")),
    ("model 529", |_, _| Reply::status(529)),
    // It stalls in mid-answer until the client gives up.
    ("model hangs", |_, reply| reply.fault(Fault::Stall(1))),
    // It sends an event that is not JSON.
    ("model garbage", |_, reply| reply.fault(Fault::Garbage(1))),
    // It closes the stream in mid-answer.
    ("model truncates", |call, reply| {
        let ends = call.number.is_multiple_of(4);
        reply.fault(if ends { Fault::EndEarly(1) } else { Fault::CutAfterBytes(300) })
    }),
];

/// One model call, as the model server received it.
#[derive(Debug, Clone)]
pub(crate) struct ModelCall {
    /// Number in the model server's journal.
    pub(crate) number: usize,
    /// Hash of the conversation; equal when a call is repeated.
    pub(crate) conversation: u64,
    /// Number of the last unanswered message.
    pub(crate) message: Option<usize>,
    /// Whether a fault was injected into the answer.
    pub(crate) is_faulted: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The number of one of [`FAULTS`].
    fault: Option<usize>,
    calls: Vec<ModelCall>,
    invalid_conversations: Vec<String>,
}

/// The script of the model server. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptedModel(Arc<Mutex<State>>);

/// What a conversation still needs.
#[derive(Debug, Default)]
struct ConversationState {
    /// Numbers of the messages without an answer.
    pending: Vec<usize>,
    /// The script of the last one.
    script: Option<MessageScript>,
    /// Rounds of tool calls since that message.
    rounds: usize,
}

impl ScriptedModel {
    /// Sets the fault by its number in [`FAULTS`].
    pub(crate) fn set(&self, fault: Option<usize>) {
        self.0.lock().fault = fault;
    }

    pub(crate) fn calls(&self) -> Vec<ModelCall> {
        self.0.lock().calls.clone()
    }

    /// Conversations that a provider would refuse, with the reason.
    pub(crate) fn invalid_conversations(&self) -> Vec<String> {
        self.0.lock().invalid_conversations.clone()
    }

    /// The reply to `call`.
    pub(crate) fn reply(&self, call: &Call) -> Reply {
        let system = call.system();
        // Only every second call: the others show that a fault does not spread.
        let fault = self.0.lock().fault.filter(|_| call.number.is_multiple_of(2));
        // A reply that answers no message, a summary or a step of a plan, is not recorded.
        let aside = [
            (SUMMARISER, "They talked, and it was answered."),
            (PLANNER, r#"{"give_up":"A step failed."}"#),
            (STEP, "Considered."),
        ];
        let aside = aside.into_iter().find(|(begin, _)| system.starts_with(begin));
        if let Some((_, text)) = aside.filter(|(begin, _)| *begin != STEP || call.tools().is_empty()) {
            return with_fault(fault, call, Reply::text(text));
        }
        let messages = call.json()["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let conversation_state = ConversationState::of(messages);
        let mut state = self.0.lock();
        if let Some(reason) = refusal(messages) {
            let pending = &conversation_state.pending;
            state.invalid_conversations.push(format!("call {} about {pending:?}: {reason}", call.number));
        }
        state.calls.push(ModelCall {
            number: call.number,
            conversation: conversation(messages),
            message: conversation_state.pending.last().copied(),
            is_faulted: fault.is_some(),
        });
        drop(state);
        let said = call.last_user_text();
        let reply = match said.strip_prefix(ORDER) {
            Some(op) if call.has_tool_results() => Reply::text(format!("Carried out {op}.")),
            Some(op) => Reply::tool("look", json!({"op": op, "ms": 50})),
            None => conversation_state.reply(system.contains(TYPED)),
        };
        with_fault(fault, call, reply)
    }
}

/// Applies one of [`FAULTS`] to a reply.
fn with_fault(fault: Option<usize>, call: &Call, reply: Reply) -> Reply {
    match fault {
        Some(nth) => FAULTS[nth].1(call, reply),
        None => reply,
    }
}

impl ConversationState {
    fn of(messages: &[Value]) -> Self {
        let mut state = Self::default();
        for message in messages {
            let mut calls = blocks(message, "tool_use").peekable();
            if message["role"] == "user" {
                for (number, script) in texts(message).flat_map(scripts_in) {
                    state.pending.push(number);
                    state.script = Some(script);
                    state.rounds = 0;
                }
            } else if calls.peek().is_none() || calls.any(|call| call["name"] == "send_message") {
                state = Self::default();
            } else {
                state.rounds += 1;
            }
        }
        state
    }

    /// `typed`: whether the answer must be a JSON object.
    fn reply(&self, typed: bool) -> Reply {
        let Some(script) = &self.script else { return Reply::text(REPORTED) };
        let last = self.pending.last().copied().unwrap_or(0);
        if let Some(tools) = script.rounds.get(self.rounds) {
            let mut reply = Reply::text(format!("Round {} of #{last}.", self.rounds));
            for (nth, tool) in tools.iter().enumerate() {
                let op = format!("#{last}/{}/{nth}", self.rounds);
                reply = match tool.as_str() {
                    ASK => reply.then_tool("charge", json!({"op": needs_yes(&op), "ms": script.ms})),
                    "create_note" => reply.then_tool(tool, json!({"title": op, "content": "A note."})),
                    _ => reply.then_tool(tool, json!({"op": op, "ms": script.ms})),
                };
            }
            return reply.in_pieces(2).every(Duration::from_millis(5));
        }
        // One message at a time: a goal that made a plan of each would never answer while messages arrive.
        let plans = !script.plan.is_empty() && self.pending.len() == 1;
        if plans && self.rounds == script.rounds.len() {
            return Reply::tool("create_plan", plan(last, script))
                .in_pieces(2)
                .every(Duration::from_millis(5));
        }
        let text = answer(&self.pending);
        let reply = if typed {
            Reply::text(typed_answer(&self.pending))
        } else if script.plain {
            Reply::text(text)
        } else {
            Reply::tool("send_message", json!({ "content": text }))
        };
        reply.in_pieces(script.pieces).every(Duration::from_millis(script.pace))
    }
}

/// The blocks of a message, in Anthropic's protocol, that are of this type.
fn blocks<'m>(message: &'m Value, kind: &'m str) -> impl Iterator<Item = &'m Value> {
    message["content"].as_array().into_iter().flatten().filter(move |block| block["type"] == kind)
}

fn texts(message: &Value) -> impl Iterator<Item = &str> {
    blocks(message, "text").filter_map(|block| block["text"].as_str())
}

/// The plan of message `number`: the first two steps begin at once, each other one when the one two before has settled.
fn plan(number: usize, script: &MessageScript) -> Value {
    let step = |(nth, kind): (usize, &String)| {
        let op = format!("#{number}/plan/{nth}");
        let mut step = match kind.as_str() {
            EXECUTOR => json!({"type": "task", "instructions": format!("{ORDER}{op}"), "tools": ["look"]}),
            QUESTION => json!({"type": "llm", "prompt": format!("What about {op}?")}),
            "create_note" => {
                json!({"type": "tool", "tool": kind, "args": {"title": op, "content": "A note."}})
            }
            tool => json!({"type": "tool", "tool": tool, "args": {"op": op, "ms": script.ms}}),
        };
        step["id"] = json!(format!("s{nth}"));
        step["title"] = json!(kind);
        if nth >= 2 {
            step["after"] = json!([format!("s{}", nth - 2)]);
        }
        step
    };
    let steps: Vec<Value> = script.plan.iter().enumerate().map(step).collect();
    json!({"goal": format!("Carry out message {number}"), "steps": steps, "output": "Done."})
}

/// Hash of a conversation without the system context, which contains the time.
fn conversation(messages: &[Value]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for message in messages {
        message["role"].to_string().hash(&mut hasher);
        for block in message["content"].as_array().into_iter().flatten() {
            block["text"].as_str().map(without_system_context).hash(&mut hasher);
            ["id", "name", "input", "tool_use_id", "content"]
                .map(|name| block[name].to_string())
                .hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Why a provider would refuse these messages, if so: each tool call needs exactly one result, directly after it.
fn refusal(messages: &[Value]) -> Option<String> {
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        for result in blocks(message, "tool_result") {
            let id = result["tool_use_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!("a result for {id}, which was not called"));
            }
        }
        let calls: Vec<&str> = blocks(message, "tool_use").filter_map(|call| call["id"].as_str()).collect();
        let says = !calls.is_empty() || texts(message).next().is_some();
        if let Some(id) = open.iter().next().filter(|_| says) {
            return Some(format!("no result for {id}"));
        }
        open.extend(calls);
    }
    open.iter().next().map(|id| format!("no result for {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: usize, rounds: &[&[&str]]) -> Value {
        let rounds = rounds.iter().map(|round| round.iter().map(|&tool| tool.to_owned()).collect()).collect();
        let script = MessageScript { rounds, ms: 1, pieces: 1, pace: 0, plain: false, plan: Vec::new() };
        json!({"role": "user", "content": [{"type": "text", "text": script.text(number)}]})
    }

    fn calls(id: &str, name: &str) -> Value {
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name}]})
    }

    fn result(id: &str) -> Value {
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]})
    }

    #[test]
    fn messages_after_the_last_answer_are_pending() {
        let mut messages = vec![user(1, &[]), calls("a", "send_message"), result("a")];
        assert!(ConversationState::of(&messages).pending.is_empty());
        messages.extend([user(2, &[&["look"]]), calls("b", "look"), result("b")]);
        let conversation_state = ConversationState::of(&messages);
        assert_eq!((conversation_state.pending, conversation_state.rounds), (vec![2], 1));
        messages.push(user(3, &[&["charge"]]));
        let conversation_state = ConversationState::of(&messages);
        assert_eq!(
            (conversation_state.pending, conversation_state.rounds),
            (vec![2, 3], 0),
            "the script of the newest message counts"
        );
    }

    #[test]
    fn conversations_a_provider_would_refuse_are_found() {
        let fine = [user(1, &[]), calls("a", "look"), result("a"), user(2, &[])];
        assert_eq!(refusal(&fine), None);
        assert!(refusal(&fine[..2]).is_some(), "a call without its result");
        assert!(refusal(&[fine[0].clone(), fine[1].clone(), fine[3].clone()]).is_some());
        assert!(refusal(&[fine[0].clone(), fine[2].clone()]).is_some(), "a result without its call");
    }

    #[test]
    fn hash_of_a_conversation_ignores_the_system_context() {
        let with = |time: &str| {
            let mut user = user(1, &[]);
            let context = format!("<system_context>\n{time}\n</system_context>\n");
            user["content"].as_array_mut().unwrap().push(json!({"type": "text", "text": context}));
            conversation(&[user])
        };
        assert_eq!(with("it is 10:00"), with("it is 10:01"));
        assert_ne!(with("a"), conversation(&[user(2, &[])]));
    }
}
