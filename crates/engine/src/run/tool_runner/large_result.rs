//! Large results: tool outputs too long for the history. They are stored separately, the history keeps a preview with the
//! id, and the tool `read_result` is offered from then on.

use houston_domain::step::{LargeResult, Step};
use houston_domain::tool_call::ToolResponse;
use houston_tools::builtin::{READ_RESULT, preview};

use super::{ToolRunner, cut};
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

impl ToolRunner {
    /// The response of the tool `tool` for events and history. A response longer than `inline_bytes` becomes a preview, and
    /// `step` stores the whole as a [`LargeResult`].
    pub(super) fn store_large_result<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        step: &mut Step,
        tool: &str,
        call: &str,
        response: ToolResponse,
    ) -> ToolResponse {
        let response = cut(journal, response);
        let limits = journal.services.config.context.results;
        let can_read_on = self.setup.offer_with_results.get(READ_RESULT).is_some();
        if response.text().len() <= limits.inline_bytes || !can_read_on {
            return response;
        }
        let large = LargeResult {
            id: journal.new_id(),
            call: call.to_owned(),
            tool: tool.to_owned(),
            content: response.text().to_owned(),
        };
        let preview = preview(&response, large.id, limits.beginning_bytes);
        step.large_results.push(large);
        self.has_results = true;
        preview
    }
}
