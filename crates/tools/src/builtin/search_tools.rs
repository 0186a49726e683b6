//! `search_tools`: finds tools whose definitions the model was not sent.

use std::sync::Arc;

use houston_domain::inner_call::USE_TOOL;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use super::get_tool_help;
use crate::input;
use crate::many::{Catalogue, Entry, first_sentence};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub const NAME: &str = "search_tools";

/// Instead of a query: all tools.
const ALL: &str = "all";
/// Tools in an answer, if the call does not say how many, and at most.
const USUAL: usize = 5;
const MOST: usize = 20;

/// Ranks the tools of the run for a query.
pub(crate) struct SearchTools {
    definition: ToolDefinition,
    catalogue: Arc<Catalogue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    query: String,
    category: Option<String>,
    limit: Option<usize>,
    page: Option<usize>,
}

impl SearchTools {
    pub(crate) fn new(catalogue: Arc<Catalogue>) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Find tools by what they do: you have more than are listed here. Returns names, the best first. Then {} \
                 for the arguments, then {USE_TOOL}.",
                get_tool_help::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "A few words, as \"create calendar event\". \"all\" lists everything."},
                    "category": {"type": "string", "description": "Only tools of this category."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MOST},
                    "page": {"type": "integer", "minimum": 1},
                },
                "required": ["query"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, catalogue }
    }

    /// The categories with the numbers of their tools, as one line.
    fn categories(&self, context: &CallContext) -> String {
        let groups = self.catalogue.groups(&context.guards);
        let groups: Vec<String> =
            groups.into_iter().map(|(group, count)| format!("{group} {count}")).collect();
        format!("Categories: {}", groups.join(", "))
    }

    fn answer(&self, input: Input, context: &CallContext) -> String {
        let Input { query, category, limit, page } = input;
        let (query, lists_all) = (query.trim(), is_all(&query));
        let of_category = |entry: &Entry<'_>| {
            category.as_ref().is_none_or(|wanted| entry.group.eq_ignore_ascii_case(wanted))
        };
        if lists_all && category.is_none() {
            return format!("{}\nAsk again with a category, or with a query.", self.categories(context));
        }
        let found: Vec<Entry<'_>> = match lists_all {
            true => self.catalogue.entries(&context.guards).filter(of_category).collect(),
            false => self.catalogue.found(query, &context.guards).filter(of_category).collect(),
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
            return format!("{nothing} {}", self.categories(context));
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

fn is_all(query: &str) -> bool {
    matches!(query.trim().to_lowercase().as_str(), ALL | "" | "*")
}

impl Tool for SearchTools {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let input = input::read(NAME, input)?;
        Ok(Plan::Answer(ToolResponse::success(self.answer(input, context))))
    }
}
