//! Model calls that their provider answers later: the run waits for the answer as it waits for people, and no worker holds it
//! meanwhile. Nothing is read of what its user writes until the answer has come, because the answer does not know it; and the answer
//! is read with what the client had offered when the call was made.

use std::ops::ControlFlow;
use std::time::Duration;

use houston_domain::submission::SubmittedCall;
use tokio::time::timeout;

use super::{Flow, RunDriver};
use crate::run::storage::RunStorage;
use crate::run::tool_runner::Held;

/// How long a run that ends waits for its provider to hear of it: an opinion.
const WITHDRAWING: Duration = Duration::from_secs(5);

impl<S: RunStorage> RunDriver<'_, S> {
    /// Waits for the answer of a call, which the provider has accepted now or before. `input_tokens`: those of its request.
    pub(super) async fn wait_for_submitted(&mut self, call: SubmittedCall, input_tokens: u64) -> Flow {
        let (run, agentable, now) = (self.journal.run(), self.journal.agentable(), self.journal.now());
        let submission = match self.model.take_submission() {
            Some(known) if known.call == call => *known,
            _ => {
                let of = (now, self.run.own_entries());
                let submission = self.model.submitted(call, of, input_tokens);
                self.journal.retrying(|storage| storage.keep_submission(run, &submission)).await?;
                submission
            }
        };
        if submission.is_overdue(now) {
            self.model.await_submitted(submission);
            self.withdraw_submitted().await;
            return self.ask_without_submitting();
        }
        let unread = self.journal.retrying(|storage| storage.unread(agentable)).await?.count;
        let held = Held::until(submission.look_at(now), unread);
        self.model.await_submitted(submission);
        let step = self.journal.next_step();
        self.await_answers(step, held, None).await
    }

    /// The provider will not answer what was submitted: the call is made as usual.
    pub(super) fn ask_without_submitting(&mut self) -> Flow {
        tracing::warn!(run = %self.journal.run(), "a submitted call gets no answer; asking as usual");
        self.model.hurry();
        Ok(ControlFlow::Continue(()))
    }

    /// The run ends, or goes on without the answer: the provider is told so, and what it was sent counts as used, since it may have
    /// answered.
    pub(super) async fn withdraw_submitted(&mut self) {
        let Some(submission) = self.model.take_submission() else { return };
        let models = self.setup.model.candidates();
        let asked = models.into_iter().find(|model| model.to_string() == submission.call.model);
        let asked = asked.unwrap_or(self.setup.model.description());
        self.journal.ledger.enter_lost(asked, submission.input_tokens);
        if timeout(WITHDRAWING, self.model.withdraw(&submission.call)).await.is_err() {
            tracing::warn!(call = submission.call.id, "a submitted call was not withdrawn in time");
        }
    }
}
