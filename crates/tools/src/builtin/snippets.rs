//! Snippets: code that is kept for all agents of the user. What a name and a schema are is decided in
//! [`houston_domain::snippet`].

use std::sync::Arc;

use houston_domain::guard::ToolFacts;
use houston_domain::snippet::{self, MAX_CODE_CHARS, MAX_DESCRIPTION_CHARS, SnippetTool};
use houston_domain::tool_call::ToolDefinition;
use houston_sandbox::Language;
use houston_store::snippet::{NewSnippet, SavedSnippet, SnippetEntry};
use serde_json::{Map, Value, json};

use super::prelude::*;
use super::run_code::{LANGUAGES, Scripts, runs_code};
use crate::input::InvalidInput;
use crate::many::arguments;
use crate::tool::{SharedTool, Tool};

built_in! {
    SaveSnippet: "save_snippet", Idempotent, capability Snippets;
    ListSnippets: "list_snippets", Read, capability Snippets;
    ReadSnippet: "read_snippet", Read, capability Snippets;
    RunSnippet: "run_snippet", Idempotent, capability Snippets, for_code false, facts runs_code;
    DeleteSnippet: "delete_snippet", Idempotent, capability Snippets;
    // What code asks for, a person would have to decide while the code waits.
    CreateTool: "create_tool", Idempotent, capability Snippets, for_code false, facts makes_tool;
}

/// The language as it is stored.
fn language_name(language: Language) -> &'static str {
    match language {
        Language::JavaScript => "javascript",
        Language::TypeScript => "typescript",
    }
}

/// Saves a snippet. Written with the step: exactly once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Keep code that will be needed again, for all agents of your user; one of the same name is replaced. Try it first. \
     {} runs it.",
    RunSnippet::NAME
))]
pub(super) struct SaveSnippet {
    /// Small letters, digits and `_`: monthly_report.
    name: String,
    /// One line: what it does, what `input` has, what it returns.
    description: String,
    #[schemars(description = format!(
        "The body of an async function, which reads its argument as `input`. At most {MAX_CODE_CHARS} characters."
    ))]
    code: String,
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = LANGUAGES))]
    language: Language,
}

impl BuiltIn for SaveSnippet {
    fn is_available(outside: &Outside) -> bool {
        outside.sandbox.is_some()
    }

    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan> {
        snippet::check_name(&self.name).map_err(invalid)?;
        line("description", self.description.as_str(), MAX_DESCRIPTION_CHARS)?;
        text("code", self.code.as_str(), usize::MAX)?;
        snippet::check_code(&self.code).map_err(invalid)?;
        Ok(Plan::record(Save(self), context))
    }
}

#[derive(Debug)]
struct Save(SaveSnippet);

impl Access for Save {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let SaveSnippet { name, description, code, language } = &self.0;
        let snippet = NewSnippet { name, language: language_name(*language), description, code, tool: None };
        let SavedSnippet { replaced, lost_tool } = tx.knowledge().save_snippet(&snippet, 0).await?;
        let done = if replaced { "Replaced" } else { "Saved" };
        let lost = if lost_tool {
            format!(" {} is no tool any more: a person must allow it again.", snippet::tool_name(name))
        } else {
            String::new()
        };
        Ok(format!("{done} {name}.{lost}"))
    }
}

/// Lists snippets without their code, in the order of their names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "List the code that was saved for your user: names and what each does. {} shows the code.",
    ReadSnippet::NAME
))]
pub(super) struct ListSnippets {}

impl Access for ListSnippets {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let found = tx.knowledge().snippets("", None).await?;
        if found.is_empty() {
            return Ok("There are no snippets yet.".to_owned());
        }
        let lines: Vec<String> = found.into_iter().map(described).collect();
        Ok(lines.join("\n"))
    }
}

/// `monthly_report (javascript, 120 characters): what it does`
fn described(entry: SnippetEntry) -> String {
    let SnippetEntry { name, language, description, chars, untrusted, tool, .. } = entry;
    let tool = tool.map_or_else(String::new, |tool| format!(", the tool {tool}"));
    let description = untrusted::stored(untrusted, &format!("snippet {name}"), description);
    format!("{name} ({language}, {chars} characters{tool}): {description}")
}

// What runs a snippet reads it with this tool.
/// Read the code of a saved snippet.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadSnippet {
    name: String,
}

impl Access for ReadSnippet {
    fn check(&self, _: &CallContext) -> Result<()> {
        snippet::check_name(&self.name).map_err(invalid)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let source = format!("snippet {}", self.name);
        let found = tx.knowledge().snippet(&self.name).await?;
        let found = found.ok_or_else(|| not_found(&source, ListSnippets::NAME))?;
        let text = json!({
            "name": found.name, "language": found.language, "description": found.description, "code": found.code,
            "pin": found.pin,
        })
        .to_string();
        // As JSON, the text has no `<` that could look like the end of a mark.
        let text = if found.untrusted { text.replace('<', "\\u003c") } else { text };
        Ok(untrusted::stored(found.untrusted, &source, text))
    }
}

