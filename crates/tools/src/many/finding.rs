//! The tools that find, describe and call the tools of a catalogue. They belong to an offer, not to the registry: which tools
//! they find depends on it.

use std::sync::Arc;

use houston_domain::inner_call::{ARGUMENTS, TOOL_NAME, USE_TOOL};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Catalogue, Entry, SEARCH_TOOLS, first_sentence, help};
use crate::input::{InvalidInput, Refusal, failed};
use crate::tool::{CallContext, Plan, SharedTool, Tool};
use crate::typed::{About, BuiltIn, shared};

/// How many tools find, describe and call the others.
pub const FINDING_TOOLS: usize = 3;

/// The tools for a catalogue.
pub(crate) fn finding(catalogue: &Arc<Catalogue>) -> [SharedTool; FINDING_TOOLS] {
    [
        shared::<SearchTools, _>(Arc::clone(catalogue)),
        shared::<GetToolHelp, _>(Arc::clone(catalogue)),
        Arc::new(UseTool::new()),
    ]
}

/// Whether it is the name of one of [`finding`]: no other tool may have it.
pub(crate) fn is_reserved(name: &str) -> bool {
    [SearchTools::NAME, GetToolHelp::NAME, USE_TOOL].contains(&name)
}

/// Instead of a query: all tools.
const ALL: &str = "all";
/// Tools in an answer, if the call does not say how many, and at most.
const USUAL: usize = 5;
const MOST: usize = 20;

/// Ranks the tools of the run for a query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// A call without a query is answered; one with it finds something.
#[schemars(extend("required" = ["query"]))]
#[schemars(description = format!(
    "Find tools by what they do: you have more than are listed here. Returns names, the best first. Then {} for the \
     arguments, then {USE_TOOL}.",
    GetToolHelp::NAME
))]
struct SearchTools {
    /// A few words, as "create calendar event". "all" lists everything.
    #[serde(default)]
    query: String,
    /// Only tools of this category.
    category: Option<String>,
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
    #[schemars(range(min = 1))]
    page: Option<usize>,
}

impl About for SearchTools {
    const NAME: &'static str = SEARCH_TOOLS;
    const EFFECT: EffectClass = EffectClass::Read;
}

impl BuiltIn<Arc<Catalogue>> for SearchTools {
    fn plan(self, context: &CallContext, catalogue: &Arc<Catalogue>) -> Result<Plan, Refusal> {
        Ok(Plan::Answer(ToolResponse::success(self.answer(catalogue, context))))
    }
}

impl SearchTools {
    fn answer(self, catalogue: &Catalogue, context: &CallContext) -> String {
        let Self { query, category, limit, page } = self;
        let (query, lists_all) = (query.trim(), is_all(&query));
        let of_category = |entry: &Entry<'_>| {
            category.as_ref().is_none_or(|wanted| entry.group.eq_ignore_ascii_case(wanted))
        };
        if lists_all && category.is_none() {
            let categories = categories(catalogue, context);
            return format!("{categories}\nAsk again with a category, or with a query.");
        }
        let found: Vec<Entry<'_>> = match lists_all {
            true => catalogue.entries(&context.guards).filter(of_category).collect(),
            false => catalogue.found(query, &context.guards).filter(of_category).collect(),
        };
        let usual = if lists_all { MOST } else { USUAL };
        let size = limit.unwrap_or(usual).clamp(1, MOST);
        let skipped = page.unwrap_or(1).saturating_sub(1).saturating_mul(size);
        let lines = found.iter().skip(skipped).take(size).map(|entry| {
            let definition = entry.tool.definition();
            format!("{}: {}", definition.name, first_sentence(&definition.description))
        });
        let mut lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            let nothing = if skipped > 0 { "There are no more." } else { "No tool fits." };
            return format!("{nothing} {}", categories(catalogue, context));
        }
        let rest = found.len().saturating_sub(skipped + lines.len());
        if rest > 0 && lists_all {
            lines.push(format!("{rest} more: page {}", page.unwrap_or(1) + 1));
        }
        if let Some(asked) = limit.filter(|asked| *asked != size) {
            lines.push(format!("`limit` may be from 1 to {MOST}: {size} was used instead of {asked}."));
        }
        lines.join("\n")
    }
}

/// The categories with the numbers of their tools, as one line.
fn categories(catalogue: &Catalogue, context: &CallContext) -> String {
    let groups = catalogue.groups(&context.guards).into_iter();
    let groups: Vec<String> = groups.map(|(group, count)| format!("{group} {count}")).collect();
    format!("Categories: {}", groups.join(", "))
}

fn is_all(query: &str) -> bool {
    matches!(query.trim().to_lowercase().as_str(), ALL | "" | "*")
}

/// Describes a tool of the run: everything about one whose definition the model was not sent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!("The arguments of a tool, with an example. Read it before the first {USE_TOOL} of that tool."))]
struct GetToolHelp {
    tool_name: String,
}

impl About for GetToolHelp {
    const NAME: &'static str = "get_tool_help";
    const EFFECT: EffectClass = EffectClass::Read;
}

impl BuiltIn<Arc<Catalogue>> for GetToolHelp {
    fn plan(self, context: &CallContext, catalogue: &Arc<Catalogue>) -> Result<Plan, Refusal> {
        let name = &self.tool_name;
        let entry = catalogue
            .get(name.trim(), &context.guards)
            .ok_or_else(|| failed(ToolErrorCode::NotFound, catalogue.no_such_tool(name, &context.guards)))?;
        Ok(Plan::Answer(ToolResponse::success(help(&entry))))
    }
}

/// Its calls are planned as calls of the inner tool ([`houston_domain::inner_call`]). Only one that names none comes here.
struct UseTool(ToolDefinition);

impl UseTool {
    fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                TOOL_NAME: {"type": "string"},
                ARGUMENTS: {"type": "object", "description": format!("As {} says.", GetToolHelp::NAME)},
            },
            "required": [TOOL_NAME, ARGUMENTS],
            "additionalProperties": false,
        });
        let description = format!(
            "Call a tool found with {SEARCH_TOOLS}. Wrong arguments are answered with the help of that tool."
        );
        Self(ToolDefinition::new(USE_TOOL, description, schema, EffectClass::Read))
    }
}

impl Tool for UseTool {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _: &CallContext) -> Result<Plan, InvalidInput> {
        let name = input.get(TOOL_NAME).and_then(Value::as_str).unwrap_or_default().trim();
        Err(InvalidInput(match name {
            "" => format!("{USE_TOOL}: `{TOOL_NAME}` must be the name of a tool"),
            USE_TOOL => format!("{USE_TOOL}: `{TOOL_NAME}` must be another tool than {USE_TOOL} itself"),
            name => format!("{USE_TOOL}: `{ARGUMENTS}` of {name} must be a JSON object"),
        }))
    }
}
