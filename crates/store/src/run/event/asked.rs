//! Events of questions. Of a question that a run asks, the event stores the id, and the message that shows the call which asks: the
//! row of the question has the rest, and a run that waits for an answer keeps both.

use std::collections::HashMap;

use houston_domain::event::Event;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::NewQuestion;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::question::question_row;

const TYPE: &str = "question_asked";

/// The event as it is stored.
#[derive(Serialize, Deserialize)]
struct Asked<'a> {
    #[serde(rename = "type")]
    of_type: &'a str,
    question_id: QuestionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
    /// Of an event that has the whole question, as those of imported conversations do.
    #[serde(default, skip_serializing)]
    text: Option<IgnoredAny>,
}

/// An event as it is stored.
pub(crate) fn stored(event: &Event) -> serde_json::Result<Box<RawValue>> {
    match event {
        Event::QuestionAsked(question) => {
            let NewQuestion { id, message_id, .. } = **question;
            to_raw_value(&Asked { of_type: TYPE, question_id: id, message_id, text: None })
        }
        event => to_raw_value(event),
    }
}

/// The question that a stored event refers to, and the message that shows the call which asks it.
fn question_of(data: &RawValue) -> Option<(QuestionId, Option<MessageId>)> {
    // Most events have no such word, so that they are not parsed twice.
    let asked = data.get().contains(TYPE).then(|| serde_json::from_str::<Asked<'_>>(data.get()))?.ok()?;
    (asked.of_type == TYPE && asked.text.is_none()).then_some((asked.question_id, asked.message_id))
}

/// The questions that stored events refer to.
#[derive(Debug, Default)]
pub(super) struct AskedQuestions(HashMap<Uuid, NewQuestion>);

impl AskedQuestions {
    /// Reads them, if they are of these tenants; executes a statement only if there are any.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub(super) async fn of(
        connection: &mut PgConnection,
        tenants: &[Uuid],
        events: impl Iterator<Item = &RawValue>,
    ) -> Result<Self> {
        let ids: Vec<Uuid> = events.filter_map(question_of).map(|(id, _)| id.0).collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let rows = sqlx::query!(
            "-- store::event::asked::questions
            select id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by, created_at, closed_at,
                   approval
              from houston.questions where id = any ($1) and tenant_id = any ($2)",
            &ids,
            tenants
        )
        .fetch_all(connection)
        .await?;
        Ok(Self(rows.into_iter().map(|row| (row.id, question_row!(row).into_question().asked)).collect()))
    }

    /// The event that is stored as `data`.
    ///
    /// # Errors
    /// When `data` is no event, or that of a question that does not exist.
    pub(super) fn event(&self, data: &RawValue) -> serde_json::Result<Event> {
        match question_of(data).and_then(|(id, message)| Some((self.0.get(&id.0)?, message))) {
            Some((question, message_id)) => {
                Ok(Event::QuestionAsked(Box::new(NewQuestion { message_id, ..question.clone() })))
            }
            None => serde_json::from_str(data.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::question::QuestionKind;

    use super::*;

    fn asked() -> NewQuestion {
        NewQuestion {
            id: QuestionId(Uuid::from_u128(7)),
            kind: QuestionKind::Input,
            subject: None,
            text: "Which hotel?".into(),
            schema: None,
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: Some(MessageId(Uuid::from_u128(8))),
        }
    }

    #[test]
    fn an_event_refers_to_its_question() {
        let event = Event::QuestionAsked(Box::new(asked()));
        let data = stored(&event).unwrap();
        assert_eq!(question_of(&data), Some((asked().id, asked().message_id)), "{data}");
        let of_row = NewQuestion { message_id: None, ..asked() };
        let questions = AskedQuestions([(asked().id.0, of_row)].into());
        assert_eq!(questions.event(&data).unwrap(), event);
        assert!(AskedQuestions::default().event(&data).is_err(), "its question was deleted");
    }

    #[test]
    fn other_events_and_whole_questions_are_read_as_they_are() {
        let whole = Event::QuestionAsked(Box::new(asked()));
        let called = Event::ToolCalled {
            call_id: format!(r#"{{"type": "{TYPE}"}}"#),
            name: TYPE.into(),
            input: serde_json::json!({"question_id": asked().id}),
            message_id: MessageId(Uuid::nil()),
            decided_by: None,
        };
        for event in [whole, called] {
            let data = to_raw_value(&event).unwrap();
            assert_eq!(question_of(&data), None, "{data}");
            assert_eq!(AskedQuestions::default().event(&data).unwrap(), event);
        }
    }
}