/// Run a saved snippet, and read what it returns.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSnippet {
    name: String,
    /// What its code reads as `input`.
    #[schemars(with = "Option<Map<String, Value>>")]
    input: Option<Value>,
}

impl BuiltIn<Scripts> for RunSnippet {
    fn is_available(scripts: &Scripts) -> bool {
        scripts.sandbox.is_some()
    }

    fn calling(scripts: &Scripts, tools: &[ToolDefinition]) -> Option<Scripts> {
        Some(scripts.with_tools(tools))
    }

    fn snippet_tool(scripts: &Scripts, tool: &SnippetTool) -> Option<SharedTool> {
        let schema = tool.input_schema.clone();
        let definition =
            ToolDefinition::new(tool.tool_name(), &tool.description, schema, EffectClass::Idempotent);
        let runner = SnippetRunner { tool: tool.clone(), definition, scripts: scripts.clone() };
        scripts.may_be_tools.then(|| Arc::new(runner) as SharedTool)
    }

    fn plan(self, context: &CallContext, scripts: &Scripts) -> Result<Plan, Refusal> {
        snippet::check_name(&self.name).map_err(invalid)?;
        let input = self.input.unwrap_or_else(|| json!({}));
        Ok(scripts.plan_snippet(Self::NAME, self.name, None, input, context))
    }
}

/// A snippet that a person let become a tool.
#[derive(Clone)]
struct SnippetRunner {
    tool: SnippetTool,
    definition: ToolDefinition,
    scripts: Scripts,
}

impl Tool for SnippetRunner {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_for_code(&self) -> bool {
        false
    }

    fn calling(&self, tools: &[ToolDefinition]) -> Option<SharedTool> {
        Some(Arc::new(Self { scripts: self.scripts.with_tools(tools), ..self.clone() }))
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts { untrusted_output: self.tool.untrusted, ..runs_code() }
    }

    fn pin(&self) -> Option<&str> {
        Some(&self.tool.pin)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        if let Some(complaint) = arguments::complaint(&self.tool.input_schema, input) {
            return Err(InvalidInput(format!("{}: {complaint}", self.definition.name)));
        }
        let (name, pin) = (self.tool.name.clone(), Some(self.tool.pin.clone()));
        Ok(self.scripts.plan_snippet(RunSnippet::NAME, name, pin, input.clone(), context))
    }
}

/// Delete a saved snippet for good, for all agents of your user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteSnippet {
    name: String,
}

impl Access for DeleteSnippet {
    fn check(&self, _: &CallContext) -> Result<()> {
        snippet::check_name(&self.name).map_err(invalid)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let name = &self.name;
        let was_there = tx.knowledge().delete_snippet(name).await?;
        ensure!(was_there, not_found(format!("snippet {name}"), ListSnippets::NAME));
        Ok(format!("Deleted {name}."))
    }
}

// The arguments are all that the tool is, so a person who allows the call allows this tool and no other.
/// Make code a tool of all agents of your user, from the next run on. A person must allow it. Try the code first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateTool {
    #[schemars(description = format!(
        "Small letters, digits and `_`. The tool is called {}<name>.", snippet::TOOL_PREFIX
    ))]
    name: String,
    /// One line: what it does, and what it returns.
    description: String,
    /// The JSON schema of its arguments, an object.
    #[schemars(with = "Map<String, Value>")]
    input_schema: Value,
    #[schemars(description = format!(
        "The body of an async function, which reads its arguments as `input`. At most {MAX_CODE_CHARS} characters."
    ))]
    code: String,
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = LANGUAGES))]
    language: Language,
}

/// What guards rely on: as calling the tool runs the code, a person is asked about each.
fn makes_tool() -> ToolFacts {
    ToolFacts { asks_each_time: true, ..runs_code() }
}

impl BuiltIn for CreateTool {
    fn is_available(outside: &Outside) -> bool {
        outside.sandbox.is_some() && outside.snippet_tools > 0
    }

    fn plan(self, context: &CallContext, outside: &Outside) -> Result<Plan> {
        snippet::check_name(&self.name).map_err(invalid)?;
        line("description", self.description.as_str(), MAX_DESCRIPTION_CHARS)?;
        text("code", self.code.as_str(), usize::MAX)?;
        snippet::check_code(&self.code).map_err(invalid)?;
        snippet::check_schema(&self.input_schema).map_err(invalid)?;
        Ok(Plan::record(Make { call: self, most: outside.snippet_tools }, context))
    }
}

#[derive(Debug)]
struct Make {
    call: CreateTool,
    /// How many tools a user may have.
    most: u32,
}

impl Access for Make {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let CreateTool { name, description, input_schema, code, language } = &self.call;
        let language = language_name(*language);
        let pin = snippet::pin(name, language, description, code, input_schema);
        let tool = Some((input_schema, pin.as_str()));
        let snippet = NewSnippet { name, language, description, code, tool };
        tx.knowledge().save_snippet(&snippet, self.most).await?;
        let name = snippet::tool_name(name);
        Ok(format!("{name} is a tool of your user's agents from the next run on."))
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
