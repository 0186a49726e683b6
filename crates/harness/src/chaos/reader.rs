//! A client that reads a goal's stream to its end: it drops its connection at arbitrary bytes, reconnects with the last
//! event id it has, and records what it received.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use houston_protocol::sse::{SseDecoder, SseEvent};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::apis::Apis;
use super::seed::Seed;
use crate::http::Connection;

/// The server sends a heartbeat every 8 s: a stream that is silent for longer than this is dead.
const SILENCE: Duration = Duration::from_secs(20);
/// How long a response may take to begin.
const PATIENCE: Duration = Duration::from_secs(6);

/// What one client received over all its connections.
#[derive(Debug, Default)]
pub(crate) struct ReceivedStream {
    /// The events in order: `posted <id>`, `sent <id>`, `called <id>`, `returned <id>`, `queued <run>`, `ended`.
    pub(crate) log: Vec<String>,
    /// Texts of the agent's messages, by message id.
    pub(crate) texts: HashMap<String, String>,
    /// Violations of the stream's contract.
    pub(crate) faults: Vec<String>,
    pub(crate) events: usize,
    pub(crate) connections: usize,
    last_id: String,
    /// Id and text of the message whose end has not come yet.
    open: Option<(String, String)>,
    step: Option<String>,
}

/// A client of one goal's stream.
pub(crate) struct Reader {
    pub(crate) apis: Apis,
    pub(crate) goal: String,
    /// The file that every received byte is written to.
    pub(crate) record: PathBuf,
    /// The last position of each goal, once all runs have ended.
    pub(crate) end: watch::Receiver<Option<Arc<HashMap<String, i64>>>>,
}

impl Reader {
    /// Reads until the last position, or until the sender of `end` is dropped.
    pub(crate) async fn read(self, mut seed: Seed) -> ReceivedStream {
        let mut received = ReceivedStream::default();
        let mut record = File::create(&self.record).ok();
        loop {
            let mut end = self.end.clone();
            end.mark_unchanged();
            if self.has_all(&received) {
                return received;
            }
            let api = seed.one_of(&self.apis.addresses);
            // Half of the connections are dropped after at most 30 kB, the others by the server or a fault.
            let most = if seed.permille(500) { seed.below(30_000) } else { usize::MAX };
            tokio::select! {
                read = self.connection(api, most, &mut received, record.as_mut()) => {
                    if read.is_err() {
                        sleep(seed.millis(50, 500)).await;
                    }
                }
                changed = end.changed() => if changed.is_err() { return received },
            }
        }
    }

    fn has_all(&self, received: &ReceivedStream) -> bool {
        let end = self.end.borrow();
        let last = end.as_ref().and_then(|end| end.get(&bare_id(&self.goal)));
        last.is_some_and(|last| received.last_id.parse::<i64>().is_ok_and(|id| id >= *last))
    }

    async fn connection(
        &self,
        api: SocketAddr,
        most: usize,
        received: &mut ReceivedStream,
        mut record: Option<&mut File>,
    ) -> Result<()> {
        let path = format!("/v1/goals/{}/events?after=0&follow=true", self.goal);
        let begin = async {
            let mut connection = Connection::open(api, &self.apis.key).await?;
            let status = connection.resume(&path, &received.last_id).await?;
            anyhow::Ok((connection, status))
        };
        let (mut connection, status) = timeout(PATIENCE, begin).await??;
        if status != 200 {
            bail!("status {status}");
        }
        received.connections += 1;
        if let Some(record) = &mut record {
            writeln!(record, "\n--- from {:?}", received.last_id)?;
        }
        let (mut decoder, mut bytes) = (SseDecoder::default(), 0);
        loop {
            let Some(chunk) = timeout(SILENCE, connection.chunk()).await?? else {
                received
                    .faults
                    .push(format!("the server ended a stream that was not over, at {}", received.last_id));
                return Ok(());
            };
            let take = chunk.len().min(most - bytes);
            bytes += take;
            if let Some(record) = &mut record {
                record.write_all(&chunk[..take])?;
            }
            for event in decoder.push(&chunk[..take])? {
                received.receive(event);
            }
            if bytes == most || self.has_all(received) {
                return Ok(());
            }
        }
    }
}

