//! [`Offer`]: the tools that one agent type may call, and which of their definitions a model is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::guard::{Layer, ToolFacts};
use houston_domain::snippet::SnippetTool;
use houston_domain::tool_call::{ToolCall, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::tool_schema::read;
use serde_json::Number;

use crate::builtin::READ_RESULT;
use crate::many::{Catalogue, FINDING_TOOLS, Tools, arguments, finding, help};
use crate::tool::{CallContext, Plan, SharedTool, Situation};

/// The tools that one agent type may call; cheap to clone.
///
/// An offer is *direct*, or it is *searched*: then the model is sent the definitions of a few tools and of three that find,
/// describe and call the others. The definitions that are sent stay the same as long as the agent type does, so that
/// providers can cache them.
#[derive(Clone)]
pub struct Offer {
    list: Arc<List>,
    /// The lists of all situations.
    lists: Arc<Lists>,
    /// Tools of one user or of one run: in the list of every situation.
    of_run: Arc<[SharedTool]>,
    /// The tools of a searched offer.
    all: Option<Arc<Tools>>,
    /// Whether code may call the tools.
    code_mode: bool,
}

/// The lists of the situations that a run may be in. Each is made for the first run in its situation.
struct Lists {
    /// All tools, as they were given.
    tools: Vec<SharedTool>,
    /// Those of a searched offer, by their index among all.
    members: Vec<usize>,
    made: [OnceLock<Arc<List>>; Situation::COUNT],
}

struct List {
    tools: Vec<SharedTool>,
    facts: Vec<ToolFacts>,
    /// The definitions that the model is sent.
    sent: Vec<ToolDefinition>,
    searched: Option<Searched>,
}

/// What a searched list has besides.
#[derive(Clone)]
struct Searched {
    catalogue: Arc<Catalogue>,
    /// The tools that find, describe and call the others; the last of `sent`.
    tools: [SharedTool; FINDING_TOOLS],
    facts: [ToolFacts; FINDING_TOOLS],
    /// The definitions that are not sent.
    deferred: Vec<ToolDefinition>,
}

impl List {
    fn direct(tools: Vec<SharedTool>, code_mode: bool) -> Arc<Self> {
        let tools = if code_mode { callable_from_code(tools) } else { tools };
        let sent = tools.iter().map(|tool| tool.definition().clone()).collect();
        let facts = tools.iter().map(|tool| tool.facts()).collect();
        Arc::new(Self { tools, facts, sent, searched: None })
    }

    fn searched(all: &Arc<Tools>, members: Vec<usize>) -> Arc<Self> {
        let tools: Vec<SharedTool> = members.iter().map(|nth| Arc::clone(&all.tools[*nth])).collect();
        let facts = members.iter().map(|nth| all.facts[*nth].clone()).collect();
        let definitions = tools.iter().map(|tool| tool.definition().clone());
        let (mut sent, deferred): (Vec<_>, Vec<_>) =
            definitions.partition(|tool| all.direct.contains(&tool.name));
        let catalogue = Arc::new(Catalogue { all: Arc::clone(all), members });
        let finding = finding(&catalogue);
        sent.extend(finding.iter().map(|tool| tool.definition().clone()));
        let of_finding = finding.each_ref().map(|tool| tool.facts());
        let searched = Searched { catalogue, tools: finding, facts: of_finding, deferred };
        Arc::new(Self { tools, facts, sent, searched: Some(searched) })
    }

    /// The list with more tools, whose definitions are sent.
    fn with(&self, more: &[SharedTool], code_mode: bool) -> Arc<Self> {
        let tools = [self.tools.as_slice(), more].concat();
        let Some(searched) = &self.searched else { return Self::direct(tools, code_mode) };
        let more: Vec<SharedTool> =
            if code_mode { callable_from_code(tools).split_off(self.tools.len()) } else { more.to_vec() };
        let (mut facts, mut sent) = (self.facts.clone(), self.sent.clone());
        facts.extend(more.iter().map(|tool| tool.facts()));
        // Before those that find the others, which are the last.
        let at = sent.len().saturating_sub(FINDING_TOOLS);
        sent.splice(at..at, more.iter().map(|tool| tool.definition().clone()));
        let tools = self.tools.iter().cloned().chain(more).collect();
        Arc::new(Self { tools, facts, sent, searched: Some(searched.clone()) })
    }
}

/// The tools; those that run code are given the others that it may call.
fn callable_from_code(tools: Vec<SharedTool>) -> Vec<SharedTool> {
    let callable = tools.iter().filter(|tool| tool.is_for_code());
    let callable: Vec<ToolDefinition> = callable.map(|tool| tool.definition().clone()).collect();
    tools.into_iter().map(|tool| tool.calling(&callable).unwrap_or(tool)).collect()
}

/// Whether a model can be sent the schema of a tool's arguments. Providers refuse all tools for one that they cannot read.
fn is_readable(tool: &SharedTool) -> bool {
    read(&tool.definition().input_schema).is_ok()
}

impl Offer {
    pub(crate) fn of(tools: Vec<SharedTool>, code_mode: bool) -> Self {
        // One that is not offered in any situation needs what this installation does not have.
        let ever = Situation { has_sessions: true, has_skills: true, makes_plans: true };
        let can_be_offered = |tool: &SharedTool| tool.offered(ever) && is_readable(tool);
        let tools: Vec<SharedTool> = tools.into_iter().filter(can_be_offered).collect();
        let list = List::direct(tools.clone(), code_mode);
        let lists = Arc::new(Lists { tools, members: Vec::new(), made: Default::default() });
        Self { list, lists, of_run: Arc::default(), all: None, code_mode }
    }

    /// The same tools in code mode: code that one of them runs may call the others. Before [`Self::searched_above`].
    #[must_use]
    pub fn in_code_mode(self) -> Self {
        Self::of(self.lists.tools.clone(), true)
    }

    /// This offer; searched, if the definitions of its tools have more than `most_tokens` together. `direct` are the tools
    /// whose definitions are sent in any case, `tokens` returns the size of a definition.
    pub fn searched_above(
        self,
        most_tokens: u64,
        direct: &[String],
        tokens: impl Fn(&ToolDefinition) -> u64,
    ) -> Self {
        let sizes: Vec<u64> = self.list.sent.iter().map(tokens).collect();
        // Most runs have no skills: the tools for those must not make the others be searched.
        let usual = Situation { has_sessions: true, has_skills: false, makes_plans: true };
        let usual = self.list.tools.iter().zip(&sizes).filter(|(tool, _)| tool.offered(usual));
        if usual.map(|(_, size)| size).sum::<u64>() <= most_tokens {
            return self;
        }
        // The reply is streamed from its own call, and large results are read page by page.
        let always = [SEND_MESSAGE, READ_RESULT].map(str::to_owned);
        let direct = direct.iter().cloned().chain(always).collect();
        let all = Arc::new(Tools::new(self.list.tools.clone(), sizes, direct, most_tokens));
        let members = (0..all.tools.len()).collect();
        Self::searched(all, members, self.code_mode)
    }

    fn searched(all: Arc<Tools>, members: Vec<usize>, code_mode: bool) -> Self {
        let list = List::searched(&all, members.clone());
        let lists = Arc::new(Lists { tools: list.tools.clone(), members, made: Default::default() });
        Self { list, lists, of_run: Arc::default(), all: Some(all), code_mode }
    }

    /// The same tools and these, as a direct offer. `read_result` stays the last one.
    pub fn with(&self, more: &[SharedTool]) -> Self {
        let mut tools = self.list.tools.clone();
        let is_last = tools.last().is_some_and(|last| last.definition().name == READ_RESULT);
        let at = tools.len() - usize::from(is_last);
        tools.splice(at..at, more.iter().cloned());
        Self::of(tools, self.code_mode)
    }

    /// The tools offered in this situation.
    pub fn in_situation(&self, situation: Situation) -> Self {
        let made = self.lists.made.get(situation.index());
        let list = made.map_or(&self.list, |made| made.get_or_init(|| self.list_in(situation)));
        let list = match &*self.of_run {
            [] => Arc::clone(list),
            of_run => list.with(of_run, self.code_mode),
        };
        Self { list, ..self.clone() }
    }

    fn list_in(&self, situation: Situation) -> Arc<List> {
        let Lists { tools, members, .. } = &*self.lists;
        let offered = |tool: &SharedTool| tool.offered(situation);
        match &self.all {
            Some(all) => {
                let members = members.iter().copied().filter(|nth| offered(&all.tools[*nth]));
                List::searched(all, members.collect())
            }
            None => {
                List::direct(tools.iter().filter(|tool| offered(tool)).cloned().collect(), self.code_mode)
            }
        }
    }

    /// The same tools and those snippets of the user that are tools, if this offer has a tool that runs snippets.
    pub fn with_snippets(&self, snippets: &[SnippetTool]) -> Self {
        let tool = |snippet| self.list.tools.iter().find_map(|tool| tool.snippet_tool(snippet));
        let tools: Vec<SharedTool> = snippets.iter().filter_map(tool).collect();
        if tools.is_empty() { self.clone() } else { self.with_of_run(&tools) }
    }

    /// The same tools and those of one run, whose definitions are sent.
    pub fn with_of_run(&self, tools: &[SharedTool]) -> Self {
        let tools: Vec<SharedTool> = tools.iter().filter(|tool| is_readable(tool)).cloned().collect();
        let of_run = self.of_run.iter().chain(&tools).cloned().collect();
        Self { list: self.list.with(&tools, self.code_mode), of_run, ..self.clone() }
    }

    /// The definitions that are sent to the model. The last [`FINDING_TOOLS`] of a searched offer are not needed by a model that searches
    /// the [`Self::deferred`] ones itself.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.list.sent
    }

    /// The definitions that are not sent, of a searched offer: the model finds them.
    pub fn deferred(&self) -> Option<&[ToolDefinition]> {
        self.list.searched.as_ref().map(|searched| searched.deferred.as_slice())
    }

    /// Whether the model must search for most tools.
    pub fn is_searched(&self) -> bool {
        self.list.searched.is_some()
    }

    /// The tools themselves, without those that find others.
    pub fn tools(&self) -> &[SharedTool] {
        &self.list.tools
    }

    /// Only the tools with these names. Their definitions are sent if they are small enough.
    pub fn limited_to(&self, names: &[String]) -> Self {
        let is_named = |tool: &SharedTool| names.contains(&tool.definition().name);
        let Some(all) = &self.all else {
            let tools = self.list.tools.iter().filter(|tool| is_named(tool)).cloned().collect();
            return Self::of(tools, self.code_mode);
        };
        let members: Vec<usize> = (0..all.tools.len()).filter(|nth| is_named(&all.tools[*nth])).collect();
        if members.iter().map(|nth| all.sizes[*nth]).sum::<u64>() <= all.most_tokens {
            let tools = members.into_iter().map(|nth| Arc::clone(&all.tools[nth])).collect();
            return Self::of(tools, self.code_mode);
        }
        Self::searched(Arc::clone(all), members, self.code_mode)
    }

    /// The tool with this name, if it is offered.
    pub fn get(&self, name: &str) -> Option<&SharedTool> {
        let finding = self.list.searched.iter().flat_map(|searched| &searched.tools);
        self.list.tools.iter().chain(finding).find(|tool| tool.definition().name == name)
    }

    /// What guards rely on about the tool with this name, if it is offered.
    pub fn facts(&self, name: &str) -> Option<&ToolFacts> {
        let own = self.list.tools.iter().zip(&self.list.facts);
        let finding =
            self.list.searched.iter().flat_map(|searched| searched.tools.iter().zip(&searched.facts));
        own.chain(finding).find(|(tool, _)| tool.definition().name == name).map(|(_, facts)| facts)
    }

    /// The most that arguments which count items may be, of a tool whose definition the model was not sent, by JSON pointer.
    pub fn count_limits(&self, name: &str) -> BTreeMap<String, Number> {
        match self.get(name).filter(|_| self.is_deferred(name)) {
            Some(tool) => arguments::count_limits(&tool.definition().input_schema),
            None => BTreeMap::new(),
        }
    }

    fn is_deferred(&self, name: &str) -> bool {
        self.is_searched() && !self.list.sent.iter().any(|sent| sent.name == name)
    }

    /// The plan of a call. A call of an unknown tool, or with malformed arguments, is answered with an error that
    /// tells the model how to correct it.
    pub fn plan(&self, call: &ToolCall, context: &CallContext) -> Plan {
        let Some(tool) = self.get(&call.name) else {
            let why = self.no_such_tool(&call.name, context);
            return Plan::Answer(ToolResponse::failure(ToolErrorCode::NotFound, why));
        };
        if let Some(sent) = &call.malformed {
            let why = format!("{}: the arguments are not a JSON object: {sent}", call.name);
            return Plan::Answer(ToolResponse::failure(ToolErrorCode::ValidationError, why));
        }
        if !self.is_deferred(&call.name) {
            return tool.plan(&call.input, context).unwrap_or_else(|invalid| Plan::Answer(invalid.into()));
        }
        // The model may not have read the schema.
        let complaint = arguments::complaint(&tool.definition().input_schema, &call.input);
        let plan = match complaint {
            Some(complaint) => Err(format!("{}: {complaint}", call.name)),
            None => tool.plan(&call.input, context).map_err(|invalid| invalid.0),
        };
        plan.unwrap_or_else(|why| {
            let entry = self.catalogue().and_then(|catalogue| catalogue.get(&call.name, &context.guards));
            let help = entry.map(|entry| format!("\n\n{}", help(&entry))).unwrap_or_default();
            Plan::Answer(ToolResponse::failure(ToolErrorCode::ValidationError, format!("{why}{help}")))
        })
    }

    fn catalogue(&self) -> Option<&Catalogue> {
        self.list.searched.as_ref().map(|searched| &*searched.catalogue)
    }

    fn no_such_tool(&self, name: &str, context: &CallContext) -> String {
        if let Some(catalogue) = self.catalogue() {
            return catalogue.no_such_tool(name, &context.guards);
        }
        let offered: Vec<&str> = self.definitions().iter().map(|tool| tool.name.as_str()).collect();
        format!("there is no tool `{name}`; available tools: {}", offered.join(", "))
    }

    /// The groups of the tools of a searched offer, with their numbers: MCP servers, and categories of the other tools.
    pub fn groups(&self, guards: &[Arc<Layer>]) -> BTreeMap<String, usize> {
        self.catalogue().map(|catalogue| catalogue.groups(guards)).unwrap_or_default()
    }
}
