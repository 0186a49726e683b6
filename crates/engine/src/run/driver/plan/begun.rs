//! [`Begun`]: what the next commit of a plan begins, and what was made for it that another commit would lose.

use std::collections::BTreeMap;

use houston_domain::id::QuestionId;
use houston_domain::plan::NewExecutor;
use houston_domain::question::NewQuestion;
use serde_json::Value;

use super::finished::Finished;
use crate::run::tool_runner::{StepRecord, StepWork};

/// What begins with the next commit, and what was done since the last one.
#[derive(Default)]
pub(super) struct Begun {
    pub(super) works: Vec<(String, u32, Work)>,
    pub(super) records: Vec<(String, StepRecord)>,
    pub(super) executors: BTreeMap<String, NewExecutor>,
    pub(super) questions: Vec<(String, NewQuestion)>,
    /// Questions whose answers are not wanted any more.
    pub(super) superseded: Vec<QuestionId>,
    /// What calls have returned that no commit has.
    pub(super) results: Vec<Finished>,
    /// The change that a model answered with because this step had failed, until a commit has it.
    pub(super) planned: Option<(String, Value)>,
    /// Calls of that model since the last commit.
    pub(super) asked: u32,
    /// Whether a step has settled that the state machine has not seen.
    settled: bool,
}

/// What a step does in this process.
pub(super) enum Work {
    Tool(String, StepWork),
    Llm { prompt: String, schema: Option<Value>, max_output_tokens: Option<u32> },
}

impl Begun {
    /// Whether something begins here.
    pub(super) fn has_work(&self) -> bool {
        !self.works.is_empty() || !self.records.is_empty()
    }

    /// Whether the state machine is to be asked before anything is waited for.
    pub(super) fn must_go_on(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    /// A step of this path does not begin.
    pub(super) fn forget(&mut self, path: &str) {
        self.works.retain(|(of, ..)| of != path);
        self.records.retain(|(of, _)| of != path);
        self.questions.retain(|(of, _)| of != path);
        self.executors.remove(path);
    }

    /// Nothing begins any more. What was done stays.
    pub(super) fn undone(self) -> Self {
        let Self { results, planned, asked, .. } = self;
        Self { results, planned, asked, ..Self::default() }
    }

    /// A commit has what was done. Works begin now.
    pub(super) fn committed(&mut self) {
        self.results.clear();
        self.questions.clear();
        self.superseded.clear();
        (self.planned, self.asked) = (None, 0);
    }
}
