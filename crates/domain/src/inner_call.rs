//! Calls of tools through another tool: where an agent has many tools, the model is sent the definitions of a few, finds
//! the others by searching, and calls them with [`USE_TOOL`].
//!
//! Whatever looks at a call (guards, the overseer, limits, events, statistics, a worker that takes a run over) looks at the
//! inner call. The history keeps the call as the model wrote it, because providers compare it with what they sent.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The tool that calls another one: `{"tool_name": "git__git_log", "arguments": {"max_count": 3}}`.
pub const USE_TOOL: &str = "use_tool";
/// The argument of [`USE_TOOL`] with the name of the inner tool.
pub const TOOL_NAME: &str = "tool_name";
/// The argument of [`USE_TOOL`] with the arguments of the inner call.
pub const ARGUMENTS: &str = "arguments";

/// The tool that a call is about, and its arguments. For a call of [`USE_TOOL`] those of the inner call; a call of it that
/// names no tool, itself, or arguments that are no object, is returned as it is, to be answered with what is wrong.
///
/// ```
/// use houston_domain::inner_call::inner_call;
/// use serde_json::json;
///
/// let outer = json!({"tool_name": "git__git_log", "arguments": {"max_count": 3}});
/// let (name, input) = inner_call("use_tool", &outer);
/// assert_eq!((name, &*input), ("git__git_log", &json!({"max_count": 3})));
/// ```
pub fn inner_call<'c>(name: &'c str, input: &'c Value) -> (&'c str, Cow<'c, Value>) {
    if name != USE_TOOL {
        return (name, Cow::Borrowed(input));
    }
    let inner = input.get(TOOL_NAME).and_then(Value::as_str).map(str::trim).filter(|name| is_callable(name));
    let arguments = match input.get(ARGUMENTS) {
        None | Some(Value::Null) => Some(Cow::Owned(Value::Object(Map::new()))),
        Some(object @ Value::Object(_)) => Some(Cow::Borrowed(object)),
        // Models write arguments as JSON within JSON, as many wires do.
        Some(Value::String(text)) => {
            serde_json::from_str(text).ok().filter(Value::is_object).map(Cow::<'c, Value>::Owned)
        }
        Some(_) => None,
    };
    match (inner, arguments) {
        (Some(inner), Some(arguments)) => (inner, arguments),
        _ => (name, Cow::Borrowed(input)),
    }
}

fn is_callable(name: &str) -> bool {
    !name.is_empty() && name != USE_TOOL
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_of_other_tools_are_as_they_are() {
        let input = json!({"tool_name": "pay", "arguments": {}});
        assert_eq!(inner_call("create_note", &input), ("create_note", Cow::Borrowed(&input)));
    }

    #[test]
    fn inner_calls_have_name_and_object_as_arguments() {
        for (outer, name, input) in [
            (json!({"tool_name": "pay", "arguments": {"sum": 1}}), "pay", json!({"sum": 1})),
            (json!({"tool_name": " pay "}), "pay", json!({})),
            (json!({"tool_name": "pay", "arguments": null}), "pay", json!({})),
            (json!({"tool_name": "pay", "arguments": "{\"sum\": 1}"}), "pay", json!({"sum": 1})),
        ] {
            let (of, arguments) = inner_call(USE_TOOL, &outer);
            assert_eq!((of, &*arguments), (name, &input), "{outer}");
        }
        for outer in [
            json!({}),
            json!({"tool_name": ""}),
            json!({"tool_name": 3, "arguments": {}}),
            json!({"tool_name": "use_tool", "arguments": {"tool_name": "pay"}}),
            json!({"tool_name": "pay", "arguments": [1]}),
            json!({"tool_name": "pay", "arguments": "now"}),
        ] {
            assert_eq!(inner_call(USE_TOOL, &outer), (USE_TOOL, Cow::Borrowed(&outer)));
        }
    }
}
