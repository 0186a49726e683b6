//! Check-ins: the agent wakes itself at a time it chooses.

use houston_domain::check_in::{CheckInRequest, MAX_REASON_BYTES, Moment};
use houston_domain::id::CheckInId;
use houston_store::check_in::{CheckInRefusal, PendingCheckIn};

use super::prelude::*;

built_in! {
    ScheduleCheckIn: "schedule_check_in", Idempotent;
    ManageCheckIns: "manage_check_ins", Idempotent;
}

// The time is checked against the limits when it is written.
/// Wake yourself later, once, to look after something: give either `at` or `in_minutes`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleCheckIn {
    /// The user's local time, as 2026-11-23T09:00, or with an offset, as 2026-11-23T09:00:00Z.
    at: Option<String>,
    /// So many minutes from now.
    #[schemars(range(min = 1))]
    in_minutes: Option<u32>,
    /// What to do then. You will read it when you wake.
    reason: String,
}

impl ScheduleCheckIn {
    fn request(&self) -> Result<CheckInRequest> {
        let when = Moment::parse(self.at.as_deref(), self.in_minutes).map_err(invalid)?;
        text("reason", self.reason.as_str(), MAX_REASON_BYTES)?;
        Ok(CheckInRequest { when, reason: self.reason.clone() })
    }
}

impl Access for ScheduleCheckIn {
    fn check(&self, _: &CallContext) -> Result<()> {
        self.request().map(drop)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let set = tx.set_check_in(&self.request()?).await?.map_err(refused)?;
        let id = CheckInId(tx.ids.row);
        Ok(format!("Set {id} for {}.", set.local))
    }
}

fn refused(refusal: CheckInRefusal) -> Refusal {
    let (code, text) = match refusal {
        CheckInRefusal::Cancelled => {
            (ToolErrorCode::PermissionDenied, "this run is being cancelled: no check-in was set".to_owned())
        }
        CheckInRefusal::Archived => (
            ToolErrorCode::PermissionDenied,
            "this conversation is archived, only its user's messages wake it: no check-in was set".to_owned(),
        ),
        CheckInRefusal::Full { pending, most } => (
            ToolErrorCode::RateLimited,
            format!(
                "{pending} check-ins are set, and at most {most} are allowed: cancel one with {} first",
                ManageCheckIns::NAME
            ),
        ),
        CheckInRefusal::Invalid(invalid) => (ToolErrorCode::ValidationError, invalid.to_string()),
    };
    failed(code, text)
}

/// List the check-ins you have set, or cancel one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManageCheckIns {
    action: Action,
    /// Which one to cancel.
    #[schemars(with = "Option<String>")]
    id: Option<CheckInId>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Cancel,
}

impl ManageCheckIns {
    /// The one to cancel; `None`: they are listed.
    fn cancelled(&self) -> Result<Option<CheckInId>> {
        match (&self.action, self.id) {
            (Action::List, _) => Ok(None),
            (Action::Cancel, Some(id)) => Ok(Some(id)),
            (Action::Cancel, None) => {
                Err(invalid("`cancel` needs the `id` of a check-in; the action `list` returns them"))
            }
        }
    }
}

impl Access for ManageCheckIns {
    fn check(&self, _: &CallContext) -> Result<()> {
        self.cancelled().map(drop)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Some(id) = self.cancelled()? else {
            let line = |one: PendingCheckIn| format!("{} at {}: {}", one.id, one.local, one.reason);
            let lines: Vec<String> = tx.check_ins().await?.into_iter().map(line).collect();
            let none = "No check-in is set.".to_owned();
            return Ok(if lines.is_empty() { none } else { lines.join("\n") });
        };
        if tx.cancel_check_in(id).await? {
            return Ok(format!("Cancelled {id}."));
        }
        let text = format!("there is no {id}: {} with `list` lists those that are set", Self::NAME);
        Err(failed(ToolErrorCode::NotFound, text))
    }
}
