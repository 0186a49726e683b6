//! A client of a goal's stream, for as long as there is something to read: it drops its connection at arbitrary
//! bytes, comes back with the last id it has, and keeps what a client keeps.

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

use super::seed::Seed;
use crate::http::Connection;

/// A stream whose heartbeat, every 8 s, is overdue is dead.
const SILENCE: Duration = Duration::from_secs(20);
/// How long an answer may take to begin.
const PATIENCE: Duration = Duration::from_secs(6);

/// What a client has after all it has read.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What happened, in order: `posted <id>`, `said <id>`, `called <id>`, `returned <id>`, `queued <run>`, `ended`.
    pub(crate) log: Vec<String>,
    /// Texts of the agent's messages.
    pub(crate) texts: HashMap<String, String>,
    /// What no client should see.
    pub(crate) faults: Vec<String>,
    pub(crate) events: usize,
    pub(crate) connections: usize,
    last_id: String,
    open: Option<(String, String)>,
    step: Option<String>,
}

/// A client.
pub(crate) struct Reader {
    pub(crate) apis: Vec<SocketAddr>,
    pub(crate) key: String,
    pub(crate) goal: String,
    /// Where every byte goes.
    pub(crate) record: PathBuf,
    /// Once everything is quiet: the last position of each goal.
    pub(crate) end: watch::Receiver<Option<Arc<HashMap<String, i64>>>>,
}

impl Reader {
    /// Reads until everything was read, or nobody wants to know any more.
    pub(crate) async fn read(mut self, mut seed: Seed) -> Seen {
        let mut seen = Seen::default();
        let mut record = File::create(&self.record).ok();
        while !self.has_all(&seen) {
            let api = seed.one_of(&self.apis);
            // Half of the connections are dropped soon, the others when somebody else drops them.
            let most = if seed.permille(500) { seed.below(30_000) } else { usize::MAX };
            let mut end = self.end.clone();
            tokio::select! {
                read = self.connection(api, most, &mut seen, record.as_mut()) => {
                    if read.is_err() {
                        sleep(seed.millis(50, 500)).await;
                    }
                }
                changed = end.changed() => if changed.is_err() { break },
            }
        }
        seen
    }

    fn has_all(&mut self, seen: &Seen) -> bool {
        let end = self.end.borrow_and_update();
        let Some(last) = end.as_ref().and_then(|end| end.get(&plain(&self.goal))) else { return false };
        seen.last_id.parse::<i64>().is_ok_and(|id| id >= *last)
    }

    async fn connection(
        &self,
        api: SocketAddr,
        most: usize,
        seen: &mut Seen,
        mut record: Option<&mut File>,
    ) -> Result<()> {
        let path = format!("/v1/goals/{}/events?after=0&follow=true", self.goal);
        let begin = async {
            let mut connection = Connection::open(api, &self.key).await?;
            let status = connection.resume(&path, &seen.last_id).await?;
            anyhow::Ok((connection, status))
        };
        let (mut connection, status) = timeout(PATIENCE, begin).await??;
        if status != 200 {
            bail!("status {status}");
        }
        seen.connections += 1;
        if let Some(record) = &mut record {
            writeln!(record, "\n--- from {:?}", seen.last_id)?;
        }
        let (mut decoder, mut bytes) = (SseDecoder::default(), 0);
        loop {
            let Some(chunk) = timeout(SILENCE, connection.chunk()).await?? else {
                seen.faults.push(format!("a stream was closed as if it were over, at {}", seen.last_id));
                return Ok(());
            };
            let take = chunk.len().min(most - bytes);
            bytes += take;
            if let Some(record) = &mut record {
                record.write_all(&chunk[..take])?;
            }
            for event in decoder.push(&chunk[..take])? {
                seen.take(event);
            }
            if bytes == most || seen.last_id_is_last(&self.end, &self.goal) {
                return Ok(());
            }
        }
    }
}

impl Seen {
    fn last_id_is_last(&self, end: &watch::Receiver<Option<Arc<HashMap<String, i64>>>>, goal: &str) -> bool {
        let end = end.borrow();
        let last = end.as_ref().and_then(|end| end.get(&plain(goal)));
        last.is_some_and(|last| self.last_id.parse::<i64>().is_ok_and(|id| id >= *last))
    }

    fn fault(&mut self, what: String) {
        let at = &self.last_id;
        self.faults.push(format!("at {at}: {what}"));
    }

