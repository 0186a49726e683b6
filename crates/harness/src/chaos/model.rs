//! The model: answers each message as it wishes, fails when it is told to, and remembers what it was asked.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use houston_testkit::model_server::{Call, Fault, Reply, said};
use serde_json::{Value, json};

use super::wish::{Wish, answer, wishes};

/// How a request for a summary begins.
const SUMMARISER: &str = "You write the summary";

/// How the model behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Weather {
    #[default]
    Fair,
    /// 429, which says when to come back.
    RateLimited,
    /// 529.
    Overloaded,
    /// Stops in mid-answer and never goes on.
    Hangs,
    /// Sends what is no JSON.
    Garbage,
    /// Ends in mid-answer.
    Truncates,
}

/// One call, as the model saw it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Its number in the server's journal.
    pub(crate) number: usize,
    /// The conversation it came with; equal for calls that ask the same again.
    pub(crate) conversation: u64,
    /// The last message it is about.
    pub(crate) message: Option<usize>,
    /// Whether it was answered badly on purpose.
    pub(crate) is_faulted: bool,
}

#[derive(Debug, Default)]
struct State {
    weather: Weather,
    asked: Vec<Asked>,
    refused: Vec<String>,
}

/// The model's mind. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mind(Arc<Mutex<State>>);

/// What a conversation has come to.
#[derive(Debug, Default)]
struct Standing {
    /// Messages that have no answer yet.
    pending: Vec<usize>,
    /// What the last of them wants.
    wish: Option<Wish>,
    /// Rounds of tools since that one.
    rounds: usize,
}

impl Mind {
    pub(crate) fn set(&self, weather: Weather) {
        self.state().weather = weather;
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// Conversations a provider would have refused.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.state().refused.clone()
    }

