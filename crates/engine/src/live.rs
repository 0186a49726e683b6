//! The runs this process drives, and what each has written so far: streams that join late, or have lost a delta,
//! ask for the transcript; whoever cancels, finds the run here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_domain::event::{Delta, Live, LiveItem, Part};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_queue::DeltaBus;
use tokio_util::sync::CancellationToken;

/// All runs of this process, by agentable.
#[derive(Debug, Clone, Default)]
pub struct LiveRuns(Arc<Mutex<Driven>>);

#[derive(Debug, Default)]
struct Driven {
    runs: HashMap<AgentableId, Arc<LiveRun>>,
    /// Runs whose cancellation was heard of while they were not driven here: a claim may be on its way back.
    cancelled: VecDeque<RunId>,
}

/// How many cancelled runs are remembered: those of the instants between a claim and its answer.
const MOST_CANCELLED: usize = 256;

/// One run that is being driven.
#[derive(Debug)]
pub struct LiveRun {
    /// Of which agentable.
    pub agentable: AgentableId,
    /// The run.
    pub run: RunId,
    /// Cancelled when somebody asks to cancel the run.
    pub cancel: CancellationToken,
    bus: DeltaBus,
    transcript: Mutex<Option<Transcript>>,
}

/// What the open iteration has written.
#[derive(Debug, Clone)]
struct Transcript {
    message: MessageId,
    reasoning: Text,
    content: Text,
}

/// A text and its length in characters.
#[derive(Debug, Clone, Default)]
struct Text {
    text: String,
    chars: u32,
}

impl Text {
    /// Appends, and returns where the piece begins.
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
    /// Adds a run; it leaves when the returned entry is dropped.
    #[must_use]
    pub fn enter(&self, agentable: AgentableId, run: RunId, bus: DeltaBus) -> Entered {
        let live = Arc::new(LiveRun {
            agentable,
            run,
            cancel: CancellationToken::new(),
            bus,
            transcript: Mutex::new(None),
        });
        let mut driven = lock(&self.0);
        if driven.cancelled.contains(&run) {
            live.cancel.cancel();
        }
        driven.runs.insert(agentable, Arc::clone(&live));
        drop(driven);
        Entered { all: self.clone(), live }
    }

    /// How many are driven now.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.0).runs.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels `run` of `agentable` if it is driven here, or is about to be. Returns whether it is.
    pub fn cancel(&self, agentable: AgentableId, run: RunId) -> bool {
        let mut driven = lock(&self.0);
        if let Some(live) = driven.runs.get(&agentable).filter(|live| live.run == run) {
            live.cancel.cancel();
            return true;
        }
        if !driven.cancelled.contains(&run) {
            driven.cancelled.truncate(MOST_CANCELLED - 1);
            driven.cancelled.push_front(run);
        }
        false
    }

    /// Answers what other processes ask of the runs driven here.
    pub fn on_control(&self, item: &LiveItem) {
        match item.live {
            Live::TranscriptWanted => {
                let live = lock(&self.0).runs.get(&item.agentable).cloned();
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

/// A run's stay among the [`LiveRuns`].
#[derive(Debug)]
pub struct Entered {
    all: LiveRuns,
    /// The run.
    pub live: Arc<LiveRun>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut driven = lock(&self.all.0);
        // A later claim of the same agentable may have entered already.
        if driven.runs.get(&self.live.agentable).is_some_and(|live| Arc::ptr_eq(live, &self.live)) {
            driven.runs.remove(&self.live.agentable);
        }
    }
}

impl LiveRun {
    /// Begins an iteration whose message, if it writes one, will have this id.
    pub fn begin(&self, message: MessageId) {
        *lock(&self.transcript) =
            Some(Transcript { message, reasoning: Text::default(), content: Text::default() });
    }

    /// Adds text to the iteration and streams it.
    pub fn write(&self, part: Part, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let mut transcript = lock(&self.transcript);
        let Some(open) = transcript.as_mut() else { return };
        let (offset, reasoning_chars) = match part {
            Part::Reasoning => (open.reasoning.push(piece), 0),
            Part::Message => (open.content.push(piece), open.reasoning.chars),
        };
        let delta = Delta { message_id: open.message, part, reasoning_chars, offset, text: piece.to_owned() };
        // Published under the lock, so that a transcript never falls between two deltas.
        self.bus.publish(self.agentable, Live::Delta(delta));
    }

    /// Ends the iteration: what it streamed as reasoning and as the message.
    #[must_use]
    pub fn end(&self) -> (String, String) {
        lock(&self.transcript)
            .take()
            .map_or_else(Default::default, |open| (open.reasoning.text, open.content.text))
    }

    /// Streams the text so far again, from the start.
    fn publish_transcript(&self) {
        let transcript = lock(&self.transcript);
        let Some(open) = transcript.as_ref() else { return };
        for (part, text, reasoning_chars) in
            [(Part::Reasoning, &open.reasoning, 0), (Part::Message, &open.content, open.reasoning.chars)]
        {
            if text.chars > 0 {
                let delta = Delta {
                    message_id: open.message,
                    part,
                    reasoning_chars,
                    offset: 0,
                    text: text.text.clone(),
                };
                self.bus.publish(self.agentable, Live::Delta(delta));
            }
        }
    }
}
