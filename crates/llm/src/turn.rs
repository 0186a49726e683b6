//! The parts of a [`ModelTurn`](houston_domain::model::ModelTurn) that every wire builds alike.

use houston_domain::history::Block;
use houston_domain::model::ModelTurn;
use houston_domain::storable::{storable, storable_value};
use serde_json::Value;

use crate::model::Event;

/// Longest piece of malformed arguments that is kept, in characters: enough for the model to see its mistake.
const LONGEST_MALFORMED: usize = 400;

/// Reads the arguments of a call. No text at all means no arguments.
///
/// # Errors
/// The text, shortened, when it is no JSON object.
pub(crate) fn arguments(json: &str) -> Result<Value, String> {
    let json = json.trim();
    if json.is_empty() || json == "null" {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str(json) {
        Ok(mut value @ Value::Object(_)) => {
            storable_value(&mut value);
            Ok(value)
        }
        _ => Err(shortened(json, LONGEST_MALFORMED)),
    }
}

/// The first `longest` characters of `text`, with `…` when there is more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The event as a database can keep it: see [`storable`]. What is kept raw is JSON, where U+0000 is six letters.
pub(crate) fn kept(mut event: Event) -> Event {
    match &mut event {
        Event::Text(text) | Event::Thinking(text) | Event::ToolArguments { json: text, .. } => storable(text),
        Event::ToolStart { id, name, .. } => [id, name].into_iter().for_each(storable),
        Event::Done(turn) => keep(turn),
        _ => {}
    }
    event
}

fn keep(turn: &mut ModelTurn) {
    turn.malformed.iter_mut().for_each(|(id, sent)| [id, sent].into_iter().for_each(storable));
    for block in &mut turn.content {
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } => storable(text),
            Block::ToolUse { id, name, input, .. } => {
                [id, name].into_iter().for_each(storable);
                storable_value(input);
            }
            Block::ToolResult { .. } | Block::Opaque { .. } => {}
        }
    }
}
