//! The questions of a run in memory.

use houston_domain::id::RunId;
use houston_domain::question::{Question, QuestionState};
use serde_json::Value;

use super::memory_storage::MemoryStorage;

impl MemoryStorage {
    /// Closes the newest question.
    pub(crate) fn close_question(&self, state: QuestionState, answer: Option<Value>) {
        let mut rows = self.rows();
        rows.is_awake = true;
        let question = rows.questions.last_mut().expect("a question");
        (question.state, question.answer) = (state, answer);
    }

    /// Closes the oldest question.
    pub(crate) fn close_first_question(&self, state: QuestionState) {
        let mut rows = self.rows();
        rows.is_awake = true;
        rows.questions.first_mut().expect("a question").state = state;
    }

    /// Answers the oldest question just before the next commit.
    pub(crate) fn answer_before_next_commit(&self, answer: Value) {
        self.rows().late_answer = Some(answer);
    }

    /// Answers the oldest question just before the commit after the next `count`.
    pub(crate) fn answer_after_commits(&self, count: usize, answer: Value) {
        let mut rows = self.rows();
        (rows.until_answer, rows.late_answer) = (count, Some(answer));
    }

    /// Answers the next question as soon as it is asked.
    pub(crate) fn answer_next_question(&self, answer: Value) {
        self.rows().prompt_answer = Some(answer);
    }

    /// The questions of the run.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.rows().questions.clone()
    }

    /// The run that asks.
    pub(crate) fn set_run(&self, run: RunId) {
        self.rows().run = Some(run);
    }

    /// How often the questions of the run were read, and the budget questions of its agentable.
    pub(crate) fn question_reads(&self) -> (usize, usize) {
        let rows = self.rows();
        (rows.question_reads, rows.budget_reads)
    }
}