    /// One event, whole.
    pub(crate) fn take(&mut self, event: SseEvent) {
        if let Some(id) = event.id {
            let seq = |id: &str| id.split(':').next().and_then(|seq| seq.parse::<i64>().ok()).unwrap_or(0);
            if seq(&id) < seq(&self.last_id) {
                self.fault(format!("position {id} comes after {}", self.last_id));
            }
            self.last_id = id;
        }
        match serde_json::from_str(&event.data) {
            Ok(event) => self.event(&event),
            Err(error) => self.fault(format!("no JSON: {error}")),
        }
    }

    fn event(&mut self, event: &Value) {
        self.events += 1;
        let id = |name: &str| event[name].as_str().map(plain).unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "RUN_STARTED" => self.note(format!("queued {}", id("runId"))),
            "RUN_FINISHED" | "RUN_ERROR" => {
                if let Some((open, _)) = &self.open {
                    self.fault(format!("the run ended while {open} was open"));
                }
                self.note("ended".to_owned());
            }
            "CUSTOM" if event["name"] == "houston.message.posted" => {
                self.note(format!(
                    "posted {}",
                    plain(event["value"]["message"]["id"].as_str().unwrap_or(""))
                ));
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
                    self.note(format!("said {open}"));
                    self.texts.insert(open, text);
                }
                _ => self.fault(format!("the end of {}, which is not open", id("messageId"))),
            },
            "TOOL_CALL_START" => self.note(format!("called {}", id("toolCallId"))),
            "TOOL_CALL_RESULT" => self.note(format!("returned {}", id("toolCallId"))),
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

    fn note(&mut self, what: String) {
        // Whatever comes twice comes soon after, on the next connection.
        if what != "ended" && self.log.iter().rev().take(200).any(|known| *known == what) {
            self.fault(format!("{what}, twice"));
        }
        self.log.push(what);
    }

    /// The thread as it is: what it does not have is taken back, and its texts are the right ones.
    fn snapshot(&mut self, messages: &[Value]) {
        let there: HashMap<String, &str> = messages
            .iter()
            .map(|message| {
                let text = message["content"].as_str().unwrap_or_default();
                (plain(message["id"].as_str().unwrap_or_default()), text)
            })
            .collect();
        self.log.retain(|what| what.strip_prefix("said ").is_none_or(|id| there.contains_key(id)));
        self.texts.retain(|id, text| {
            there.get(id.as_str()).is_some_and(|right| {
                (*right).clone_into(text);
                true
            })
        });
    }
}

/// An id without what it is an id of.
pub(crate) fn plain(id: &str) -> String {
    id.split('_').next_back().unwrap_or_default().replace('-', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(frames: &[(&str, &str)]) -> Seen {
        let mut seen = Seen::default();
        for (id, data) in frames {
            seen.take(SseEvent { id: Some((*id).to_owned()), data: (*data).to_owned(), retry_ms: None });
        }
        seen
    }

    const START: (&str, &str) = ("3:0", r#"{"type":"TEXT_MESSAGE_START","messageId":"msg_a"}"#);
    const HALF: (&str, &str) = ("3:2", r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_a","delta":"ha"}"#);
    const REST: (&str, &str) =
        ("3:2f1", r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_a","delta":"lf"}"#);
    const END: (&str, &str) = ("4", r#"{"type":"TEXT_MESSAGE_END","messageId":"msg_a"}"#);

    #[test]
    fn a_text_is_put_together() {
        let seen = seen(&[START, HALF, REST, END]);
        assert_eq!((seen.texts["a"].as_str(), seen.log.as_slice()), ("half", &["said a".to_owned()][..]));
        assert!(seen.faults.is_empty(), "{:?}", seen.faults);
    }

    #[test]
    fn a_snapshot_takes_a_text_back() {
        let snapshot = ("5", r#"{"type":"MESSAGES_SNAPSHOT","messages":[]}"#);
        let seen = seen(&[START, HALF, END, snapshot]);
        assert!(seen.texts.is_empty() && seen.log.is_empty() && seen.faults.is_empty());
    }

    #[test]
    fn what_no_client_should_see_is_seen() {
        for wrong in [&[START, START][..], &[HALF], &[END], &[START, END, START, END], &[END, START]] {
            assert!(!seen(wrong).faults.is_empty(), "{wrong:?}");
        }
    }
}
