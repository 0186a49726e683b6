//! A transaction of the storage in memory.

use houston_domain::frame::FrameMark;
use houston_domain::history::{Block, Entry};
use houston_domain::step::Step;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::Result;
use houston_store::compression::NewCompression;
use houston_store::record::Owner;
use houston_store::step::Commit;
use houston_tools::Record;

use super::memory_storage::MemoryStorage;
use crate::run::storage::{RecordOf, RunTransaction};

/// A transaction of [`MemoryStorage`].
pub(crate) struct MemoryTransaction {
    pub(super) storage: MemoryStorage,
    pub(super) records: Vec<String>,
}

impl MemoryStorage {
    /// For the next records, whether they are refused.
    pub(crate) fn refuse_records(&self, refused: impl IntoIterator<Item = bool>) {
        self.rows().refusals.extend(refused);
    }
}

impl RunTransaction for MemoryTransaction {
    fn set_traceparent(&mut self, _: Option<&str>) {}

    async fn record(&mut self, _: RecordOf, record: &dyn Record) -> Result<ToolResponse> {
        if self.storage.rows().refusals.pop_front().unwrap_or(false) {
            return Ok(ToolResponse::failure(ToolErrorCode::RateLimited, "too many"));
        }
        self.records.push(format!("{record:?}"));
        Ok(ToolResponse::success("Written."))
    }

    async fn preview(&mut self, _: RecordOf, record: &dyn Record) -> Result<Option<String>> {
        Ok(Some(format!("{record:?}")))
    }

    async fn compress(&mut self, _: Owner, _: &NewCompression) -> Result<()> {
        Ok(())
    }

    async fn commit(self, step: &Step) -> Result<Commit> {
        self.storage.try_commit(step, &self.records)
    }
}

/// The entry of the frames that a step adds.
pub(super) fn framed(step: &Step) -> Option<Entry> {
    let mark = FrameMark::new("1234");
    let blocks: Vec<Block> =
        step.frames.iter().map(|frame| Block::text(frame.clone().signed(&mark))).collect();
    (!blocks.is_empty()).then(|| Entry::user(blocks))
}