impl ReceivedStream {
    fn fault(&mut self, what: String) {
        let at = &self.last_id;
        self.faults.push(format!("at {at}: {what}"));
    }

    /// Records one complete event.
    pub(crate) fn receive(&mut self, event: SseEvent) {
        if let Some(id) = event.id {
            let seq = |id: &str| id.split(':').next().and_then(|seq| seq.parse::<i64>().ok()).unwrap_or(0);
            if seq(&id) < seq(&self.last_id) {
                self.fault(format!("position {id} comes after {}", self.last_id));
            }
            self.last_id = id;
        }
        match serde_json::from_str(&event.data) {
            Ok(event) => self.event(&event),
            Err(error) => self.fault(format!("not JSON: {error}")),
        }
    }

    fn event(&mut self, event: &Value) {
        self.events += 1;
        let id = |name: &str| event[name].as_str().map(bare_id).unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "RUN_STARTED" => self.append(format!("queued {}", id("runId"))),
            "RUN_FINISHED" | "RUN_ERROR" => {
                if let Some((open, _)) = &self.open {
                    self.fault(format!("the run ended while {open} was open"));
                }
                self.append("ended".to_owned());
            }
            "CUSTOM" if event["name"] == "houston.message.posted" => {
                let id = event["value"]["message"]["id"].as_str().unwrap_or("");
                self.append(format!("posted {}", bare_id(id)));
            }
            "TEXT_MESSAGE_START" => {
                if let Some((open, _)) = self.open.replace((id("messageId"), String::new())) {
                    self.fault(format!("{} begins while {open} is open", id("messageId")));
                }
            }
            "TEXT_MESSAGE_CONTENT" => match &mut self.open {
                Some((open, text)) if *open == id("messageId") => {
                    text.push_str(event["delta"].as_str().unwrap_or_default());
                }
                _ => self.fault(format!("text for {}, which is not open", id("messageId"))),
            },
            "TEXT_MESSAGE_END" => match self.open.take() {
                Some((open, text)) if open == id("messageId") => {
                    self.append(format!("sent {open}"));
                    self.texts.insert(open, text);
                }
                _ => self.fault(format!("the end of {}, which is not open", id("messageId"))),
            },
            "TOOL_CALL_START" => self.append(format!("called {}", id("toolCallId"))),
            "TOOL_CALL_RESULT" => self.append(format!("returned {}", id("toolCallId"))),
            "STEP_STARTED" => {
                let step = event["stepName"].as_str().map(str::to_owned);
                if let Some(open) = std::mem::replace(&mut self.step, step) {
                    self.fault(format!("a step begins while {open} is open"));
                }
            }
            "STEP_FINISHED" if self.step.take().as_deref() != event["stepName"].as_str() => {
                self.fault(format!("the end of {}, which is not open", event["stepName"]));
            }
            "MESSAGES_SNAPSHOT" => self.snapshot(event["messages"].as_array().map_or(&[], Vec::as_slice)),
            _ => {}
        }
    }

    fn append(&mut self, what: String) {
        // A repetition comes soon after the first one, on the next connection.
        if what != "ended" && self.log.iter().rev().take(200).any(|earlier| *earlier == what) {
            self.fault(format!("received twice: {what}"));
        }
        self.log.push(what);
    }

    /// Applies a snapshot: messages that are not in it are removed, texts are replaced. What precedes its first message
    /// stays: a snapshot may be the end of a longer thread, and the first message of a thread is its user's.
    fn snapshot(&mut self, messages: &[Value]) {
        let snapshot: HashMap<String, &str> = messages
            .iter()
            .map(|message| {
                let text = message["content"].as_str().unwrap_or_default();
                (bare_id(message["id"].as_str().unwrap_or_default()), text)
            })
            .collect();
        // The error of a run is a message with the id of the run.
        let is_in = |what: &String| {
            what.split_once(' ').is_some_and(|(kind, id)| kind != "queued" && snapshot.contains_key(id))
        };
        let begin = self.log.iter().position(is_in).unwrap_or(0);
        let removed = self.log.split_off(begin);
        for what in removed {
            match what.strip_prefix("sent ") {
                Some(id) if !snapshot.contains_key(id) => drop(self.texts.remove(id)),
                _ => self.log.push(what),
            }
        }
        for (id, text) in &mut self.texts {
            if let Some(right) = snapshot.get(id.as_str()) {
                (*right).clone_into(text);
            }
        }
    }
}

