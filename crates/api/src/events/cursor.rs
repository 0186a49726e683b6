//! The position of one client and the frames it must be sent next: a state machine without I/O.
//!
//! Durable events are passed in order, each once; deltas as they arrive, and some are lost. Whatever was lost, and
//! wherever the client was disconnected, the frames it has received in total are a valid AG-UI stream with the texts of
//! Postgres:
//! - A delta is sent only if it continues, character by character, the text this client has.
//! - The durable event that ends a text brings the missing rest of it.
//! - A text that will not be completed, because its attempt broke off or it was withdrawn, is closed, and a snapshot of the
//!   thread removes it.
//!
//! A run that waits for a person ends as AG-UI has it, with its questions as interrupts, and starts again, under the same id,
//! with the next event.

use std::borrow::Cow;

use houston_domain::event::{CallProgress, Committed, Delta, Event as Durable, Part};
use houston_domain::id::MessageId;
use houston_domain::question::NewQuestion;
use houston_domain::run::RunStatus;
use houston_domain::shared_state;
use houston_protocol::agui::{
    EntityId, Event, Fact, Outcome, PROTOCOL_VERSION, Role, SnapshotMessage, SnapshotMetadata, Timestamp,
};
use houston_store::event::OpenIteration;
use serde_json::Value;

use crate::events::position::{Open, Position};
use crate::events::render::{self, Context};

/// Receives the frames in order, each with the position after it.
type Emit<'a> = &'a mut dyn FnMut(Position, &Event<'_>);

/// What the next event needs from Postgres besides itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needed {
    /// The messages of the thread.
    pub(crate) snapshot: Vec<SnapshotMessage>,
    /// The questions for which a run waits.
    pub(crate) questions: Vec<NewQuestion>,
}

/// What happened with a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeltaOutcome {
    /// It was sent in whole or in part, or needs not be sent.
    Handled,
    /// Text before it is missing: the text written so far must be requested from the worker.
    Gap,
    /// It belongs to an iteration whose durable events were not seen yet: Postgres must be read.
    Behind,
}

/// The position of one client, and the state that the next frames depend on.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    thread: Box<str>,
    at: Position,
    iteration: Option<OpenIteration>,
    over: bool,
    /// Whether a run that waits for a person ends for this client, to start again when it goes on.
    interrupts: bool,
    /// Whether it has ended so with the last event.
    interrupted: bool,
    dropped: u32,
    read_for: Option<MessageId>,
    /// The state that the agentable shares with front ends, at this position; `None`: its kind has none.
    state: Option<Box<Value>>,
}

/// After how many dropped deltas the text written so far is requested again.
const ASK_EVERY: u32 = 64;

impl Cursor {
    /// A client of `thread` at the position `at`, where `iteration` was open. The open text of `at` comes from the
    /// client and is used only if it is possible in that iteration.
    pub(crate) fn new(thread: &str, at: Position, iteration: Option<OpenIteration>) -> Self {
        let plausible = iteration.is_some_and(|iteration| match at.open {
            Open::Nothing => true,
            Open::Reasoning(_) | Open::Thought => {
                !iteration.thought_committed && !iteration.message_committed
            }
            Open::Text(_) => !iteration.message_committed,
        });
        let open = if plausible { at.open } else { Open::Nothing };
        let at = Position { open, ..at };
        Self { thread: thread.into(), at, iteration, ..Self::default() }
    }

    /// The cursor of an agentable that shares a state with front ends, which is this one at the cursor's position.
    pub(crate) fn with_state(self, state: Option<Value>) -> Self {
        Self { state: state.map(Box::new), ..self }
    }

    /// The cursor of a client for which waits are interrupts. `interrupted`: the last event it has was one.
    pub(crate) fn with_interrupts(self, interrupted: bool) -> Self {
        Self { interrupts: true, interrupted, ..self }
    }

    /// The last durable event that the client has completely.
    pub(crate) fn seq(&self) -> i64 {
        self.at.seq
    }

    /// Whether the last event was the end of a run.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a message may be being written, so that deltas can arrive.
    pub(crate) fn is_writing(&self) -> bool {
        self.iteration.is_some_and(|iteration| !iteration.message_committed)
    }

    /// If `event`, the next one, needs a snapshot of the thread: the position before which its messages are read.
    pub(crate) fn snapshot_before(&self, event: &Committed) -> Option<i64> {
        match self.effect(event) {
            Effect::Void => Some(event.seq),
            Effect::Replace => Some(event.seq + 1),
            Effect::Pass | Effect::Skip | Effect::Complete => None,
        }
        // The first two frames are the end of the text and the snapshot: a client that has both needs none.
        .filter(|_| self.at.frames < 2)
    }

    /// Whether `event`, the next one, needs the questions for which its run waits.
    pub(crate) fn needs_questions(&self, event: &Committed) -> bool {
        self.interrupts && matches!(event.event, Durable::RunWaiting { .. })
    }

