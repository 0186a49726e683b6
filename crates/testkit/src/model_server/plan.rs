//! Turns a reply into actions on the socket: as few writes as possible, pauses, and an end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::call::Wire;
use super::http::{self, json_response};
use super::reply::{Answer, Fault, Gate, Kind, Reply};
use super::{anthropic, openai_chat};

/// The events of an answer as text: the opening, the pieces of content, the end mark.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) opening: String,
    pub(crate) pieces: Vec<String>,
    pub(crate) ending: String,
}

/// An action on the socket.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Write(Bytes),
    /// Writes the µs since then in the place of each [`TIME`].
    WriteTimes(Bytes, Instant),
    Pause(Duration),
    Wait(Gate),
    /// Waits until the client closes the connection.
    Hang,
    /// Closes the connection in mid-answer.
    Cut,
}

/// What stands for a time until it is written; as long as one.
pub(crate) const TIME: &str = "@@@@@@@@@@@@@@@@";

/// `bytes` with `time` in the place of each [`TIME`].
pub(crate) fn with_times(bytes: &[u8], time: Duration) -> Vec<u8> {
    let (mut bytes, time) = (bytes.to_vec(), format!("{:016}", time.as_micros()));
    while let Some(place) = http::find(&bytes, TIME.as_bytes()) {
        bytes[place..place + TIME.len()].copy_from_slice(time.as_bytes());
    }
    bytes
}

/// All actions of one reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pending: BytesMut,
}

/// A reply rendered once for one wire and sent any number of times, with the same ids each time.
#[derive(Debug)]
pub struct Prepared(pub(crate) Plan);

impl Prepared {
    /// Renders `reply` for `wire`.
    pub fn new(reply: &Reply, wire: Wire) -> Arc<Self> {
        Arc::new(Self(Plan::of(reply, wire, 0)))
    }
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                           cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

impl Plan {
    /// The actions for `reply` to call `number`.
    pub(crate) fn of(reply: &Reply, wire: Wire, number: usize) -> Self {
        match &reply.0 {
            Kind::Prepared(prepared) => prepared.0.clone(),
            Kind::Answer(answer) => Self::of_answer(answer, wire, number),
            Kind::Error { status, headers, body } => Self::of_error(*status, headers, body, wire),
        }
    }

    fn of_answer(answer: &Answer, wire: Wire, number: usize) -> Self {
        let mut plan = Self::default();
        plan.pause(answer.delay);
        if let Some((None, gate)) = &answer.gate {
            plan.actions.push(Action::Wait(gate.clone()));
        }
        if answer.fault == Some(Fault::Hang) {
            plan.actions.push(Action::Hang);
            return plan;
        }
        let rendered = match wire {
            Wire::OpenAiChat => openai_chat::render(answer, number),
            Wire::Anthropic => anthropic::render(answer, number),
        };
        plan.pending.extend_from_slice(STREAM_HEAD.as_bytes());
        if let Some(Fault::CutAfterBytes(count)) = answer.fault {
            let text = rendered.opening + &rendered.pieces.concat() + &rendered.ending;
            let count = count.min(text.len());
            plan.pending.extend_from_slice(format!("{:x}\r\n", text.len()).as_bytes());
            plan.pending.extend_from_slice(&text.as_bytes()[..count]);
            plan.act(Action::Cut);
            return plan;
        }
        plan.chunk(&rendered.opening);
        for (index, piece) in rendered.pieces.iter().enumerate() {
            plan.hold(answer, index);
            if plan.fail(answer, wire, index) {
                return plan;
            }
            plan.pause(answer.pace);
            plan.chunk(piece);
        }
        plan.hold(answer, rendered.pieces.len());
        // A fault beyond the last chunk happens after it.
        if !plan.fail(answer, wire, usize::MAX) {
            plan.chunk(&rendered.ending);
            plan.end();
        }
        if let Some(clock) = answer.clock {
            for action in &mut plan.actions {
                if let Action::Write(bytes) = action {
                    *action = Action::WriteTimes(std::mem::take(bytes), clock);
                }
            }
        }
        plan
    }

    /// The actions for an error response.
    fn of_error(status: u16, headers: &[(String, String)], body: &str, wire: Wire) -> Self {
        let body = match (body, wire) {
            ("", Wire::OpenAiChat) => openai_chat::error_body(status),
            ("", Wire::Anthropic) => anthropic::error_body(status),
            (body, _) => body.to_owned(),
        };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let response = json_response(&format!("{status} Scripted"), &headers, &body);
        Self { actions: vec![Action::Write(response.into())], ..Self::default() }
    }

    fn hold(&mut self, answer: &Answer, before: usize) {
        if let Some((Some(chunks), gate)) = &answer.gate
            && *chunks == before
        {
            self.act(Action::Wait(gate.clone()));
        }
    }

    /// Applies the answer's fault if it is due after `chunks` pieces; returns whether it ends the answer.
    fn fail(&mut self, answer: &Answer, wire: Wire, chunks: usize) -> bool {
        let is_due = |after: usize| after == chunks || chunks == usize::MAX;
        match answer.fault {
            Some(Fault::Stall(after)) if is_due(after) => self.act(Action::Hang),
            Some(Fault::CutAfterChunks(after)) if is_due(after) => self.act(Action::Cut),
            Some(Fault::EndEarly(after)) if is_due(after) => self.end(),
            Some(Fault::Garbage(after)) if is_due(after) => {
                self.chunk("data: {\"choices\": [oops\n\n");
                self.end();
            }
            Some(Fault::ErrorEvent(after)) if is_due(after) => {
                let error = match wire {
                    Wire::OpenAiChat => openai_chat::error_event(),
                    Wire::Anthropic => anthropic::error_event(),
                };
                self.chunk(&error);
                self.end();
            }
            _ => return false,
        }
        true
    }

    /// Adds an HTTP chunk to the next write.
    fn chunk(&mut self, text: &str) {
        self.pending.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }

    /// Ends the body properly.
    fn end(&mut self) {
        self.pending.extend_from_slice(b"0\r\n\r\n");
        self.flush();
    }

    fn pause(&mut self, time: Duration) {
        if !time.is_zero() {
            self.act(Action::Pause(time));
        }
    }

    fn act(&mut self, action: Action) {
        self.flush();
        self.actions.push(action);
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.actions.push(Action::Write(self.pending.split().freeze()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tell_when_they_are_written() {
        let text = format!("{{\"content\":\"{TIME} \"}}");
        let written = with_times(text.as_bytes(), Duration::from_millis(12));
        assert_eq!(written, b"{\"content\":\"0000000000012000 \"}");
    }
}