/// An id without its prefix and hyphens: `msg_00-aa` is `00aa`.
pub(crate) fn bare_id(id: &str) -> String {
    id.split('_').next_back().unwrap_or_default().replace('-', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(frames: &[(&str, &str)]) -> ReceivedStream {
        let mut received = ReceivedStream::default();
        for (id, data) in frames {
            received.receive(SseEvent {
                id: Some((*id).to_owned()),
                data: (*data).to_owned(),
                retry_ms: None,
            });
        }
        received
    }

    const START: (&str, &str) = ("3:0", r#"{"type":"TEXT_MESSAGE_START","messageId":"msg_a"}"#);
    const HALF: (&str, &str) = ("3:2", r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_a","delta":"ha"}"#);
    const REST: (&str, &str) =
        ("3:2f1", r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_a","delta":"lf"}"#);
    const END: (&str, &str) = ("4", r#"{"type":"TEXT_MESSAGE_END","messageId":"msg_a"}"#);

    #[test]
    fn pieces_of_a_text_are_joined() {
        let received = received(&[START, HALF, REST, END]);
        assert_eq!(
            (received.texts["a"].as_str(), received.log.as_slice()),
            ("half", &["sent a".to_owned()][..])
        );
        assert!(received.faults.is_empty(), "{:?}", received.faults);
    }

    #[test]
    fn snapshot_removes_a_text() {
        let snapshot = ("5", r#"{"type":"MESSAGES_SNAPSHOT","messages":[]}"#);
        let received = received(&[START, HALF, END, snapshot]);
        assert!(received.texts.is_empty() && received.log.is_empty() && received.faults.is_empty());
    }

    #[test]
    fn snapshot_of_a_long_thread_leaves_what_precedes_it() {
        let message = |nth: usize| format!(r#"{{"id":"msg_{nth}","content":"x"}}"#);
        let newest: Vec<String> = (2..10).map(message).collect();
        let snapshot = format!(r#"{{"type":"MESSAGES_SNAPSHOT","messages":[{}]}}"#, newest.join(","));
        let texts: Vec<String> = ["1", "2", "torn"]
            .map(|id| format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"msg_{id}"}}"#))
            .to_vec();
        let ends: Vec<String> = texts.iter().map(|text| text.replace("START", "END")).collect();
        let mut frames: Vec<(&str, &str)> = Vec::new();
        for (nth, (start, end)) in texts.iter().zip(&ends).enumerate() {
            frames.extend([(["1", "3", "5"][nth], start.as_str()), (["2", "4", "6"][nth], end.as_str())]);
        }
        frames.push(("7", snapshot.as_str()));
        let received = received(&frames);
        assert_eq!(received.log, ["sent 1", "sent 2"]);
        assert!(received.faults.is_empty(), "{:?}", received.faults);
    }

    #[test]
    fn snapshot_that_begins_with_an_error_leaves_the_text_before_it() {
        let run = ("2", r#"{"type":"RUN_STARTED","runId":"run_r"}"#);
        let posted =
            r#"{"type":"CUSTOM","name":"houston.message.posted","value":{"message":{"id":"msg_b"}}}"#;
        let newest = r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"msg_r"},{"id":"msg_b"}]}"#;
        let received = received(&[run, START, END, ("5", posted), ("6", newest)]);
        assert_eq!(received.log, ["queued r", "sent a", "posted b"]);
    }

    #[test]
    fn violations_of_the_stream_contract_are_reported() {
        for wrong in [&[START, START][..], &[HALF], &[END], &[START, END, START, END], &[END, START]] {
            assert!(!received(wrong).faults.is_empty(), "{wrong:?}");
        }
    }
}
