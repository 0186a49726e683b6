//! What the model is sent, and what it is answered.

use houston_domain::tool_call::ToolErrorCode;
use serde_json::json;

use super::*;

fn failure(response: &ToolResponse, code: ToolErrorCode) -> &str {
    match response {
        ToolResponse::Failure { error, code: of } if *of == code => error,
        other => panic!("expected {code:?}, got {other:?}"),
    }
}

fn sent(offer: &Offer) -> Vec<&str> {
    offer.definitions().iter().map(|definition| definition.name.as_str()).collect()
}

#[test]
fn schemas_of_a_searched_offer_have_few_tokens() {
    let offer = offer(&["create_note", "list_notes", "gone"]);
    assert!(offer.is_searched() && offer.tools().len() > 390, "{}", offer.tools().len());
    assert_eq!(
        sent(&offer),
        [
            "create_note",
            "list_notes",
            "read_result",
            "send_message",
            "search_tools",
            "get_tool_help",
            "use_tool"
        ]
    );
    let tokens: u64 = offer.definitions().iter().map(tokens).sum();
    assert!(tokens <= 1_000, "{tokens}");
    let finding: u64 = offer.definitions()[4..].iter().map(super::tokens).sum();
    assert!(finding <= 400, "{finding}");
}

#[test]
fn small_offers_are_sent_as_they_are() {
    let (registry, _) = all();
    let names = ["send_message".to_owned(), "create_note".to_owned()];
    let offer = registry.offer(&names).unwrap().searched_above(4_000, &[], tokens);
    assert!(!offer.is_searched() && offer.deferred().is_none() && offer.groups(&[]).is_empty());
    assert_eq!(sent(&offer), names);
    assert!(offer.get("search_tools").is_none());
    let answer = answer(&offer, &[], "crate_note", json!({}));
    assert!(
        failure(&answer, ToolErrorCode::NotFound).ends_with("available tools: send_message, create_note")
    );
}

#[test]
fn limited_offers_are_searched_only_if_they_are_large() {
    let offer = offer(&[]);
    let few = offer.limited_to(&["time__convert_time".to_owned(), "create_note".to_owned()]);
    assert!(!few.is_searched());
    assert_eq!(sent(&few), ["create_note", "time__convert_time"]);
    let many: Vec<String> = offer
        .tools()
        .iter()
        .map(|tool| tool.definition().name.clone())
        .filter(|name| name.starts_with("gitlab"))
        .collect();
    let limited = offer.limited_to(&many);
    assert_eq!(sent(&limited), ["search_tools", "get_tool_help", "use_tool"]);
    assert_eq!(limited.groups(&[]), [("gitlab".to_owned(), 118)].into());
    let found = answer(&limited, &[], "search_tools", json!({"query": "take a screenshot", "limit": 20}));
    assert!(
        !found.text().contains("playwright") && limited.get("time__convert_time").is_none(),
        "{}",
        found.text()
    );
}

#[test]
fn definitions_sent_are_the_same_in_every_situation() {
    let offer = offer(&["create_note"]);
    let bytes = |offer: &Offer| serde_json::to_vec(offer.definitions()).unwrap();
    let of = |has_sessions| offer.in_situation(crate::Situation { has_sessions, ..Default::default() });
    assert_eq!(bytes(&of(false)), bytes(&of(true)));
    let (a, b) = (super::offer(&["create_note"]), super::offer(&["create_note"]));
    assert_eq!(bytes(&a), bytes(&b), "two processes with the same settings send the same bytes");
}

#[test]
fn categories_are_listed_and_paged() {
    let offer = offer(&[]);
    let all = answer(&offer, &[], "search_tools", json!({"query": "all"}));
    assert!(all.text().contains("gitlab 118") && all.text().contains("memory "), "{}", all.text());
    let first = answer(&offer, &[], "search_tools", json!({"query": "all", "category": "excel"}));
    assert_eq!(first.text().lines().count(), 21, "{}", first.text());
    assert!(first.text().ends_with("26 more: page 2"), "{}", first.text());
    let last = answer(&offer, &[], "search_tools", json!({"query": "all", "category": "Excel", "page": 3}));
    assert_eq!(last.text().lines().count(), 6, "{}", last.text());
    let none = answer(&offer, &[], "search_tools", json!({"query": "xylophone"}));
    assert!(none.text().starts_with("No tool fits. Categories: "), "{}", none.text());
    let many = answer(&offer, &[], "search_tools", json!({"query": "merge request", "limit": 500}));
    assert!(
        many.text().ends_with("`limit` may be from 1 to 20: 20 was used instead of 500."),
        "{}",
        many.text()
    );
}

