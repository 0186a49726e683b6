//! Helpers: make one call and collect its events.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use houston_domain::history::{Block, Entry};
use houston_domain::model::ModelError;
use houston_llm::{Choice, Event, Http, Model, Request, Timeouts, connect};

/// Short enough for tests, long enough for a loaded machine.
pub(crate) const QUICK: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(2),
    idle: Duration::from_secs(2),
    total: Duration::from_secs(60),
    pool_idle: Duration::from_secs(90),
};

pub(crate) fn http(timeouts: Timeouts) -> Http {
    Http::new(timeouts, &|_| None).unwrap()
}

pub(crate) fn model(base: &str, timeouts: Timeouts) -> Arc<dyn Model> {
    let choice = Choice { base_url: Some(base.to_owned()), ..Choice::new("local", "m") };
    connect(&choice, &http(timeouts), &|_| None).unwrap()
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![Entry::user(vec![Block::text("hi")])]
}

/// The events of one call, and the error it ended with.
pub(crate) async fn call(model: &dyn Model) -> (Vec<Event>, Option<ModelError>) {
    let entries = entries();
    let request =
        Request { system: &[], entries: &entries, tools: &[], max_output_tokens: 10, ..Request::default() };
    let mut stream = match model.stream(&request).await {
        Ok(stream) => stream,
        Err(error) => return (vec![], Some(error)),
    };
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error ends the stream");
                return (events, Some(error));
            }
        }
    }
    assert!(matches!(events.last(), Some(Event::Done(_))), "the stream ended without an end: {events:?}");
    (events, None)
}
