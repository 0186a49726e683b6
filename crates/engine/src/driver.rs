//! [`Driver`]: what decides the next step of a run, instead of the model.
//!
//! A kind whose agent type says `driver = "<name>"` is driven by the driver that was registered under that name. Claim,
//! lock, fence, retries, cancel, hand-over and streams are the same for all runs: a driver only decides.
//!
//! # Invariants
//! - A driver is asked again after each committed step, and at the beginning of each attempt. What it did not remember
//!   in its state, and cannot read from the history or the questions, is forgotten.
//! - Everything a decision says is committed in one step, or not at all.
//! - While a run waits, it has neither a lock nor one of its user's slots. Whatever it may wait for wakes it: a message, a
//!   closed question, a request to cancel, its time.
//! - Open tool calls are finished before the driver is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use houston_domain::agent::Next;
use houston_domain::history::Entry;
use houston_domain::id::{AgentableId, Ids, QuestionId, RunId, TenantId, UserId};
use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
use serde_json::Value;

/// Decides what a run does next.
///
/// ```
/// use futures_util::FutureExt as _;
/// use futures_util::future::BoxFuture;
/// use houston_domain::question::QuestionKind;
/// use houston_engine::driver::{Decision, DrivenRun, Driver, Then};
///
/// /// Asks for a city, and repeats it.
/// struct AsksForCity;
///
/// impl Driver for AsksForCity {
///     fn next<'a>(&'a self, run: DrivenRun<'a>) -> BoxFuture<'a, Decision> {
///         let decision = match run.questions {
///             [] => Decision::ask(run.question(QuestionKind::Input, "Which city?")).then(Then::Wait { until: None }),
///             [city, ..] => match city.outcome() {
///                 Some(name) => Decision::say(format!("{name} it is.")).then(Then::Finish),
///                 None => Decision::from(Then::Wait { until: None }),
///             },
///         };
///         async move { decision }.boxed()
///     }
/// }
/// ```
pub trait Driver: Send + Sync {
    /// The next step of the run. The future is dropped when the run is cancelled or its worker stops; then nothing of it is
    /// committed.
    fn next<'a>(&'a self, run: DrivenRun<'a>) -> BoxFuture<'a, Decision>;
}

/// What a driver decides from.
#[derive(Clone, Copy)]
pub struct DrivenRun<'a> {
    /// The tenant.
    pub tenant: TenantId,
    /// The user the agent works for.
    pub user: UserId,
    /// The agentable.
    pub agentable: AgentableId,
    /// The run.
    pub run: RunId,
    /// The number of this attempt, from 1. It rises with each claim: after a wait, a crash, a hand-over.
    pub attempt: i32,
    /// The time, by the database's clock.
    pub now: DateTime<Utc>,
    /// The open session, oldest entry first. User messages that have arrived are at its end.
    pub history: &'a [Entry],
    /// How many of its last entries belong to this run; more than there are when the beginning was summarised.
    pub own_entries: usize,
    /// The questions of this run, oldest first.
    pub questions: &'a [Question],
    /// What an earlier decision of this run remembered last.
    pub state: Option<&'a Value>,
    /// What the model's loop would do next: see [`Then::Agent`].
    pub agent: &'a Next,
    pub(crate) ids: &'a Ids,
}

impl DrivenRun<'_> {
    /// A new question of this run, without schema, default value and expiry.
    pub fn question(&self, kind: QuestionKind, text: &str) -> NewQuestion {
        NewQuestion::new(self.ids.beside(self.agentable), kind, text.to_owned())
    }

    /// The ids of the open questions.
    pub(crate) fn open_questions(&self) -> impl Iterator<Item = QuestionId> {
        self.questions.iter().filter(|of| of.state == QuestionState::Open).map(|of| of.asked.id)
    }
}

/// The next step of a run. All of it is committed at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Messages of the agent, for the thread.
    pub messages: Vec<String>,
    /// Questions for people. Subjects that begin with `houston:` are for Houston's own, which a driver does not see.
    pub questions: Vec<NewQuestion>,
    /// Open questions of this run whose answers are not wanted any more.
    pub superseded: Vec<QuestionId>,
    /// What the driver remembers from now on; `None`: what it remembered before.
    pub state: Option<Value>,
    /// What happens then.
    pub then: Then,
}

/// What happens after, or with, what a [`Decision`] writes.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    /// The driver is asked again.
    Continue,
    /// The run waits for a message, for one of its open questions, or until a time. If a message or an answer has arrived
    /// meanwhile, the driver is asked again at once.
    Wait {
        /// When it goes on by itself; `None`: never.
        until: Option<DateTime<Utc>>,
    },
    /// Calls these tools, by name and with these arguments, as if the model had asked for them: with intents, and with results
    /// in the history. The tools must be among those of the agent.
    CallTools(Vec<(String, Value)>),
    /// Does what the model's loop would do next ([`DrivenRun::agent`]): calls the model and the tools that it asks for. If
    /// the loop has nothing left to do, the run ends with its status.
    Agent,
    /// Ends the run as completed, unless a message has arrived.
    Finish,
    /// Ends the run as failed.
    Fail {
        /// A stable code, as in `NO_SEATS_LEFT`.
        code: String,
        /// Why, for operators.
        message: String,
    },
}

impl From<Then> for Decision {
    fn from(then: Then) -> Self {
        Self { messages: Vec::new(), questions: Vec::new(), superseded: Vec::new(), state: None, then }
    }
}

impl Decision {
    /// Writes a message; the driver is asked again.
    pub fn say(message: impl Into<String>) -> Self {
        Self { messages: vec![message.into()], ..Self::from(Then::Continue) }
    }

    /// Asks a question; the driver is asked again.
    pub fn ask(question: NewQuestion) -> Self {
        Self { questions: vec![question], ..Self::from(Then::Continue) }
    }

    /// The same, remembering `state`.
    #[must_use]
    pub fn remember(self, state: Value) -> Self {
        Self { state: Some(state), ..self }
    }

    /// The same with another ending.
    #[must_use]
    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

impl std::fmt::Debug for dyn Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

/// The drivers of a process, by name.
pub type Drivers = BTreeMap<String, Arc<dyn Driver>>;
