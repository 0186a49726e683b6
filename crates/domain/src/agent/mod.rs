//! [`AgentRun`]: the agent loop (ReAct) as a state machine without I/O.
//!
//! The driver calls [`AgentRun::next`], does what it returns, and passes the result to one of the `on_…` methods. Each
//! of them returns the history entry to commit. In whatever order answers, results, crashes and new messages occur,
//! every prefix of those entries passes [`crate::history::validate`].
//!
//! ```text
//! next() = CallModel        → call the model → on_model(turn)      → commit the entry
//! next() = CallTools(calls) → call the tools → on_tools(responses) → commit the entry
//! next() = Done(status)     → end the run, or on_messages(texts) if new messages have arrived
//! ```

pub mod limits;
pub mod partial_json;
pub mod token_budget;

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use limits::Limits;
use serde::{Deserialize, Serialize};

use crate::history::{Block, Entry, Role};
use crate::inner_call::inner_call;
use crate::model::{ModelAnswer, StopReason};
use crate::overseer::{self, Finding, Measured, Streak, Trace, note};
use crate::run::RunStatus;
use crate::tool_call::{ToolCall, ToolResponse};

/// The tool whose argument `content` is the agent's message to its user.
pub const SEND_MESSAGE: &str = "send_message";

/// Which text of the agent the user reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The argument of `send_message`; other text counts as thinking.
    SendMessage,
    /// The model's text.
    Text,
}

/// The settings of an agent type that decide how a run proceeds and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPolicy {
    /// Whether the agent talks with a user. Such a run stops after a successful `send_message`, once the model has read
    /// every failed call beside it.
    pub conversational: bool,
    /// True once a user message is part of the run; a run started by a [`Mode`](crate::mode::Mode) may end
    /// silently.
    pub expects_reply: bool,
    /// Which text the user reads.
    pub reply: Reply,
    /// The limits that stop the run.
    pub limits: Limits,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Ready,
    Tools(Vec<ToolCall>),
    Ended(RunStatus),
}

/// One run: its history, and what it must do next.
#[derive(Debug, Clone)]
pub struct AgentRun {
    policy: RunPolicy,
    history: Vec<Entry>,
    phase: Phase,
    /// Model calls so far.
    iterations: u32,
    /// Those before the last message that it has read.
    before_message: u32,
    /// Entries of the open session.
    history_entries: usize,
    /// When this attempt started.
    started_at: DateTime<Utc>,
    streak: Streak,
    /// What the overseer looks at, and its settings.
    trace: Trace,
    overseer: overseer::Settings,
    /// What the model is to be warned of with the next results.
    warning: Option<String>,
    message_sent: bool,
    /// Whether a call beside the agent's message failed, and the model has not read that yet.
    failure_unread: bool,
    was_declined: bool,
    used_ids: HashSet<String>,
    own_entries: usize,
}

impl AgentRun {
    /// Starts or resumes a run on `history`, the committed entries of the open session. The last `of_this_run` entries
    /// were written by this run: more than 0 when it is taken over from another worker.
    pub fn resume(policy: RunPolicy, history: Vec<Entry>, of_this_run: usize, now: DateTime<Utc>) -> Self {
        let own = history.len().saturating_sub(of_this_run);
        let mut run = Self {
            policy,
            phase: Phase::Ready,
            iterations: 0,
            before_message: 0,
            history_entries: history.len(),
            started_at: now,
            streak: Streak::default(),
            trace: Trace::default(),
            overseer: overseer::Settings::default(),
            warning: None,
            message_sent: false,
            failure_unread: false,
            was_declined: false,
            used_ids: HashSet::new(),
            own_entries: of_this_run,
            history: Vec::new(),
        };
        let mut texts = 0;
        for (at, entry) in history.iter().enumerate().skip(own) {
            run.replay(entry, at.checked_sub(1).map(|before| &history[before]));
            texts += user_texts(entry);
        }
        // The first text started the run. Any further text is a user message, which expects a reply.
        run.policy.expects_reply |= texts > 1;
        run.phase = phase_after(history.last());
        run.history = history;
        run
    }

    /// The provider has had the attempt wait for so long, which its time limit does not count.
    pub fn has_waited(&mut self, time: std::time::Duration) {
        self.started_at += TimeDelta::from_std(time).unwrap_or_default();
    }

