//! A response by its id: whose it is, what it is, and where its stream goes on.

use std::sync::Arc;

use houston_domain::event::{Committed, Event as Durable};
use houston_domain::id::shard;
use houston_store::run::Run;

use super::id::ResponseId;
use super::number::Place;
use super::replay::{Next, Replay};
use super::stream::ResponseEvents;
use super::translate::Translator;
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::events::cursor::Needed;
use crate::events::position::Position;
use crate::events::stream::PAGE;
use crate::state::App;

const NOT_FOUND: ApiError = ApiError::NotFound { what: "response" };

/// A response of the caller's tenant. Whose it is besides was checked by the route, or is by its thread.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    pub(super) path: AgentablePath,
    pub(super) run: Run,
    id: ResponseId,
}

impl Found {
    /// Reads the run of a response.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], or the store's errors.
    pub(super) async fn new(app: &Arc<App>, caller: Caller, id: ResponseId) -> Result<Self, ApiError> {
        let app = app.with_shard(shard(id.run));
        let run = match app.store(caller).run(id.run).await {
            Err(houston_store::Error::NotFound { .. }) => return Err(NOT_FOUND),
            run => run?,
        };
        let path =
            AgentablePath::of_kind(&app.state.agent_types, &run.kind, run.agentable).ok_or(NOT_FOUND)?;
        Ok(Self { app, caller, path, run, id })
    }

    /// The position before the first event of the run.
    fn base(&self) -> i64 {
        self.run.first_seq - 1
    }

    /// The response as it is.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the run has not waited there, or the store's errors.
    pub(super) async fn read(&self) -> Result<Translator, ApiError> {
        Ok(self.replay(None).await?.translator)
    }

    /// The stream after the event with this number, and where it goes on.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) async fn resume(&self, number: u64) -> Result<(ResponseEvents, Position), ApiError> {
        let mut place = Place::of(number);
        if place.at.seq <= self.id.after {
            place = Place { at: Position::after(self.id.after), follow: 0, voided: 0 };
        }
        let events = self.replay(Some((number, place))).await?;
        Ok((events, Position { seq: place.at.seq + self.base(), ..place.at }))
    }

    /// Reads the events of the response: all of them, or those that the client has.
    async fn replay(&self, has: Option<(u64, Place)>) -> Result<ResponseEvents, ApiError> {
        let store = || self.app.store(self.caller);
        let (thread, mut seq) = (self.path.public_id(), self.base());
        let mut replay = Replay::new((&thread, &self.path.kind), self.id, seq, has);
        loop {
            let page = store().events_after(self.path.id, seq, PAGE).await?;
            for (nth, event) in page.iter().enumerate() {
                let mut needed = Needed::default();
                if replay.needs_questions(event) {
                    needed.questions = store().questions_at_wait(self.path.id, event.seq).await?;
                }
                match replay.step(&page[nth..], &needed) {
                    Next::More => {}
                    Next::Missing => return Err(NOT_FOUND),
                    Next::Over => return replay.finish().ok_or(NOT_FOUND),
                    Next::Reached => {
                        let iteration = store().open_iteration_at(self.path.id, event.seq - 1).await?;
                        return replay.up_to(event, iteration, &needed).ok_or(NOT_FOUND);
                    }
                }
                seq = event.seq;
            }
            if i64::try_from(page.len()).is_ok_and(|read| read < PAGE) {
                return replay.finish().ok_or(NOT_FOUND);
            }
        }
    }

    /// The messages that were posted to the response.
    ///
    /// # Errors
    /// The store's errors.
    pub(super) async fn input(&self) -> Result<Vec<Committed>, ApiError> {
        let from = self.base() + self.id.after;
        let events = self.app.store(self.caller).events_after(self.path.id, from, PAGE).await?;
        let of_run = events.into_iter().take_while(|event| event.run_id == self.run.id);
        Ok(of_run.filter(|event| matches!(event.event, Durable::MessagePosted { .. })).collect())
    }
}
