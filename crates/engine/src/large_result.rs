//! Long results of tools: kept beside the history, and read on with a tool that is offered as soon as there is one.

use houston_domain::history::{Block, Role};
use houston_domain::tool_call::{Record, ToolResponse};
use houston_domain::tool_result::beginning;
use houston_store::step::Step;
use houston_store::tool_result::LargeResult;
use houston_tools::Offer;
use houston_tools::builtin::READ_RESULT;

use crate::context::RunDriver;

impl RunDriver<'_> {
    /// The tools that may be called now.
    pub(crate) fn offer(&self) -> &Offer {
        if self.has_results { &self.offer_with_results } else { &self.offer }
    }

    /// A tool's response as far as it may enter events and history; of a long one the beginning, and the step takes
    /// the whole.
    pub(crate) fn kept(&mut self, step: &mut Step, call: &str, response: ToolResponse) -> ToolResponse {
        let response = self.cut(response);
        let limits = self.engine.config.context.results;
        let can_read_on = self.setup.offer_with_results.get(READ_RESULT).is_some();
        if response.text().len() <= limits.aside_bytes || !can_read_on {
            return response;
        }
        let large = LargeResult {
            id: self.engine.ids.next(),
            call: call.to_owned(),
            tool: self.tool_of(call),
            content: response.text().to_owned(),
        };
        let shown = beginning(&response, large.id, limits.beginning_bytes);
        step.large_results.push(large);
        self.has_results = true;
        shown
    }

    /// The same for several, by call.
    pub(crate) fn all_kept(
        &mut self,
        step: &mut Step,
        responses: Vec<(String, ToolResponse)>,
    ) -> Vec<(String, ToolResponse)> {
        let kept = |(call, response): (String, ToolResponse)| {
            let response = self.kept(step, &call, response);
            (call, response)
        };
        responses.into_iter().map(kept).collect()
    }

    /// A record with what only the settings say.
    pub(crate) fn sized(&self, record: Record) -> Record {
        match record {
            Record::ReadResult { id, reading, .. } => {
                Record::ReadResult { id, reading, most: self.engine.config.context.results.page_bytes }
            }
            record => record,
        }
    }

    /// The tool that a call of the last turn is of.
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