    /// Sends `event`, the next one, with what it needs.
    pub(crate) fn durable(&mut self, event: &Committed, needed: &Needed, emit: Emit<'_>) {
        let context = Context {
            thread: &self.thread,
            step: self.iteration.map(|iteration| iteration.number),
            message: self.iteration.map(|iteration| iteration.message),
        };
        let effect = self.effect(event);
        let mut frames = self.frames(&context, effect, event, &needed.snapshot);
        if self.interrupted {
            start_again(&mut frames, &self.thread, event);
            self.interrupted = frames.is_empty();
        }
        if self.needs_questions(event) {
            let end = interrupted_end(&self.thread, event, &needed.questions);
            self.interrupted = end.is_some();
            frames.extend(end);
        }
        if let Some(state) = &self.state {
            add_states(&mut frames, state);
        }
        let before = self.at;
        let after = Position { seq: event.seq, open: self.open_after(effect, &event.event), frames: 0 };
        let count = frames.len();
        for (frame, number) in frames.iter().zip(1u32..) {
            if number > before.frames {
                let is_last = usize::try_from(number).is_ok_and(|number| number == count);
                emit(if is_last { after } else { Position { frames: number, ..before } }, frame);
            }
        }
        drop(frames);
        self.at = after;
        self.dropped = 0;
        if let (Some(state), Durable::StateChanged { delta, .. }) = (&mut self.state, &event.event) {
            shared_state::apply(state, delta);
        }
        self.update_state(&event.event, before.open);
    }

    /// Sends the part of `delta` that the client does not have, if the client has everything before it.
    pub(crate) fn delta(&mut self, delta: &Delta, emit: Emit<'_>) -> DeltaOutcome {
        let Some(iteration) = self.iteration else { return self.read_once_for(delta.message_id) };
        if delta.message_id != iteration.message {
            // Ids sort by creation time: a smaller one belongs to an earlier message, a larger one to a later message.
            let early = delta.message_id > iteration.message;
            return if early { self.read_once_for(delta.message_id) } else { DeltaOutcome::Handled };
        }
        if iteration.message_committed || self.at.frames > 0 {
            return DeltaOutcome::Handled;
        }
        let has = match (delta.part, self.at.open) {
            (Part::Reasoning, Open::Nothing) if !iteration.thought_committed => 0,
            (Part::Reasoning, Open::Reasoning(chars)) => chars,
            (Part::Reasoning, _) => return DeltaOutcome::Handled,
            (Part::Message, Open::Text(chars)) => chars,
            (Part::Message, Open::Reasoning(chars)) if chars < delta.reasoning_chars => return self.gap(),
            (Part::Message, Open::Nothing) if !iteration.thought_committed && delta.reasoning_chars > 0 => {
                return self.gap();
            }
            // Its turn is committed: a message comes whole, and what was withdrawn does not come again.
            (Part::Message, Open::Nothing) if iteration.thought_committed => return DeltaOutcome::Handled,
            (Part::Message, _) => 0,
        };
        if delta.offset > has {
            return self.gap();
        }
        let tail = render::suffix(&delta.text, has - delta.offset);
        if !tail.is_empty() {
            self.dropped = 0;
            self.write((delta.part, delta.is_draft), iteration.message, has, tail, emit);
        }
        DeltaOutcome::Handled
    }

    /// Sends how far a call is, if the client follows its run. It changes nothing of what the client has.
    pub(crate) fn progress(&self, of: &CallProgress, emit: Emit<'_>) {
        if self.iteration.is_none() {
            return;
        }
        let fact = Fact::ToolProgress {
            tool_call_id: EntityId::Message(of.message_id),
            progress: of.progress,
            total: of.total,
            message: (!of.message.is_empty()).then(|| of.message.as_str().into()),
        };
        emit(self.at, &Event::Custom { timestamp: None, fact });
    }