    /// The script.
    pub(crate) fn reply(&self, call: &Call) -> Reply {
        if call.system().starts_with(SUMMARISER) {
            return self.summary(call);
        }
        let messages = call.json()["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let standing = Standing::of(messages);
        let mut state = self.state();
        if let Some(fault) = refusal(messages) {
            state.refused.push(format!("call {} about {:?}: {fault}", call.number, standing.pending));
        }
        // Half of the calls: the others show that a fault does not spread.
        let weather = if call.number.is_multiple_of(2) { state.weather } else { Weather::Fair };
        state.asked.push(Asked {
            number: call.number,
            conversation: conversation(messages),
            message: standing.pending.last().copied(),
            is_faulted: weather != Weather::Fair,
        });
        drop(state);
        under(weather, call, standing.reply())
    }

    /// A summary of a closed session: nobody's message is answered with it.
    fn summary(&self, call: &Call) -> Reply {
        let weather = if call.number.is_multiple_of(2) { self.state().weather } else { Weather::Fair };
        under(weather, call, Reply::text("They talked, and it was answered."))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a reply.
fn under(weather: Weather, call: &Call, reply: Reply) -> Reply {
    match weather {
        Weather::Fair => reply,
        Weather::RateLimited => Reply::status(429).header("retry-after", "1"),
        Weather::Overloaded => Reply::status(529),
        Weather::Hangs => reply.fault(Fault::Stall(1)),
        Weather::Garbage => reply.fault(Fault::Garbage(1)),
        Weather::Truncates if call.number.is_multiple_of(4) => reply.fault(Fault::EndEarly(1)),
        Weather::Truncates => reply.fault(Fault::CutAfterBytes(300)),
    }
}

impl Standing {
    fn of(messages: &[Value]) -> Self {
        let mut standing = Self::default();
        for message in messages {
            match message["role"].as_str() {
                Some("user") => {
                    for (number, wish) in wishes(message["content"].as_str().unwrap_or_default()) {
                        standing.pending.push(number);
                        (standing.wish, standing.rounds) = (Some(wish), 0);
                    }
                }
                Some("assistant") => {
                    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
                    if calls.iter().any(|call| call["function"]["name"] == "send_message") || calls.is_empty()
                    {
                        standing = Self::default();
                    } else {
                        standing.rounds += 1;
                    }
                }
                _ => {}
            }
        }
        standing
    }

    fn reply(&self) -> Reply {
        let Some(wish) = &self.wish else { return Reply::text("Nobody asked me anything.") };
        let last = self.pending.last().copied().unwrap_or(0);
        if let Some(tools) = wish.rounds.get(self.rounds) {
            let mut reply = Reply::text(format!("Round {} of #{last}.", self.rounds));
            for (nth, tool) in tools.iter().enumerate() {
                let op = format!("#{last}/{}/{nth}", self.rounds);
                let input = match tool.as_str() {
                    "create_note" => json!({"title": op, "content": "A note."}),
                    _ => json!({"op": op, "ms": wish.ms}),
                };
                reply = reply.then_tool(tool, input);
            }
            return reply.in_pieces(2).every(Duration::from_millis(5));
        }
        let text = answer(&self.pending);
        let reply = if wish.plain {
            Reply::text(text)
        } else {
            Reply::tool("send_message", json!({ "content": text }))
        };
        reply.in_pieces(wish.pieces).every(Duration::from_millis(wish.pace))
    }
}

/// What of a request tells one conversation from another: all but the prompt, which has the time in it.
fn conversation(messages: &[Value]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for message in messages.iter().filter(|message| message["role"] != "system") {
        message["role"].to_string().hash(&mut hasher);
        message["content"].as_str().map(said).hash(&mut hasher);
        message["tool_calls"].to_string().hash(&mut hasher);
        message["tool_call_id"].to_string().hash(&mut hasher);
    }
    hasher.finish()
}

/// Why a provider would refuse these messages: each call must be answered once, right after it was made.
fn refusal(messages: &[Value]) -> Option<String> {
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!("a result for {id}, which nobody asked for"));
            }
            continue;
        }
        if let Some(id) = open.iter().next() {
            return Some(format!("no result for {id}"));
        }
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        open.extend(calls.iter().filter_map(|call| call["id"].as_str()));
    }
    open.iter().next().map(|id| format!("no result for {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: usize, rounds: &[&[&str]]) -> Value {
        let rounds = rounds.iter().map(|round| round.iter().map(|&tool| tool.to_owned()).collect()).collect();
        let wish = Wish { rounds, ms: 1, pieces: 1, pace: 0, plain: false };
        json!({"role": "user", "content": wish.text(number)})
    }

    fn asks(id: &str, name: &str) -> Value {
        json!({"role": "assistant", "tool_calls": [{"id": id, "function": {"name": name}}]})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "ok"})
    }

    #[test]
    fn what_is_pending_is_what_came_after_the_last_answer() {
        let mut messages = vec![user(1, &[]), asks("a", "send_message"), result("a")];
        assert!(Standing::of(&messages).pending.is_empty());
        messages.extend([user(2, &[&["look"]]), asks("b", "look"), result("b")]);
        let standing = Standing::of(&messages);
        assert_eq!((standing.pending, standing.rounds), (vec![2], 1));
        messages.push(user(3, &[&["charge"]]));
        let standing = Standing::of(&messages);
        assert_eq!((standing.pending, standing.rounds), (vec![2, 3], 0), "the newest wish counts");
    }

    #[test]
    fn what_providers_refuse_is_seen() {
        let fine = [user(1, &[]), asks("a", "look"), result("a"), user(2, &[])];
        assert_eq!(refusal(&fine), None);
        assert!(refusal(&fine[..2]).is_some(), "a call without its result");
        assert!(refusal(&[fine[0].clone(), fine[1].clone(), fine[3].clone()]).is_some());
        assert!(refusal(&[fine[0].clone(), fine[2].clone()]).is_some(), "a result nobody asked for");
    }

    #[test]
    fn the_same_conversation_is_known_again_whatever_the_prompt() {
        let with = |prompt: &str| {
            let mut user = user(1, &[]);
            let said = user["content"].as_str().unwrap_or_default().to_owned();
            user["content"] = json!(format!("{said}\n\n<system_context>\n{prompt}\n</system_context>\n"));
            conversation(&[json!({"role": "system", "content": prompt}), user])
        };
        assert_eq!(with("it is 10:00"), with("it is 10:01"));
        assert_ne!(with("a"), conversation(&[user(2, &[])]));
    }
}
