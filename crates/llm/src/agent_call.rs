//! One call of an agent: the stream of its model, and told besides when a tool call is complete and what was used, so
//! that whoever reads it need not put arguments together.
//!
//! The events in terms of an agent: think ([`Event::Thinking`]), text ([`Event::Text`]), tool start
//! ([`Event::ToolStart`], [`Event::ToolArguments`]), tool complete ([`Event::ToolComplete`]), usage ([`Event::Usage`]),
//! and the whole ([`Event::Done`]).

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use houston_domain::history::Block;
use houston_domain::model::{ModelError, ModelTurn};
use serde_json::Value;

use crate::model::{Event, EventStream, Model, Request};

/// Asks `model`. A call of a tool is complete at the latest before [`Event::Usage`], and as soon as something else is
/// written after it.
///
/// # Errors
/// As [`Model::stream`].
pub async fn agent_call(model: &dyn Model, request: &Request<'_>) -> Result<EventStream, ModelError> {
    let stream = model.stream(request).await?;
    Ok(Box::pin(AgentCall { stream, open: Vec::new(), told: 0, ready: VecDeque::new() }))
}

struct AgentCall {
    stream: EventStream,
    /// The calls of this answer, in order, as far as they are not told complete.
    open: Vec<Open>,
    /// How many calls were told complete.
    told: usize,
    ready: VecDeque<Event>,
}

/// A call that is being written.
struct Open {
    index: usize,
    id: String,
    name: String,
    json: String,
}

impl AgentCall {
    /// Takes note of an event, and says what it completes.
    fn take(&mut self, event: Event) {
        match &event {
            Event::ToolArguments { index, json } => {
                if let Some(open) = self.open.iter_mut().find(|open| open.index == *index) {
                    open.json.push_str(json);
                }
            }
            Event::ToolStart { index, id, name } => {
                self.complete();
                let (index, id, name) = (*index, id.clone(), name.clone());
                self.open.push(Open { index, id, name, json: String::new() });
            }
            Event::Text(_) | Event::Thinking(_) => self.complete(),
            Event::Done(turn) => self.finish(turn),
            _ => {}
        }
        self.ready.push_back(event);
    }

    /// Tells those calls complete whose arguments are: after a closed object nothing can follow. The first that is not
    /// keeps back the others, so that they come in order.
    fn complete(&mut self) {
        let whole = |open: &Open| serde_json::from_str(&open.json).ok().filter(Value::is_object);
        while let Some(input) = self.open.first().and_then(whole) {
            let Open { index, id, name, .. } = self.open.remove(0);
            self.told += 1;
            self.ready.push_back(Event::ToolComplete { index, id, name, input });
        }
    }

    /// Tells the rest as the whole answer has it.
    fn finish(&mut self, turn: &ModelTurn) {
        let calls = turn.content.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } => Some((id.clone(), name.clone(), input.clone())),
            _ => None,
        });
        for (index, (id, name, input)) in calls.enumerate().skip(self.told) {
            self.ready.push_back(Event::ToolComplete { index, id, name, input });
        }
        self.ready.push_back(Event::Usage(turn.usage));
    }
}

impl Stream for AgentCall {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            match ready!(self.stream.as_mut().poll_next(cx)) {
                Some(Ok(event)) => self.take(event),
                other => return Poll::Ready(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use futures_util::future::{BoxFuture, FutureExt as _};
    use futures_util::stream;
    use houston_domain::model::{StopReason, Usage};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::Description;

    /// Answers with these events.
    struct Scripted(Description, Vec<Event>);

    impl Model for Scripted {
        fn description(&self) -> &Description {
            &self.0
        }

        fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
            let events: Vec<_> = self.1.iter().cloned().map(Ok).collect();
            async move { Ok(Box::pin(stream::iter(events)) as EventStream) }.boxed()
        }
    }