#[test]
fn tools_that_guards_deny_are_not_found() {
    let offer = offer(&[]);
    let guards = ["denied = [\"excel__*\"]"];
    let found = answer(&offer, &guards, "search_tools", json!({"query": "pivot table", "limit": 20}));
    assert!(!found.text().contains("excel"), "{}", found.text());
    let help = answer(&offer, &guards, "get_tool_help", json!({"tool_name": "excel__create_chart"}));
    assert!(!failure(&help, ToolErrorCode::NotFound).contains("excel__add"), "{help:?}");
}

#[test]
fn help_has_example_schema_and_whether_it_asks() {
    let offer = offer(&[]);
    let help = answer(&offer, &[], "get_tool_help", json!({"tool_name": "git__git_log"}));
    let text = help.text();
    assert!(
        text.starts_with(
            "git__git_log\nExample: use_tool {\"tool_name\":\"git__git_log\",\"arguments\":{\"repo_path\":\"<repo_path>\"}}\n"
        ),
        "{text}"
    );
    assert!(text.contains("\nSchema of its arguments: {") && !text.contains("asks your user"), "{text}");
    let guards = ["[profile]\ndestructive = \"ask\"\n"];
    let help = answer(&offer, &guards, "get_tool_help", json!({"tool_name": "git__git_log"}));
    assert!(help.text().contains("It asks your user first."), "{}", help.text());
}

#[test]
fn wrong_calls_are_answered_with_what_is_right() {
    let offer = offer(&["create_note"]);
    let call = |name: &str, arguments: Value| {
        answer(&offer, &[], "use_tool", json!({"tool_name": name, "arguments": arguments}))
    };
    assert_eq!(call("git__git_log", json!({"repo_path": "."})).text(), "{\"repo_path\":\".\"}");
    let unknown = call("git_lgo", json!({}));
    let error = failure(&unknown, ToolErrorCode::NotFound);
    assert!(error.starts_with("there is no tool `git_lgo`; the nearest are git__git_log"), "{error}");
    let missing = call("git__git_log", json!({"max_count": 3}));
    let error = failure(&missing, ToolErrorCode::ValidationError);
    assert!(error.starts_with("git__git_log: `repo_path` is missing\n\ngit__git_log\nExample: "), "{error}");
    let refused = call("git__git_log", json!({"repo_path": ".", "refused": 1}));
    let error = failure(&refused, ToolErrorCode::ValidationError);
    assert!(
        error.contains("this is refused\n\ngit__git_log\nExample: ") || error.contains("no argument"),
        "{error}"
    );
    // One whose schema was sent is answered as ever.
    let direct = answer(&offer, &[], "create_note", json!({}));
    assert!(!failure(&direct, ToolErrorCode::ValidationError).contains("Example"), "{direct:?}");
    for (input, expected) in [
        (json!({}), "use_tool: `tool_name` must be the name of a tool"),
        (json!({"tool_name": "use_tool"}), "use_tool: `tool_name` must be another tool than use_tool itself"),
        (json!({"tool_name": "pay", "arguments": 3}), "use_tool: `arguments` of pay must be a JSON object"),
    ] {
        let answer = answer(&offer, &[], "use_tool", input);
        assert_eq!(failure(&answer, ToolErrorCode::ValidationError), expected);
    }
}

#[test]
fn names_of_finding_tools_are_reserved() {
    let (mut registry, _) = all();
    for name in ["search_tools", "get_tool_help", "use_tool"] {
        let definition = ToolDefinition { name: name.into(), ..offer(&[]).definitions()[0].clone() };
        assert!(registry.add(Arc::new(Listed(definition))).is_err(), "{name}");
    }
}
