//! Tools of an agent that has many: the model is sent the definitions of a few, and finds the others by searching.
//!
//! ```text
//! search_tools {query}              → names, one line each
//! get_tool_help {tool_name}         → description, schema, an example
//! use_tool {tool_name, arguments}   → the result of that tool
//! ```
//!
//! The third is no tool of its own: the engine sees the inner call ([`houston_domain::inner_call`]), which is planned like
//! any other call. The index is built by the first search and shared by all offers of one agent type.

pub(crate) mod arguments;
mod finding;
mod index;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use houston_domain::guard::{Layer, Ruling, ToolFacts, outlook};
use houston_domain::inner_call::{ARGUMENTS, TOOL_NAME, USE_TOOL};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde_json::json;

use self::arguments::example;
use self::index::Index;
use crate::tool::SharedTool;

pub use self::finding::FINDING_TOOLS;
pub(crate) use self::finding::{finding, is_reserved};

/// The tool that finds others.
pub const SEARCH_TOOLS: &str = "search_tools";
/// Nearest names in the answer to a call of a tool that does not exist.
const NEAREST: usize = 3;
/// Least similarity of two names, from 0 to 1.
const LEAST_SIMILARITY: f64 = 0.7;

/// The tools of an agent type, with what searching them needs.
pub(crate) struct Tools {
    pub(crate) tools: Vec<SharedTool>,
    pub(crate) facts: Vec<ToolFacts>,
    /// Tokens of each definition.
    pub(crate) sizes: Vec<u64>,
    /// The tools whose definitions are always sent.
    pub(crate) direct: Vec<String>,
    /// Tokens of definitions up to which an offer is direct.
    pub(crate) most_tokens: u64,
    index: OnceLock<Index>,
}

impl Tools {
    pub(crate) fn new(
        tools: Vec<SharedTool>,
        sizes: Vec<u64>,
        direct: Vec<String>,
        most_tokens: u64,
    ) -> Self {
        let facts = tools.iter().map(|tool| tool.facts()).collect();
        Self { tools, facts, sizes, direct, most_tokens, index: OnceLock::new() }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(self.tools.iter().map(|tool| tool.definition())))
    }
}

/// The tools that one run may search: some of those of its agent type.
pub(crate) struct Catalogue {
    pub(crate) all: Arc<Tools>,
    /// The positions of the tools that the run may call.
    pub(crate) members: Vec<usize>,
}

/// A tool in the catalogue.
pub(crate) struct Entry<'c> {
    pub(crate) tool: &'c SharedTool,
    /// Its MCP server, or else its category.
    pub(crate) group: String,
    /// What the guards say of any call of it.
    pub(crate) outlook: Ruling,
}

impl Catalogue {
    /// The tools that the guards do not deny.
    pub(crate) fn entries(&self, guards: &[Arc<Layer>]) -> impl Iterator<Item = Entry<'_>> {
        self.members.iter().filter_map(|nth| self.entry(*nth, guards))
    }

    /// Those that fit a query, the best first.
    pub(crate) fn found(&self, query: &str, guards: &[Arc<Layer>]) -> impl Iterator<Item = Entry<'_>> {
        let ranked = self.all.index().ranked(query).into_iter();
        ranked.filter(|nth| self.members.contains(nth)).filter_map(|nth| self.entry(nth, guards))
    }

    /// How many tools each group has.
    pub(crate) fn groups(&self, guards: &[Arc<Layer>]) -> BTreeMap<String, usize> {
        let mut groups = BTreeMap::new();
        for entry in self.entries(guards) {
            *groups.entry(entry.group).or_default() += 1;
        }
        groups
    }

    /// The tool with this name, unless the guards deny every call of it.
    pub(crate) fn get(&self, name: &str, guards: &[Arc<Layer>]) -> Option<Entry<'_>> {
        let is_named = |nth: &&usize| self.all.tools[**nth].definition().name == name;
        self.members.iter().find(is_named).and_then(|nth| self.entry(*nth, guards))
    }

    fn entry(&self, nth: usize, guards: &[Arc<Layer>]) -> Option<Entry<'_>> {
        let (tool, facts) = (&self.all.tools[nth], &self.all.facts[nth]);
        let name = &tool.definition().name;
        let outlook = outlook(guards, name, facts);
        let group = match name.split_once("__") {
            Some((server, _)) => server.to_owned(),
            None => facts.in_force(guards, name).category.as_str().to_owned(),
        };
        (outlook != Ruling::Deny).then_some(Entry { tool, group, outlook })
    }

    /// What the model reads when it names a tool that does not exist.
    pub(crate) fn no_such_tool(&self, name: &str, guards: &[Arc<Layer>]) -> String {
        let mut rated: Vec<(f64, &str)> = self
            .entries(guards)
            .map(|entry| entry.tool.definition().name.as_str())
            .map(|other| (similarity(name, other), other))
            .filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY)
            .collect();
        rated.sort_by(|(a, name_a), (b, name_b)| b.total_cmp(a).then(name_a.cmp(name_b)));
        let mut nearest: Vec<&str> = rated.into_iter().map(|(_, name)| name).take(NEAREST).collect();
        for entry in self.found(name, guards) {
            let found = entry.tool.definition().name.as_str();
            if nearest.len() < NEAREST && !nearest.contains(&found) {
                nearest.push(found);
            }
        }
        if nearest.is_empty() {
            return format!("there is no tool `{name}`: {SEARCH_TOOLS} finds the tools there are");
        }
        let nearest = nearest.join(", ");
        format!("there is no tool `{name}`; the nearest are {nearest}. {SEARCH_TOOLS} finds others")
    }
}

/// How alike two names are: as they are, or without the server of the second.
fn similarity(given: &str, name: &str) -> f64 {
    let own = name.split_once("__").map_or(name, |(_, own)| own);
    strsim::normalized_damerau_levenshtein(given, name)
        .max(strsim::normalized_damerau_levenshtein(given, own))
}

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
