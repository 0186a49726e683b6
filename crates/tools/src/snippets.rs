//! What the tools for snippets share. What a name and a schema are is decided in [`houston_domain::snippet`].

use houston_domain::snippet::SnippetError;
use houston_sandbox::Language;

use crate::tool::InvalidInput;

/// The error of a call of `tool`.
pub(crate) fn invalid(tool: &str, error: &SnippetError) -> InvalidInput {
    InvalidInput(format!("{tool}: {error}"))
}

/// The language as it is stored.
pub(crate) fn language_name(language: Language) -> &'static str {
    match language {
        Language::JavaScript => "javascript",
        Language::TypeScript => "typescript",
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::snippet::SnippetTool;
    use houston_sandbox::{Program, Sandbox};
    use serde_json::json;

    use crate::{Offer, Outside, Registry, Situation, builtin};

    fn snippet(name: &str) -> SnippetTool {
        let input_schema = json!({"type": "object", "properties": {"n": {"type": "number"}}});
        let (description, pin) = ("Doubles n.".to_owned(), "p".to_owned());
        SnippetTool { name: name.to_owned(), description, input_schema, pin, untrusted: false }
    }

    /// An offer of these tools, with the snippet `double` if it may be a tool.
    fn offer(names: &[&str], most: u32, is_searched: bool, code_mode: bool) -> Offer {
        let sandbox = Some(Sandbox::new(Program::this(), 1));
        let mut registry = Registry::default();
        for tool in builtin::all(&Outside { sandbox, snippet_tools: most, ..Outside::default() }) {
            registry.add(tool).unwrap();
        }
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let offer = registry.offer(&names).unwrap();
        let offer = if code_mode { offer.in_code_mode() } else { offer };
        let most_tokens = if is_searched { 1 } else { u64::MAX };
        let offer = offer.searched_above(most_tokens, &[], |_| 1);
        assert_eq!(offer.is_searched(), is_searched);
        offer.with_snippets(&[snippet("double")]).in_situation(Situation::default())
    }

    #[test]
    fn snippets_are_tools_of_who_may_run_snippets() {
        for (names, most, is_tool) in [
            (&["send_message", "create_note", "run_snippet"][..], 1, true),
            (&["send_message", "create_note", "run_snippet"], 0, false),
            (&["send_message", "create_note", "save_snippet", "run_code"], 1, false),
        ] {
            for is_searched in [false, true] {
                let offer = offer(names, most, is_searched, false);
                assert_eq!(offer.get("snippet__double").is_some(), is_tool, "{names:?} {most}");
                assert_eq!(offer.facts("snippet__double").is_some(), is_tool);
                let sent: Vec<&str> = offer.definitions().iter().map(|tool| tool.name.as_str()).collect();
                assert_eq!(sent.contains(&"snippet__double"), is_tool, "{sent:?}");
                if is_searched {
                    assert_eq!(sent[sent.len() - 3..], ["search_tools", "get_tool_help", "use_tool"]);
                }
            }
        }
    }

    #[test]
    fn snippets_call_what_code_may_call() {
        for is_searched in [false, true] {
            let names = ["send_message", "create_note", "run_code", "run_snippet"];
            let offer = offer(&names, 1, is_searched, true);
            let code = offer.get("run_code").unwrap().definition();
            assert!(code.description.contains("create_note(input: "), "{}", code.description);
            let not_for_code = ["run_code(", "run_snippet(", "snippet__double("];
            assert!(!not_for_code.iter().any(|name| code.description.contains(name)), "{}", code.description);
        }
    }
}
