//! The runs this process drives, and the text each has streamed so far. Streams that join late or have lost a delta ask for
//! that text; cancel requests find their run here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_domain::event::{Delta, Live, LiveItem, Part};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_queue::DeltaBus;
use tokio_util::sync::CancellationToken;

/// The runs this process drives, by agentable. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveRuns(Arc<Mutex<DrivenRuns>>);

#[derive(Debug, Default)]
struct DrivenRuns {
    by_agentable: HashMap<AgentableId, Arc<LiveRun>>,
    /// Runs whose cancel request arrived while they were not driven here: their claim may be in flight.
    cancelled: VecDeque<RunId>,
}

/// Cancel requests remembered at once. They are needed only between a claim and its response.
const MAX_CANCELLED: usize = 256;

/// One run that is being driven.
#[derive(Debug)]
pub struct LiveRun {
    /// The agentable it is for.
    pub agentable: AgentableId,
    /// The run's id.
    pub run: RunId,
    /// Cancelled by a cancel request for the run.
    pub cancel: CancellationToken,
    bus: DeltaBus,
    transcript: Mutex<Option<Transcript>>,
}

/// The text that the open iteration has streamed.
#[derive(Debug, Clone)]
struct Transcript {
    message: MessageId,
    reasoning: Text,
    content: Text,
    /// Whether `content` is withdrawn if a call follows.
    is_draft: bool,
    withdrawn_at: Option<u32>,
}

/// What an iteration has streamed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Streamed {
    /// The reasoning, with what was withdrawn.
    pub reasoning: String,
    /// The message.
    pub message: String,
    /// See [`Event::Thought`](houston_domain::event::Event::Thought).
    pub withdrawn_at: Option<u32>,
}

/// A text and its length in characters.
#[derive(Debug, Clone, Default)]
struct Text {
    text: String,
    chars: u32,
}

impl Text {
    /// Appends `piece` and returns its offset in characters.
    fn push(&mut self, piece: &str) -> u32 {
        let offset = self.chars;
        self.text.push_str(piece);
        self.chars += u32::try_from(piece.chars().count()).unwrap_or(u32::MAX);
        offset
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveRuns {
    /// Adds a run. It is removed when the returned registration is dropped.
    pub fn register(&self, agentable: AgentableId, run: RunId, bus: DeltaBus) -> Registration {
        let live = Arc::new(LiveRun {
            agentable,
            run,
            cancel: CancellationToken::new(),
            bus,
            transcript: Mutex::new(None),
        });
        let mut runs = lock(&self.0);
        if runs.cancelled.contains(&run) {
            live.cancel.cancel();
            live.bus.forget(agentable);
        }
        runs.by_agentable.insert(agentable, Arc::clone(&live));
        drop(runs);
        Registration { all: self.clone(), live }
    }

    /// Number of runs driven now.
    pub fn len(&self) -> usize {
        lock(&self.0).by_agentable.len()
    }

    /// Whether no run is driven.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels `run` of `agentable` if it is driven here, and returns whether it is. Otherwise the request is remembered, in
    /// case the run's claim is in flight.
    pub fn cancel(&self, agentable: AgentableId, run: RunId) -> bool {
        let mut runs = lock(&self.0);
        if let Some(live) = runs.by_agentable.get(&agentable).filter(|live| live.run == run) {
            live.cancel.cancel();
            live.bus.forget(agentable);
            return true;
        }
        if !runs.cancelled.contains(&run) {
            runs.cancelled.truncate(MAX_CANCELLED - 1);
            runs.cancelled.push_front(run);
        }
        false
    }

    /// Handles a control item of another process: a request for a run's text so far, or to cancel it.
    pub fn on_control(&self, item: &LiveItem) {
        match item.live {
            Live::TranscriptWanted => {
                let live = lock(&self.0).by_agentable.get(&item.agentable).cloned();
                if let Some(live) = live {
                    live.publish_transcript();
                }
            }
            Live::CancelRequested(run) => {
                self.cancel(item.agentable, run);
            }
            _ => {}
        }
    }
}

/// Registration of a run in [`LiveRuns`]; dropping it removes the run.
#[derive(Debug)]
pub struct Registration {
    all: LiveRuns,
    /// The registered run.
    pub live: Arc<LiveRun>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut runs = lock(&self.all.0);
        // A later claim of the same agentable may have been registered already.
        if runs.by_agentable.get(&self.live.agentable).is_some_and(|live| Arc::ptr_eq(live, &self.live)) {
            runs.by_agentable.remove(&self.live.agentable);
            self.live.bus.forget(self.live.agentable);
        }
    }
}

impl LiveRun {
    /// Begins an iteration. If it writes a message, the message has this id.
    pub fn begin(&self, message: MessageId) {
        let (reasoning, content) = (Text::default(), Text::default());
        let (is_draft, withdrawn_at) = (false, None);
        *lock(&self.transcript) = Some(Transcript { message, reasoning, content, is_draft, withdrawn_at });
    }