    /// Sends `text`, which continues `part` after the `has` characters that were sent before.
    fn write(
        &mut self,
        (part, is_draft): (Part, bool),
        message: MessageId,
        has: u32,
        text: &str,
        emit: Emit<'_>,
    ) {
        let has_now = has.saturating_add(u32::try_from(text.chars().count()).unwrap_or(u32::MAX));
        let timestamp = None;
        let (was, reasoning) = (self.at.open, EntityId::Reasoning(message));
        let mut send = |open: Open, event: Event<'_>| {
            self.at.open = open;
            emit(self.at, &event);
        };
        match part {
            Part::Reasoning => {
                let message_id = reasoning;
                if was == Open::Nothing {
                    let role = Role::Reasoning;
                    send(Open::Reasoning(0), Event::ReasoningMessageStart { timestamp, message_id, role });
                }
                let event = Event::ReasoningMessageContent { timestamp, message_id, delta: text.into() };
                send(Open::Reasoning(has_now), event);
            }
            Part::Message => {
                let message_id = EntityId::Message(message);
                if matches!(was, Open::Reasoning(_)) {
                    send(Open::Thought, Event::ReasoningMessageEnd { timestamp, message_id: reasoning });
                }
                if !matches!(was, Open::Text(_)) {
                    send(
                        Open::Text(0),
                        Event::TextMessageStart { timestamp, message_id, role: Role::Assistant, is_draft },
                    );
                }
                send(
                    Open::Text(has_now),
                    Event::TextMessageContent { timestamp, message_id, delta: text.into() },
                );
            }
        }
    }

    fn frames<'a>(
        &self,
        context: &Context<'a>,
        effect: Effect,
        event: &'a Committed,
        snapshot: &'a [SnapshotMessage],
    ) -> Vec<Event<'a>> {
        let timestamp = Some(event.at.timestamp_millis());
        match (effect, context.message) {
            (Effect::Skip, _) => Vec::new(),
            (Effect::Pass, _) | (_, None) => render::frames(context, event),
            (Effect::Complete, Some(message)) => match (self.at.open, &event.event) {
                (Open::Reasoning(chars), Durable::Thought { text, .. }) => {
                    render::reasoning_end(timestamp, EntityId::Reasoning(message), text, chars)
                }
                (Open::Text(chars), _) => {
                    render::text_end(timestamp, EntityId::Message(message), event.body.as_ref(), chars)
                }
                _ => Vec::new(),
            },
            (Effect::Replace | Effect::Void, Some(message)) => {
                let end = match self.at.open {
                    Open::Reasoning(_) => {
                        Event::ReasoningMessageEnd { timestamp, message_id: EntityId::Reasoning(message) }
                    }
                    _ => Event::TextMessageEnd {
                        timestamp,
                        message_id: EntityId::Message(message),
                        metadata: None,
                    },
                };
                let mut frames = vec![end, snapshot_of(timestamp, snapshot)];
                if effect == Effect::Void {
                    frames.extend(render::frames(context, event));
                }
                frames
            }
        }
    }

    /// Updates the state after `event`, so that late deltas are recognised. `was` is the text that was open before.
    fn update_state(&mut self, event: &Durable, was: Open) {
        self.over = self.interrupted
            || matches!(
                event,
                Durable::RunFinished { .. }
                    | Durable::TitleSet { between_runs: true, .. }
                    | Durable::StateChanged { between_runs: true, .. }
            );
        let started = |message, number| {
            Some(OpenIteration { message, number, thought_committed: false, message_committed: false })
        };
        match event {
            Durable::AttemptStarted { iteration, next_message_id, .. } => {
                self.iteration = started(*next_message_id, *iteration);
            }
            Durable::StepFinished { iteration, next_message_id } => {
                self.iteration = started(*next_message_id, iteration + 1);
            }
            Durable::RetryScheduled { .. }
            | Durable::RunWaiting { .. }
            | Durable::HandedOver { .. }
            | Durable::RunFinished { .. } => self.iteration = None,
            Durable::Thought { .. } | Durable::ToolCalled { .. } => {
                if let Some(iteration) = &mut self.iteration {
                    iteration.thought_committed = true;
                }
            }
            Durable::MessageSent { message_id } => {
                if let Some(iteration) = &mut self.iteration {
                    iteration.thought_committed = true;
                    iteration.message_committed |=
                        iteration.message == *message_id || matches!(was, Open::Text(_));
                }
            }
            Durable::RunQueued {}
            | Durable::MessagePosted { .. }
            | Durable::ToolReturned { .. }
            | Durable::RateLimited { .. }
            | Durable::ModelFallback { .. }
            | Durable::TeamRouted { .. }
            | Durable::SessionArchived { .. }
            | Durable::PlanCreated { .. }
            | Durable::PlanProgress { .. }
            | Durable::PlanChanged { .. }
            | Durable::PlanEnded { .. }
            | Durable::PlanStepStarted { .. }
            | Durable::PlanStepFinished { .. }
            | Durable::PlanStepFailed { .. }
            | Durable::ContextCompressed { .. }
            | Durable::ContextShifted { .. }
            | Durable::Analysed { .. }
            | Durable::TitleSet { .. }
            | Durable::StateChanged { .. }
            | Durable::TaskStarted { .. }
            | Durable::TaskEnded { .. }
            | Durable::QuestionAsked(_)
            | Durable::QuestionClosed(_)
            | Durable::ErrorShown { .. } => {}
        }
    }

    fn gap(&mut self) -> DeltaOutcome {
        let ask = self.dropped.is_multiple_of(ASK_EVERY);
        self.dropped += 1;
        if ask { DeltaOutcome::Gap } else { DeltaOutcome::Handled }
    }

    /// [`DeltaOutcome::Behind`] once per message: a late delta of an ended run must not make every stream read Postgres
    /// repeatedly.
    fn read_once_for(&mut self, message: MessageId) -> DeltaOutcome {
        let new = self.read_for != Some(message);
        self.read_for = Some(message);
        if new { DeltaOutcome::Behind } else { DeltaOutcome::Handled }
    }
}

