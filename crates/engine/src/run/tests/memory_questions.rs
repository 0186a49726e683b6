//! The questions of a run in memory, and what else tests set.

use houston_domain::budget::Spent;
use houston_domain::id::RunId;
use houston_domain::question::{Question, QuestionState};
use houston_domain::skill::SkillDocument;
use houston_domain::step::Step;
use serde_json::Value;

use super::memory_storage::{MemoryStorage, Rows};

impl MemoryStorage {
    pub(crate) fn set_spent(&self, spent: Spent) {
        self.rows().spent = spent;
    }

    /// A message of the user.
    pub(crate) fn post(&self, text: &str) {
        let mut rows = self.rows();
        rows.unread.push(text.to_owned());
        rows.is_awake = true;
    }

    /// A skill of the tenant.
    pub(crate) fn add_skill(&self, text: &str) {
        let summary = SkillDocument::read(text, None).expect("a skill").summary(true);
        let mut rows = self.rows();
        rows.skills.insert(summary.name.clone(), text.to_owned());
        rows.summaries.push(summary);
    }

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

impl Rows {
    pub(super) fn supersedes_a_decision(&self, step: &Step) -> bool {
        let mut superseded = step.questions.iter().flat_map(|of| &of.superseded);
        superseded.any(|id| {
            self.questions.iter().any(|of| of.asked.id == *id && of.state == QuestionState::Answered)
        })
    }
}
