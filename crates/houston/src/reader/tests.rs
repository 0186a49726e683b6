use chrono::DateTime;
use houston_domain::event::MessageBody;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use serde_json::Value;

use super::*;

fn id<T: From<uuid::Uuid>>(number: u128) -> T {
    T::from(uuid::Uuid::from_u128(number))
}

fn run() -> RunId {
    id(1)
}

/// Feeds events at consecutive positions.
fn feed(reader: &mut Reader, event: Durable, text: Option<&str>) {
    let body = text.map(|text| MessageBody {
        source: Source::Agent,
        message_type: MessageType::Text,
        content: text.to_owned(),
        metadata: Value::Null,
    });
    let at = DateTime::UNIX_EPOCH;
    reader.durable(Committed { seq: reader.seq + 1, run_id: run(), at, event, body });
}

fn started(message: u128, attempt: i32) -> Durable {
    let next_message_id = id(message);
    Durable::AttemptStarted { attempt, iteration: 1, next_message_id, takeover: attempt > 1, resumed: false }
}

fn delta(message: u128, offset: u32, text: &str) -> Delta {
    Delta {
        message_id: id(message),
        part: Part::Message,
        reasoning_chars: 0,
        offset,
        text: text.to_owned(),
        is_draft: false,
    }
}

fn sent(message: u128) -> Durable {
    Durable::MessageSent { message_id: id(message) }
}

fn ended(status: RunStatus, message: Option<&str>) -> Durable {
    let message = message.map(str::to_owned);
    Durable::RunFinished {
        status,
        iteration: Some(1),
        usage: Usage::default(),
        message,
        code: None,
        result: None,
    }
}

fn events(reader: &mut Reader) -> Vec<Event> {
    std::iter::from_fn(|| reader.pop()).collect()
}

fn text(piece: &str) -> Event {
    Event::Text(piece.to_owned())
}

#[test]
fn pieces_are_the_message_whatever_is_lost_or_repeated() {
    let whole = "Grüße aus Rom";
    // Each case is the deltas that arrive: (offset, length) in characters.
    for arriving in
        [vec![(0, 5), (5, 8)], vec![(0, 5), (9, 4)], vec![(0, 5), (3, 6), (0, 13)], vec![(4, 2)], vec![]]
    {
        let mut reader = Reader::new(run(), 0);
        feed(&mut reader, started(7, 1), None);
        for (offset, length) in &arriving {
            let piece: String = whole.chars().skip(*offset as usize).take(*length).collect();
            reader.delta(&delta(7, *offset, &piece));
        }
        reader.delta(&delta(6, 0, "of an earlier message"));
        feed(&mut reader, sent(7), Some(whole));
        feed(&mut reader, ended(RunStatus::Completed, None), None);
        let mut read = String::new();
        let mut last = None;
        for event in events(&mut reader) {
            match event {
                Event::Text(piece) => read.push_str(&piece),
                other => last = Some(other),
            }
        }
        assert_eq!(read, whole, "{arriving:?}");
        let Some(Event::Finished(answer)) = last else { panic!("{last:?}") };
        assert_eq!((answer.text.as_str(), answer.failure), (whole, None));
    }
}

#[test]
fn text_of_a_broken_attempt_is_discarded() {
    let mut reader = Reader::new(run(), 0);
    feed(&mut reader, started(7, 1), None);
    reader.delta(&delta(7, 0, "Half an"));
    feed(&mut reader, started(8, 2), None);
    reader.delta(&delta(7, 7, " answer"));
    feed(&mut reader, sent(8), Some("Whole"));
    let message = Event::Message("Whole".to_owned());
    assert_eq!(events(&mut reader), [text("Half an"), Event::TextDiscarded, text("Whole"), message]);
}

#[test]
fn text_that_calls_follow_is_discarded() {
    let mut reader = Reader::new(run(), 0);
    feed(&mut reader, started(7, 1), None);
    reader.delta(&delta(7, 0, "Let me"));
    let thought = "Let me look.".to_owned();
    feed(&mut reader, Durable::Thought { text: thought.clone(), withdrawn_at: Some(0) }, None);
    reader.delta(&delta(7, 0, "Let me look."));
    feed(&mut reader, sent(8), Some("Found."));
    let expected = [text("Let me"), Event::TextDiscarded, Event::Thinking(thought), text("Found.")];
    assert_eq!(events(&mut reader)[..4], expected);
}

#[test]
fn message_with_another_text_replaces_what_was_streamed() {
    let mut reader = Reader::new(run(), 0);
    feed(&mut reader, started(7, 1), None);
    reader.delta(&delta(7, 0, "One"));
    feed(&mut reader, sent(7), Some("Two"));
    let message = Event::Message("Two".to_owned());
    assert_eq!(events(&mut reader), [text("One"), Event::TextDiscarded, text("Two"), message]);
}

#[test]
fn failed_run_is_an_error_and_a_limit_is_not() {
    let ends = |status, message| {
        let mut reader = Reader::new(run(), 0);
        feed(&mut reader, ended(status, message), None);
        let Some(Event::Finished(answer)) = reader.pop() else { panic!("no end") };
        answer.or_failure()
    };
    let error = ends(RunStatus::Failed, Some("no model")).unwrap_err();
    assert!(error.to_string().ends_with("ended as failed: no model"), "{error}");
    assert!(ends(RunStatus::MaxIterations, None).is_ok());
}