fn snapshot_of(timestamp: Timestamp, messages: &[SnapshotMessage]) -> Event<'_> {
    let metadata = Some(SnapshotMetadata::with_errors_only());
    Event::MessagesSnapshot { timestamp, messages: messages.into(), metadata }
}

/// Puts the state behind each start of a run.
fn add_states<'a>(frames: &mut Vec<Event<'a>>, state: &'a Value) {
    // From the end, so that the places of those before stay the same.
    for nth in (0..frames.len()).rev() {
        if let Event::RunStarted { timestamp, .. } = frames[nth] {
            let snapshot = Cow::Borrowed(state);
            frames.insert(nth + 1, Event::StateSnapshot { timestamp, snapshot });
        }
    }
}

/// What a durable event does to the open text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Leaves it open or does not concern it.
    Pass,
    /// Nothing is sent: the client has all of the event already.
    Skip,
    /// Completes it: the rest and the end are sent.
    Complete,
    /// Ends it with a text that differs from what was sent: a snapshot replaces it.
    Replace,
    /// The text will not be completed: it is closed, and a snapshot removes it.
    Void,
}

impl Cursor {
    fn effect(&self, event: &Committed) -> Effect {
        let message = self.iteration.map(|iteration| iteration.message);
        let ends = |chars: u32, text: &str| {
            let has_them = chars == 0 || text.chars().nth(chars as usize - 1).is_some();
            if has_them { Effect::Complete } else { Effect::Replace }
        };
        match (self.at.open, &event.event) {
            (Open::Nothing, _) => Effect::Pass,
            (_, event) if event.is_transparent() => Effect::Pass,
            (Open::Reasoning(chars), Durable::Thought { text, .. }) => match ends(chars, text) {
                // Snapshots have no reasoning, so the reasoning that was sent cannot be replaced.
                Effect::Replace => Effect::Complete,
                effect => effect,
            },
            // The text was none of the message, and is shown as reasoning, unless that has begun and ended before.
            (Open::Text(_), Durable::Thought { withdrawn_at: Some(0), .. }) => Effect::Void,
            (Open::Text(_), Durable::Thought { withdrawn_at: Some(_), .. }) => Effect::Replace,
            (Open::Thought | Open::Text(_), Durable::Thought { .. }) => Effect::Skip,
            (Open::Thought, _) => Effect::Pass,
            // Tools may run before the message of the same model call is committed.
            (Open::Text(_), Durable::ToolCalled { .. } | Durable::ToolReturned { .. }) => Effect::Pass,
            (Open::Text(chars), Durable::MessageSent { message_id }) if Some(*message_id) == message => {
                ends(chars, event.body.as_ref().map_or("", |body| &body.content))
            }
            _ => Effect::Void,
        }
    }

    fn open_after(&self, effect: Effect, event: &Durable) -> Open {
        let passes = match event {
            Durable::ToolCalled { .. } | Durable::ToolReturned { .. } => true,
            event => event.is_transparent(),
        };
        match (effect, self.at.open) {
            (Effect::Pass, open) if passes => open,
            (Effect::Skip, Open::Text(chars)) => Open::Text(chars),
            _ => Open::Nothing,
        }
    }
}

/// The end of a run that waits with `event` for answers to `questions`; `None` if it waits for something else.
fn interrupted_end<'a>(
    thread: &'a str,
    event: &Committed,
    questions: &'a [NewQuestion],
) -> Option<Event<'a>> {
    if questions.is_empty() {
        return None;
    }
    Some(Event::RunFinished {
        timestamp: Some(event.at.timestamp_millis()),
        thread_id: thread.into(),
        run_id: event.run_id,
        result: render::bare_result(RunStatus::Waiting),
        outcome: Outcome::Interrupt { interrupts: questions.iter().map(Into::into).collect() },
        usage: None,
    })
}

/// Puts the start of the run before the frames of `event`, the first one after the run had waited.
fn start_again<'a>(frames: &mut Vec<Event<'a>>, thread: &'a str, event: &Committed) {
    if frames.is_empty() || matches!(frames.first(), Some(Event::RunStarted { .. })) {
        return;
    }
    let start = Event::RunStarted {
        timestamp: Some(event.at.timestamp_millis()),
        thread_id: thread.into(),
        run_id: event.run_id,
        protocol_version: PROTOCOL_VERSION.into(),
    };
    frames.insert(0, start);
}

#[cfg(test)]
pub(crate) mod tests;
