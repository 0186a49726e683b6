//! Ending a run at the request of the health monitor, with the same steps as any other end.

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::Event;
use houston_domain::id::MessageId;
use houston_domain::intervention::Intervention;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, RunTransition};
use houston_domain::tool_call::ToolResponse;

use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::failure::show_error;
use crate::run_driver::RunDriver;

impl RunDriver<'_> {
    /// Ends the run as failed for the monitor's reason, closes its open calls, and adds an error message to the thread.
    pub(crate) async fn intervene(
        &mut self,
        intervention: Intervention,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<DriveOutcome, Interrupted> {
        let status = RunStatus::Failed;
        tracing::warn!(run = %self.claimed.run, reason = intervention.as_str(), "the health monitor ends a run");
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        self.close_calls(&mut step, status, known, cells);
        let (code, notice) = (intervention.code(), intervention.notice());
        show_error(&mut step, &ErrorMessage::permanent(self.claimed.run, code, notice));
        let (code, notice) = (Some(code.to_owned()), Some(notice.to_owned()));
        step.transition = RunTransition::Terminate {
            event: Event::RunFinished {
                status,
                iteration: Some(self.open_step),
                usage: self.total_usage(),
                message: notice.clone(),
                code: code.clone(),
            },
            ending: Ending {
                status,
                next_run: self.engine.ids.next(),
                error_code: code,
                error_message: notice,
            },
        };
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }
}