    fn told(events: Vec<Event>) -> Vec<Event> {
        let description = Description {
            provider: "acme".into(),
            model: "m".into(),
            simulated: false,
            supports_tools: true,
        };
        let model = Scripted(description, events);
        let call = async {
            let stream = agent_call(&model, &Request::default()).await.unwrap();
            stream.map(Result::unwrap).collect().await
        };
        call.now_or_never().unwrap()
    }

    fn start(index: usize) -> Event {
        Event::ToolStart { index, id: format!("c{index}"), name: "add".into() }
    }

    fn piece(index: usize, json: &str) -> Event {
        Event::ToolArguments { index, json: json.into() }
    }

    fn done(inputs: &[Value]) -> (Event, Usage) {
        let call = |(index, input): (usize, &Value)| Block::ToolUse {
            id: format!("c{index}"),
            name: "add".into(),
            input: input.clone(),
            raw: None,
        };
        let content = inputs.iter().enumerate().map(call).collect();
        let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
        let turn = ModelTurn { content, malformed: vec![], stop: StopReason::ToolUse, usage };
        (Event::Done(Box::new(turn)), usage)
    }

    fn complete(index: usize, input: Value) -> Event {
        Event::ToolComplete { index, id: format!("c{index}"), name: "add".into(), input }
    }

    #[test]
    fn a_call_is_complete_when_the_next_begins_and_what_is_left_before_the_usage() {
        let inputs = [json!({"a": 1}), json!({"b": {"c": 2}}), json!({})];
        let (end, usage) = done(&inputs);
        let (first, second, third) = (start(0), start(1), start(2));
        let events = vec![
            Event::Thinking("hm".into()),
            first.clone(),
            piece(0, "{\"a\""),
            piece(0, ":1}"),
            second.clone(),
            piece(1, "{\"b\":{\"c\":2}"),
            // Another provider interleaves its calls: this one is not whole yet.
            third.clone(),
            piece(1, "}"),
            end.clone(),
        ];
        assert_eq!(
            told(events),
            vec![
                Event::Thinking("hm".into()),
                first,
                piece(0, "{\"a\""),
                piece(0, ":1}"),
                complete(0, inputs[0].clone()),
                second,
                piece(1, "{\"b\":{\"c\":2}"),
                third,
                piece(1, "}"),
                complete(1, inputs[1].clone()),
                complete(2, inputs[2].clone()),
                Event::Usage(usage),
                end
            ]
        );
    }

    proptest! {
        /// Wherever the arguments are cut: each call is told complete once, in order, with all of its arguments, and
        /// nothing else of the stream is changed.
        #[test]
        fn each_call_is_told_once_with_what_was_written(
            calls in proptest::collection::vec(("[a-z\"{}\\\\é]{0,12}", 1..9usize), 0..5)
        ) {
            let inputs: Vec<Value> = calls.iter().map(|(text, _)| json!({"text": text})).collect();
            let mut events = Vec::new();
            for (index, (input, (_, size))) in inputs.iter().zip(&calls).enumerate() {
                events.push(start(index));
                let json: Vec<char> = input.to_string().chars().collect();
                events.extend(json.chunks(*size).map(|cut| piece(index, &cut.iter().collect::<String>())));
            }
            let (end, usage) = done(&inputs);
            events.push(end.clone());
            let told = told(events.clone());
            let completed: Vec<&Event> =
                told.iter().filter(|event| matches!(event, Event::ToolComplete { .. })).collect();
            let wanted: Vec<Event> =
                inputs.iter().enumerate().map(|(index, input)| complete(index, input.clone())).collect();
            prop_assert_eq!(completed, wanted.iter().collect::<Vec<_>>());
            let rest: Vec<Event> = told
                .iter()
                .filter(|event| !matches!(event, Event::ToolComplete { .. } | Event::Usage(_)))
                .cloned()
                .collect();
            prop_assert_eq!(rest, events);
            prop_assert_eq!(&told[told.len() - 2..], &[Event::Usage(usage), end]);
        }
    }
}
