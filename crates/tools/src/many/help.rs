//! What a model reads of a tool: one line in a list, and everything.

use houston_domain::guard::Ruling;
use houston_domain::inner_call::{ARGUMENTS, TOOL_NAME, USE_TOOL};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde_json::json;

use super::Entry;
use super::arguments::example;

/// Characters of the one line about a tool.
const LINE: usize = 120;

/// The first sentence or line of a description, shortened.
pub(crate) fn first_sentence(description: &str) -> String {
    let line = description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |end| end + 1);
    let sentence = &line[..end];
    match sentence.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}

/// Description, example and schema of a tool. The example comes early: it is all that many calls need.
pub(crate) fn help(entry: &Entry<'_>) -> String {
    let ToolDefinition { name, description, input_schema, effect, timeout } = entry.tool.definition();
    let call = json!({TOOL_NAME: name, ARGUMENTS: example(input_schema)});
    let asks = match entry.outlook {
        Ruling::Ask => " It asks your user first.",
        Ruling::Allow | Ruling::Deny => "",
    };
    let repeats = match effect {
        EffectClass::Read => "It changes nothing.",
        EffectClass::Idempotent | EffectClass::Checkable => "The same call has its effect once.",
        EffectClass::Effect => "Each call has an effect.",
    };
    format!(
        "{name}\nExample: {USE_TOOL} {call}\n{}\n{repeats}{asks} It may take {} s.\nSchema of its {ARGUMENTS}: \
         {input_schema}",
        description.trim(),
        timeout.as_secs(),
    )
}
