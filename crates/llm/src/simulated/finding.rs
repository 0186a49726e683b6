//! Tools that the simulated model has no rule for: one that the user names; one that is searched, read about and called.

use houston_domain::inner_call::{ARGUMENTS, USE_TOOL};
use serde_json::{Map, Number, Value, json};

/// Finds tools.
pub(super) const SEARCH: &str = "search_tools";
/// Describes one.
pub(super) const HELP: &str = "get_tool_help";

/// What to search for, if the user asks for a tool: "use a tool to add 2 and 3".
pub(super) fn wanted(text: &str) -> Option<Value> {
    let lower = text.to_ascii_lowercase();
    let is_about_tools = lower.split(|c: char| !c.is_alphanumeric()).any(|word| word == "tool");
    // Only ASCII letters change, so positions are the same as in `text`.
    let after = ["tool to ", "tool that ", "tool for ", "tool which "]
        .iter()
        .find_map(|phrase| lower.find(phrase).map(|at| &text[at + phrase.len()..]));
    is_about_tools.then(|| json!({"query": after.unwrap_or(text).trim_end_matches(['.', '!', '?'])}))
}

/// The first tool in the answer of a search.
pub(super) fn first(found: &str) -> Option<Value> {
    let (name, _) = found.lines().next()?.split_once(": ")?;
    (!name.contains(' ')).then(|| json!({"tool_name": name}))
}

/// The call in the help of a tool, with what the user's text says in place of the example's values: its numbers, and what is
/// quoted in it, or else its last word.
pub(super) fn example(help: &str, text: &str) -> Option<Value> {
    let line = help.lines().find_map(|line| line.strip_prefix("Example: ")?.strip_prefix(USE_TOOL))?;
    let mut call: Value = serde_json::from_str(line.trim()).ok()?;
    let words =
        || text.split(|c: char| c.is_whitespace() || ",;?!\"'".contains(c)).filter(|word| !word.is_empty());
    let mut numbers = words().filter_map(|word| word.trim_end_matches('.').parse::<Number>().ok());
    let mut quoted = text.split(['"', '`']).skip(1).step_by(2);
    for value in call.get_mut(ARGUMENTS)?.as_object_mut()?.values_mut() {
        match value {
            Value::Number(number) => *number = numbers.next().unwrap_or_else(|| number.clone()),
            Value::String(text) if text.starts_with('<') => {
                let last = words().next_back().map(|word| word.trim_end_matches('.'));
                *text = quoted.next().or(last).unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }
    Some(call)
}

/// The tool of a server that the text names, with the arguments that it gives: `math__add with a=2 b=3 say="hi"`.
pub(super) fn named<'t>(text: &str, offered: &[&'t str]) -> Option<(&'t str, Value)> {
    let words = || text.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c)));
    let name = offered.iter().find(|name| name.contains("__") && words().any(|word| word == **name))?;
    let mut arguments = Map::new();
    for (before, after) in text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..])) {
        let key = before.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
        let value = match after.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().map(Value::from),
            None => after.split(|c: char| c.is_whitespace() || ",;".contains(c)).next().map(|word| {
                let word = word.trim_end_matches(['.', '!', '?']);
                serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
            }),
        };
        arguments.extend(value.filter(|_| !key.is_empty()).map(|value| (key.to_owned(), value)));
    }
    Some((name, Value::Object(arguments)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_of_a_server_is_called_by_its_name() {
        let offered = ["send_message", "math__add", "everything__get-sum"];
        let call = |text| named(text, &offered);
        assert_eq!(
            call(r#"Use math__add with a=2, b=3.5 and say="good day"."#),
            Some(("math__add", json!({"a": 2, "b": 3.5, "say": "good day"})))
        );
        assert_eq!(
            call("everything__get-sum a=1 b=true c=x."),
            Some(("everything__get-sum", json!({"a": 1, "b": true, "c": "x"})))
        );
        assert_eq!(call("math__add = what?"), Some(("math__add", json!({}))));
        assert_eq!(call("send_message content=x"), None, "it has a rule of its own");
        assert_eq!(call("math__adder a=1"), None);
    }
}
