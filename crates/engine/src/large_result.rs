//! Large results: tool outputs too long for the history. They are stored separately, the history keeps a preview with the
//! id, and the tool `read_result` is offered from then on.

use houston_domain::history::{Block, Role};
use houston_domain::step::LargeResult;
use houston_domain::step::Step;
use houston_domain::tool_call::{Record, ToolResponse};
use houston_domain::tool_result::preview;
use houston_tools::Offer;
use houston_tools::builtin::READ_RESULT;

use crate::run_driver::RunDriver;

impl RunDriver<'_> {
    /// The tools the model is offered now.
    pub(crate) fn offer(&self) -> &Offer {
        if self.has_results { &self.offer_with_results } else { &self.offer }
    }

    /// The response for events and history. A response longer than `inline_bytes` becomes a preview, and `step` stores the
    /// whole as a [`LargeResult`].
    pub(crate) fn store_large_result(
        &mut self,
        step: &mut Step,
        call: &str,
        response: ToolResponse,
    ) -> ToolResponse {
        let response = self.cut(response);
        let limits = self.engine.config.context.results;
        let can_read_on = self.setup.offer_with_results.get(READ_RESULT).is_some();
        if response.text().len() <= limits.inline_bytes || !can_read_on {
            return response;
        }
        let large = LargeResult {
            id: self.engine.ids.next(),
            call: call.to_owned(),
            tool: self.tool_of(call),
            content: response.text().to_owned(),
        };
        let preview = preview(&response, large.id, limits.beginning_bytes);
        step.large_results.push(large);
        self.has_results = true;
        preview
    }

    /// [`Self::store_large_result`] for several responses, given as (call id, response).
    pub(crate) fn store_large_results(
        &mut self,
        step: &mut Step,
        responses: Vec<(String, ToolResponse)>,
    ) -> Vec<(String, ToolResponse)> {
        let store = |(call, response): (String, ToolResponse)| {
            let response = self.store_large_result(step, &call, response);
            (call, response)
        };
        responses.into_iter().map(store).collect()
    }

    /// Sets the page size of a `read_result` call, which only the settings know.
    pub(crate) fn with_page_size(&self, record: Record) -> Record {
        match record {
            Record::ReadResult { id, query, .. } => {
                Record::ReadResult { id, query, max_bytes: self.engine.config.context.results.page_bytes }
            }
            record => record,
        }
    }

    /// The name of the tool that a call of the last turn calls.
    fn tool_of(&self, id: &str) -> String {
        let answers = self.run.history().iter().rev().find(|entry| entry.role == Role::Assistant);
        let blocks = answers.into_iter().flat_map(|entry| &entry.content);
        let mut names = blocks.filter_map(|block| match block {
            Block::ToolUse { id: call, name, .. } if call == id => Some(name.clone()),
            _ => None,
        });
        names.next().unwrap_or_default()
    }
}