    /// Counts an entry that was committed before this attempt; `asked` is the entry before it.
    fn replay(&mut self, entry: &Entry, asked: Option<&Entry>) {
        match entry.role {
            Role::Assistant => {
                self.iterations += 1;
                self.failure_unread = false;
                self.used_ids.extend(entry.tool_uses().map(str::to_owned));
                self.streak.add(&tool_names(entry));
                self.trace.on_answer(entry);
            }
            Role::User => {
                self.trace.on_results(entry);
                for block in &entry.content {
                    match block {
                        Block::Text { .. } => {
                            self.message_sent = false;
                            self.forget_streaks();
                        }
                        Block::ToolResult { tool_use_id, is_error, .. } => {
                            let is_message = asked.is_some_and(|asked| is_send_message(asked, tool_use_id));
                            self.message_sent |= is_message && !is_error;
                            self.failure_unread |= !is_message && *is_error;
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Replaces the first `entries` entries of the history by `summary`: from now on the model is sent the summary.
    /// Counters and used call ids of the run's own entries among them are kept.
    pub fn replace_prefix_with_summary(&mut self, entries: usize, summary: Entry) {
        self.history.splice(..entries.min(self.history.len()), [summary]);
    }

    /// How many entries of the history this run wrote, including those replaced by a summary.
    pub fn own_entries(&self) -> usize {
        self.own_entries
    }

    /// What this run wrote, as far as no summary has replaced it.
    pub fn own_history(&self) -> &[Entry] {
        &self.history[self.history.len().saturating_sub(self.own_entries)..]
    }

    /// The history so far, including entries that are about to be committed.
    pub fn history(&self) -> &[Entry] {
        &self.history
    }

    /// Model calls so far.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Tool calls that the model has asked for so far.
    pub fn tool_calls(&self) -> usize {
        self.used_ids.len()
    }

    /// The policy of this run.
    pub fn policy(&self) -> &RunPolicy {
        &self.policy
    }

    /// Whether a user is waiting for an answer of this run.
    pub fn expects_reply(&self) -> bool {
        self.policy.conversational && self.policy.expects_reply
    }

    /// Whether the text of a turn without tool calls is the agent's message, however it replies.
    pub fn is_answered_by_text(&self) -> bool {
        self.expects_reply() && !self.message_sent
    }

    /// Whether the agent has sent a message since the user last wrote.
    pub fn message_sent(&self) -> bool {
        self.message_sent
    }

    /// Whether a content filter or the model itself refused the last answer.
    pub fn was_declined(&self) -> bool {
        self.was_declined
    }

    /// What the driver must do now.
    pub fn next(&self, now: DateTime<Utc>) -> Next {
        match &self.phase {
            Phase::Tools(calls) => Next::CallTools(calls.clone()),
            Phase::Ended(status) => Next::Done(*status),
            // A message beside a call that failed may say that the call succeeded.
            Phase::Ready if self.policy.conversational && self.message_sent && !self.failure_unread => {
                Next::Done(RunStatus::MessageSent)
            }
            Phase::Ready => self.before_model_call(now).map_or(Next::CallModel, Next::Done),
        }
    }

    /// Takes the model's answer and returns the entry to commit.
    ///
    /// # Errors
    /// [`EmptyAnswer`] when the answer has neither text nor tool calls although a user is waiting; the state is
    /// unchanged.
    pub fn on_model(&mut self, turn: ModelAnswer) -> Result<TurnOutcome, EmptyAnswer> {
        let ModelAnswer { mut content, malformed, stop, .. } = turn;
        content.retain(|block| !matches!(block, Block::Text { text, .. } if text.trim().is_empty()));
        let calls = self.name_calls(&mut content, malformed);
        let has_text = content.iter().any(|block| matches!(block, Block::Text { .. }));
        let was_declined = calls.is_empty() && stop == StopReason::Refusal;
        if calls.is_empty() && !has_text {
            ensure!(!self.expects_reply() || self.message_sent || was_declined, EmptyAnswer);
            self.was_declined = was_declined;
            self.iterations += 1;
            self.phase = Phase::Ended(RunStatus::Completed);
            return Ok(TurnOutcome { entry: None, calls, reply: None });
        }
        self.was_declined = was_declined;
        self.failure_unread = false;
        let entry = Entry::assistant(content);
        self.iterations += 1;
        self.streak.add(&calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>());
        self.trace.on_answer(&entry);
        self.phase = if !calls.is_empty() {
            Phase::Tools(calls.clone())
        } else if stop == StopReason::MaxTokens {
            Phase::Ended(RunStatus::MaxTokens)
        } else {
            Phase::Ended(RunStatus::Completed)
        };
        self.push(entry.clone());
        let reply = self.reply(&entry, calls.is_empty());
        Ok(TurnOutcome { entry: Some(entry), calls, reply })
    }

    /// Takes one response for each call of [`Next::CallTools`], in any order; a missing one becomes "outcome unknown".
    /// Returns the entry to commit; `None` when no tool call is open.
    pub fn on_tools(&mut self, mut responses: Vec<(String, ToolResponse)>) -> Option<Entry> {
        let Phase::Tools(calls) = &self.phase else { return None };
        let mut content = Vec::with_capacity(calls.len());
        for call in calls {
            let response = responses
                .iter()
                .position(|(id, _)| *id == call.id)
                .map_or_else(ToolResponse::outcome_unknown, |at| responses.swap_remove(at).1);
            let is_message = call.name == SEND_MESSAGE;
            self.message_sent |= is_message && response.is_success();
            self.failure_unread |= !is_message && !response.is_success();
            content.push(Block::ToolResult {
                tool_use_id: call.id.clone(),
                content: response.text().to_owned(),
                is_error: !response.is_success(),
                code: response.code(),
            });
        }
        let mut entry = Entry::user(content);
        self.oversee(&mut entry);
        self.phase = Phase::Ready;
        self.push(entry.clone());
        Some(entry)
    }

    /// Takes new user messages. Returns the entry to commit; `None` when `texts` is empty or tool calls are open (their
    /// results must come first: call this again after [`AgentRun::on_tools`]).
    pub fn on_messages(&mut self, texts: Vec<String>) -> Option<Entry> {
        if texts.is_empty() || matches!(self.phase, Phase::Tools(_)) {
            return None;
        }
        let entry = Entry::user(texts.into_iter().map(Block::text).collect());
        self.forget_streaks();
        self.message_sent = false;
        self.was_declined = false;
        self.policy.expects_reply = true;
        self.phase = Phase::Ready;
        self.push(entry.clone());
        Some(entry)
    }

    /// Adds what Houston itself has written for the model: an entry that answers no call and is no message of a user.
    pub fn on_frames(&mut self, texts: Vec<String>) {
        self.push(Entry::user(texts.into_iter().map(Block::text).collect()));
    }

    /// Adds what the model must mend in its answer, with which the run would have ended.
    pub fn on_mismatch(&mut self, text: String) {
        self.phase = Phase::Ready;
        self.push(Entry::user(vec![Block::text(text)]));
    }

    /// Ends the run from outside (cancelled, failed). Returns the entry that closes open tool calls, if there are any:
    /// calls listed in `responses` get their response, the others get `reason`.
    pub fn on_end(
        &mut self,
        status: RunStatus,
        mut responses: Vec<(String, ToolResponse)>,
        reason: &ToolResponse,
    ) -> Option<Entry> {
        let entry = match &self.phase {
            Phase::Tools(calls) => {
                for call in calls {
                    if !responses.iter().any(|(id, _)| *id == call.id) {
                        responses.push((call.id.clone(), reason.clone()));
                    }
                }
                self.on_tools(responses)
            }
            _ => None,
        };
        self.phase = Phase::Ended(status);
        entry
    }

    fn push(&mut self, entry: Entry) {
        self.history.push(entry);
        self.own_entries += 1;
        self.history_entries += 1;
    }

    /// Gives every tool call an id that is unique within the run: some providers send no ids, or repeat them in every
    /// turn.
    fn name_calls(&mut self, content: &mut [Block], mut malformed: Vec<(String, String)>) -> Vec<ToolCall> {
        let mut calls = Vec::new();
        let iteration = self.iterations + 1;
        for block in content {
            let Block::ToolUse { id, name, input, .. } = block else { continue };
            let broken = malformed.iter().position(|(of, _)| of == id).map(|at| malformed.remove(at).1);
            let mut number = calls.len() + 1;
            while id.is_empty() || self.used_ids.contains(id.as_str()) {
                *id = format!("call_{iteration}_{number}");
                number += 1;
            }
            self.used_ids.insert(id.clone());
            calls.push(ToolCall::of_block(id, name, input, broken));
        }
        calls
    }

    /// The text of `entry` that is the agent's message to its user, if any. `natural`: the turn asks for no
    /// tools.
    fn reply(&self, entry: &Entry, natural: bool) -> Option<String> {
        let is_reply = match self.policy.reply {
            // A task has no user; its final text becomes a message of its thread.
            Reply::Text => self.expects_reply() || (natural && !self.policy.conversational),
            Reply::SendMessage => natural && self.is_answered_by_text(),
        };
        let text = |block: &Block| match block {
            Block::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        let texts: Vec<String> = entry.content.iter().filter_map(text).filter(|_| is_reply).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

impl AgentRun {
    /// Lets the overseer look at the run, with these settings.
    #[must_use]
    pub fn overseen(self, settings: overseer::Settings) -> Self {
        Self { overseer: settings, ..self }
    }

    /// What the overseer has found, if anything.
    pub fn finding(&self, measured: &Measured) -> Option<Finding> {
        overseer::judge(&self.overseer, &self.trace, measured)
    }

    /// What the overseer looks at.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A person let the run go on: the count of a signal starts anew ([`Trace::start_anew`]), and so does the one that
    /// `limits.max_same_tool` ends, which the same calls raise.
    pub fn start_anew(&mut self, signal: overseer::Signal, at: u64) {
        self.trace.start_anew(signal, at);
        if signal.is_of_turns() {
            let since = self.trace.answers().saturating_sub(at);
            self.streak.start_anew(u32::try_from(since).unwrap_or(u32::MAX));
        }
    }

    /// A message was read: what repeats from now on is counted anew.
    fn forget_streaks(&mut self) {
        self.streak = Streak::default();
        self.before_message = self.iterations;
        self.trace.on_message();
    }

    /// The status with which a stop rule ends the run now; `None` when the next model call is allowed.
    fn before_model_call(&self, now: DateTime<Utc>) -> Option<RunStatus> {
        let limits = &self.policy.limits;
        let duration = i64::try_from(limits.max_duration_s).map_or(TimeDelta::MAX, TimeDelta::seconds);
        if self.iterations - self.before_message >= limits.max_iterations {
            Some(RunStatus::MaxIterations)
        } else if self.streak.turns >= limits.max_same_tool {
            Some(RunStatus::SameTool)
        } else if now - self.started_at >= duration {
            Some(RunStatus::MaxDuration)
        } else if limits.max_history_entries > 0 && self.history_entries as u64 >= limits.max_history_entries
        {
            Some(RunStatus::HistoryFull)
        } else {
            None
        }
    }

    /// Takes the results of a turn, and adds to them what the model is to be warned of.
    fn oversee(&mut self, results: &mut Entry) {
        self.trace.on_results(results);
        let warnings = overseer::warnings(&self.overseer, &self.trace);
        let mut texts = note::texts(&warnings);
        texts.extend(self.warning.take());
        if let Some(Block::ToolResult { content, .. }) = results.content.last_mut() {
            content.push_str(&note::of(&texts));
        }
    }

    /// Warns the model of something that does not follow from its turns, with the results of its next turn. A text that the
    /// run has in its history is not repeated.
    pub fn warn(&mut self, text: String) {
        let is_there =
            |block: &Block| matches!(block, Block::ToolResult { content, .. } if note::has(content, &text));
        if !self.own_history().iter().flat_map(|entry| &entry.content).any(is_there) {
            self.warning = Some(text);
        }
    }
}

/// Number of text blocks sent to the agent in this entry.
fn user_texts(entry: &Entry) -> usize {
    let is_text = |block: &&Block| matches!(block, Block::Text { .. });
    if entry.role == Role::User { entry.content.iter().filter(is_text).count() } else { 0 }
}

fn tool_names(entry: &Entry) -> Vec<&str> {
    entry
        .content
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { name, input, .. } => Some(inner_call(name, input).0),
            _ => None,
        })
        .collect()
}

/// Whether the call `id` of `entry` is a call of [`SEND_MESSAGE`].
fn is_send_message(entry: &Entry, id: &str) -> bool {
    entry.content.iter().any(|block| match block {
        Block::ToolUse { id: call, name, input, .. } => {
            call == id && inner_call(name, input).0 == SEND_MESSAGE
        }
        _ => false,
    })
}

/// The phase of a run whose last committed entry is `last`.
fn phase_after(last: Option<&Entry>) -> Phase {
    match last {
        Some(entry) if entry.role == Role::Assistant => {
            let calls: Vec<ToolCall> = entry.content.iter().filter_map(Block::call).collect();
            if calls.is_empty() { Phase::Ended(RunStatus::Completed) } else { Phase::Tools(calls) }
        }
        _ => Phase::Ready,
    }
}

/// What the driver must do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Call the model with the history.
    CallModel,
    /// Execute these calls and pass one response for each to [`on_tools`](AgentRun::on_tools).
    CallTools(Vec<ToolCall>),
    /// Nothing: the run ends with this status, unless new messages arrive first.
    Done(RunStatus),
}

/// What one turn of the model means for the run.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    /// The entry to commit; `None` when the model answered with neither text nor tool calls.
    pub entry: Option<Entry>,
    /// The tool calls the model asked for, in order.
    pub calls: Vec<ToolCall>,
    /// Text that is the agent's message to its user.
    pub reply: Option<String>,
}

/// The model's answer was empty although a user is waiting for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model returned an empty answer")]
pub struct EmptyAnswer;

#[cfg(test)]
mod tests;
