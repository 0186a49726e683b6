//! Pauses: questions whether a run that seems to get nowhere may go on.
//!
//! The question's kind is `approval`; it has no tool call. Its subject names the signal and where its count starts anew if
//! the answer is yes: `houston:overseer:repeats:12`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Choice, Question, QuestionState, one_of};
use crate::overseer::{Finding, Measured, Signal, Trace, note};

/// The beginning of the subjects.
pub const PREFIX: &str = "houston:overseer:";

/// What a person answers.
///
/// ```json
/// {"decision": "continue"}
/// {"decision": "stop"}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseAnswer {
    /// The run goes on; what was counted is forgotten.
    Continue {},
    /// The run ends.
    Stop {},
}

/// The JSON Schema of the answers.
pub fn answer_schema() -> Value {
    one_of("decision", &[Choice::new("Go on", "continue"), Choice::new("Stop", "stop")])
}

/// The subject of the question about a finding. `measured`: what was counted when it was found; `now`: the time.
pub fn subject(finding: &Finding, trace: &Trace, measured: &Measured, now: DateTime<Utc>) -> String {
    let at = match finding.signal {
        Signal::Tokens => measured.tokens,
        Signal::ExternalCalls => u64::try_from(now.timestamp()).unwrap_or(0),
        _ => trace.last_turn(),
    };
    format!("{PREFIX}{}:{at}", finding.signal.as_str())
}

/// The signal and where its count starts anew, as the subject of a question says.
pub fn of_subject(subject: &str) -> Option<(Signal, u64)> {
    let (signal, at) = subject.strip_prefix(PREFIX)?.split_once(':')?;
    Some((Signal::from_name(signal)?, at.parse().ok()?))
}

/// The question's text.
pub fn question_text(finding: &Finding) -> String {
    format!("{} Go on?", note::seen(finding))
}

/// A pause of a run, as its question says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The signal.
    pub signal: Signal,
    /// Where its count starts anew.
    pub at: u64,
    /// How the pause goes on.
    pub state: PauseState,
}

/// How a pause goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseState {
    /// It waits for an answer.
    Open,
    /// The run may go on.
    Continued,
    /// The run ends: a person said so.
    Stopped,
    /// The run ends: no answer came in time.
    Expired,
    /// A message came instead of an answer.
    Superseded,
}

impl Pause {
    /// Reads a question; `None` if it is not about a pause.
    pub fn of(question: &Question) -> Option<Self> {
        let (signal, at) = of_subject(question.asked.subject.as_deref()?)?;
        let answer = || PauseAnswer::deserialize(question.answer.as_ref()?).ok();
        let state = match question.state {
            QuestionState::Open => PauseState::Open,
            QuestionState::Answered if answer() == Some(PauseAnswer::Continue {}) => PauseState::Continued,
            // An answer that is neither was stored by something else than the API: the cautious reading.
            QuestionState::Answered => PauseState::Stopped,
            QuestionState::Expired => PauseState::Expired,
            QuestionState::Superseded | QuestionState::Cancelled => PauseState::Superseded,
        };
        Some(Self { signal, at, state })
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;
    use crate::id::QuestionId;
    use crate::overseer::Level;
    use crate::question::schema::check;
    use crate::question::{NewQuestion, QuestionKind};

    fn question(subject: &str, state: QuestionState, answer: Option<Value>) -> Question {
        Question {
            asked: NewQuestion {
                id: QuestionId(uuid::Uuid::nil()),
                kind: QuestionKind::Approval,
                subject: Some(subject.to_owned()),
                text: String::new(),
                schema: Some(answer_schema()),
                default_value: None,
                expires_at: None,
                approval: None,
                message_id: None,
            },
            state,
            answer,
            answered_by: None,
            created_at: DateTime::UNIX_EPOCH,
            closed_at: None,
        }
    }

    #[test]
    fn pause_is_read_from_its_question() {
        let finding =
            Finding { signal: Signal::Repeats, level: Level::Pause, count: 4, tool: Some("x".to_owned()) };
        let subject = subject(&finding, &Trace::default(), &Measured::default(), DateTime::UNIX_EPOCH);
        assert_eq!(subject, "houston:overseer:repeats:0");
        assert!(question_text(&finding).ends_with("Go on?"));
        let answered = QuestionState::Answered;
        for (state, answer, expected) in [
            (QuestionState::Open, None, PauseState::Open),
            (answered, Some(json!({"decision": "continue"})), PauseState::Continued),
            (answered, Some(json!({"decision": "stop"})), PauseState::Stopped),
            (answered, Some(json!("nonsense")), PauseState::Stopped),
            (QuestionState::Expired, None, PauseState::Expired),
            (QuestionState::Superseded, None, PauseState::Superseded),
        ] {
            let question = question(&subject, state, answer);
            assert!(question.asked.is_own());
            let pause = Pause::of(&question).unwrap();
            assert_eq!((pause.signal, pause.at, pause.state), (Signal::Repeats, 0, expected));
        }
        assert_eq!(Pause::of(&question("call_1", QuestionState::Open, None)), None);
        assert_eq!(Pause::of(&question("houston:overseer:later:1", QuestionState::Open, None)), None);
    }

    #[test]
    fn schema_accepts_the_two_answers_only() {
        for answer in [json!({"decision": "continue"}), json!({"decision": "stop"})] {
            assert_eq!(check(&answer_schema(), &answer), Ok(()));
        }
        for wrong in
            [json!(true), json!({}), json!({"decision": "raise"}), json!({"decision": "stop", "x": 1})]
        {
            assert!(check(&answer_schema(), &wrong).is_err(), "{wrong}");
        }
    }
}