    /// Appends text to the iteration and streams it as a delta.
    pub fn write(&self, part: Part, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let mut transcript = lock(&self.transcript);
        let Some(open) = transcript.as_mut() else { return };
        let offset = match part {
            Part::Reasoning => open.reasoning.push(piece),
            // Streams have another beginning under its id.
            Part::Message if open.withdrawn_at.is_some() => return,
            Part::Message => open.content.push(piece),
        };
        self.publish(open, part, offset, piece);
    }

    /// Streams a text of the iteration. Called under the lock, so that deltas and transcripts reach the bus in order.
    fn publish(&self, open: &Transcript, part: Part, offset: u32, text: &str) {
        let is_message = part == Part::Message;
        let reasoning_chars = if is_message { open.reasoning.chars } else { 0 };
        let (message_id, text, is_draft) = (open.message, text.to_owned(), open.is_draft && is_message);
        let delta = Delta { message_id, part, reasoning_chars, offset, text, is_draft };
        self.bus.publish(self.agentable, Live::Delta(delta));
    }

    /// The message that begins is withdrawn if a call follows.
    pub fn draft(&self) {
        if let Some(open) = lock(&self.transcript).as_mut() {
            open.is_draft = true;
        }
    }

    /// What was streamed as the message belongs to the reasoning: streams learn it from the committed event. The iteration
    /// streams no message.
    pub fn withdraw(&self) {
        if let Some(open) = lock(&self.transcript).as_mut().filter(|open| open.content.chars > 0) {
            let draft = std::mem::take(&mut open.content);
            open.withdrawn_at = Some(open.reasoning.push(&draft.text));
        }
    }

    /// Ends the iteration.
    pub fn end(&self) -> Streamed {
        let Some(open) = lock(&self.transcript).take() else { return Streamed::default() };
        let Transcript { reasoning, content, withdrawn_at, .. } = open;
        Streamed { reasoning: reasoning.text, message: content.text, withdrawn_at }
    }

    /// Streams the text of the open iteration again from its start.
    fn publish_transcript(&self) {
        let transcript = lock(&self.transcript);
        let Some(open) = transcript.as_ref() else { return };
        for (part, of) in [(Part::Reasoning, &open.reasoning), (Part::Message, &open.content)] {
            if of.chars > 0 {
                self.publish(open, part, 0, &of.text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::event::{Committed, Event};
    use houston_domain::id::TenantId;
    use houston_queue::BegunRun;
    use uuid::Uuid;

    use super::*;

    const AGENTABLE: AgentableId = AgentableId(Uuid::from_u128(1));
    const RUN: RunId = RunId(Uuid::from_u128(2));

    /// A bus that keeps the first event of the run.
    fn bus() -> DeltaBus {
        let bus = DeltaBus::within_process();
        let tenant = TenantId(Uuid::from_u128(3));
        bus.keep(AGENTABLE, BegunRun { tenant, kind: "goal".into(), run: RUN, first_seq: 1 });
        let (at, event) = (DateTime::UNIX_EPOCH, Event::RunQueued {});
        bus.publish(
            AGENTABLE,
            Live::Committed(vec![Committed { seq: 1, run_id: RUN, at, event, body: None }]),
        );
        assert!(bus.begun(AGENTABLE, None).is_some());
        bus
    }

    #[test]
    fn first_events_are_forgotten_when_a_run_ends_or_is_cancelled() {
        let (runs, ended) = (LiveRuns::default(), bus());
        let registration = runs.register(AGENTABLE, RUN, ended.clone());
        assert!(ended.begun(AGENTABLE, None).is_some());
        drop(registration);
        assert_eq!(ended.begun(AGENTABLE, None), None);

        let cancelled = bus();
        let _registration = runs.register(AGENTABLE, RUN, cancelled.clone());
        assert!(runs.cancel(AGENTABLE, RUN));
        assert_eq!(cancelled.begun(AGENTABLE, None), None);
    }

    #[test]
    fn events_of_a_run_cancelled_before_its_drive_are_forgotten() {
        let (runs, cancelled) = (LiveRuns::default(), bus());
        assert!(!runs.cancel(AGENTABLE, RUN));
        let registration = runs.register(AGENTABLE, RUN, cancelled.clone());
        assert!(registration.live.cancel.is_cancelled());
        assert_eq!(cancelled.begun(AGENTABLE, None), None);
    }
}
