//! [`ClientOffer`]: what the client of a message offers the run that answers it: tools that the client carries out, and what it
//! shows its user.
//!
//! A call of such a tool pauses, and asks a question whose subject is [`CLIENT_PREFIX`] and the id of the call. The client answers it
//! with the result: any JSON value, as the `content` of an [`InputAnswer`](crate::question::input::InputAnswer) ([`result_answer`]).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::limits::LimitChanges;
use crate::answering::{Output, Sampling, is_name, name_rule};
use crate::focus::{Focus, FocusRef};
use crate::model_policy::ModelPolicy;
use crate::question::input::CLIENT_PREFIX;
use crate::setting::{WrongSetting, require};
use crate::tool_schema::read;

/// The most tools that a client offers.
pub const MAX_TOOLS: usize = 64;
/// The most bytes of JSON of all tools together.
pub const MAX_TOOLS_BYTES: usize = 64 * 1024;
/// The most items of context.
pub const MAX_CONTEXT_ITEMS: usize = 32;
/// The most bytes of the context: all descriptions and values together.
pub const MAX_CONTEXT_BYTES: usize = 32 * 1024;
/// The `description` of an item of AG-UI's `context` whose value is a focus as JSON.
pub const FOCUS_ITEM: &str = "focus";

/// What a client offers a run.
///
/// ```json
/// {"tools": [{"name": "show_map", "description": "Shows a place.", "parameters": {"type": "object"}}],
///  "context": [{"description": "the page", "value": "/hotels"}]}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientOffer {
    /// The tools that the client carries out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// What the client shows its user. No one has checked it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
    /// What the message is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<Focus>,
    /// What the answer must be. `None`: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// How the model chooses its words, where the message says so.
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
    /// Limits of the run below those of the agent.
    #[serde(default, skip_serializing_if = "LimitChanges::is_empty")]
    pub limits: LimitChanges,
    /// The names of those of `tools` of which the model must call one, before it says something. Empty: it decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must_call: Vec<String>,
    /// Whether the model calls at most one of `tools` at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_call: bool,
    /// How its model is called.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_unset")]
    pub model_policy: ModelPolicy,
    /// That of the last run which had one; only as it is read for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_focus: Option<Focus>,
}

/// A tool that the client carries out.
///
/// ```json
/// {"name": "show_map", "description": "Shows a place on the map.", "parameters": {"type": "object",
///  "properties": {"place": {"type": "string"}}, "required": ["place"]}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = InputTool))]
pub struct ClientTool {
    /// 1 to 64 of the characters A-Z, a-z, 0-9, `_` and `-`; not that of a tool of the agent.
    pub name: String,
    /// When and how to use it, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments, an object.
    #[serde(default = "any_object")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub parameters: Arc<Value>,
}

fn any_object() -> Arc<Value> {
    Arc::new(json!({}))
}

/// Something that the client shows its user: `{"description": "the page", "value": "/hotels"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = InputContext))]
pub struct ContextItem {
    /// What it is.
    #[serde(default)]
    pub description: String,
    /// Its text.
    pub value: String,
}

impl ContextItem {
    /// The focus that it is; `None`: it is no focus.
    pub fn focus(&self) -> Option<Focus> {
        let is_focus = self.description.trim() == FOCUS_ITEM;
        is_focus.then(|| serde_json::from_str(&self.value).ok()).flatten()
    }
}

impl ClientOffer {
    /// The same, with the item of its context that is a focus as its focus.
    #[must_use]
    pub fn focused(mut self) -> Self {
        if let Some(at) = self.context.iter().position(|item| item.focus().is_some()) {
            self.focus = self.context.remove(at).focus();
        }
        self
    }

    /// The focuses of the last run and of this one, if they are about different things.
    pub fn shift(&self) -> Option<(FocusRef, FocusRef)> {
        let (last, now) = (self.last_focus.as_ref()?.thing(), self.focus.as_ref()?.thing());
        (last != now).then_some((last, now))
    }

    /// Whether nothing is offered.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Checks counts, sizes, names and schemas. `is_taken`: the names of the tools that the agent has already.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub fn check(&self, is_taken: impl Fn(&str) -> bool) -> Result<(), WrongSetting> {
        let Self { tools, context, focus, output, sampling, limits, .. } = self;
        output.as_ref().map_or(Ok(()), Output::check).map_err(|wrong| wrong.below("/output"))?;
        sampling.check().map_err(|wrong| wrong.below("/sampling"))?;
        limits.check(None).map_err(|wrong| wrong.below("/limits"))?;
        let reason = format_args!("has {} tools; at most {MAX_TOOLS} are allowed", tools.len());
        require(tools.len() <= MAX_TOOLS, "/tools", reason)?;
        let bytes = serde_json::to_vec(tools).map_or(usize::MAX, |json| json.len());
        let reason = format_args!("have {bytes} bytes as JSON; at most {MAX_TOOLS_BYTES} are allowed");
        require(bytes <= MAX_TOOLS_BYTES, "/tools", reason)?;
        for (nth, tool) in tools.iter().enumerate() {
            let at = format!("/tools/{nth}/name");
            require(is_name(&tool.name), &at, name_rule())?;
            let reason = format_args!("the agent has a tool `{}` already: use another name", tool.name);
            require(!is_taken(&tool.name), &at, reason)?;
            let reason = format_args!("`{}` is offered twice", tool.name);
            require(tools[..nth].iter().all(|other| other.name != tool.name), &at, reason)?;
            if let Err(reason) = read(&tool.parameters) {
                let reason = format!("cannot be offered: {reason}");
                return Err(WrongSetting::new(format!("/tools/{nth}/parameters"), reason));
            }
        }
        let reason = format_args!("has {} items; at most {MAX_CONTEXT_ITEMS} are allowed", context.len());
        require(context.len() <= MAX_CONTEXT_ITEMS, "/context", reason)?;
        let bytes: usize = context.iter().map(|item| item.description.len() + item.value.len()).sum();
        let reason = format_args!("has {bytes} bytes; at most {MAX_CONTEXT_BYTES} are allowed");
        require(bytes <= MAX_CONTEXT_BYTES, "/context", reason)?;
        focus.as_ref().map_or(Ok(()), Focus::check).map_err(|wrong| wrong.below("/context"))
    }
}

/// The subject of a question about a call.
pub fn subject(call: &str) -> String {
    format!("{CLIENT_PREFIX}{call}")
}

/// The answer to a question about a call: its result.
pub fn result_answer(result: Value) -> Value {
    json!({"action": "accept", "content": result})
}

/// The result of a call that failed at the client.
pub fn failed(error: &str) -> Value {
    json!({"error": error})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> ClientTool {
        ClientTool { name: name.into(), description: String::new(), parameters: Arc::new(json!({})) }
    }

    fn wrong(offer: &ClientOffer) -> Option<String> {
        offer.check(|name| name == "taken").err().map(|wrong| wrong.pointer)
    }

    #[test]
    fn wrong_offers_are_refused_with_their_place() {
        let tools = |tools: Vec<ClientTool>| ClientOffer { tools, ..ClientOffer::default() };
        assert_eq!(wrong(&tools(vec![tool("show_map"), tool("go-back")])), None);
        assert_eq!(wrong(&tools(vec![tool("a"), tool("taken")])).unwrap(), "/tools/1/name");
        assert_eq!(wrong(&tools(vec![tool("a"), tool("a")])).unwrap(), "/tools/1/name");
        for name in ["", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(wrong(&tools(vec![tool(name)])).unwrap(), "/tools/0/name", "{name}");
        }
        assert_eq!(wrong(&tools((0..65).map(|nth| tool(&nth.to_string())).collect())).unwrap(), "/tools");
        let long = ClientTool { description: "x".repeat(70_000), ..tool("a") };
        assert_eq!(wrong(&tools(vec![long])).unwrap(), "/tools");
        let list = ClientTool { parameters: Arc::new(json!([])), ..tool("a") };
        assert_eq!(wrong(&tools(vec![list])).unwrap(), "/tools/0/parameters");
    }

    #[test]
    fn limits_of_a_message_are_at_least_one() {
        let of = |limits| wrong(&ClientOffer { limits, ..ClientOffer::default() });
        assert_eq!(of(LimitChanges { max_iterations: Some(1), ..LimitChanges::default() }), None);
        let none = LimitChanges { max_output_tokens: Some(0), ..LimitChanges::default() };
        assert_eq!(of(none).unwrap(), "/limits/max_output_tokens");
    }

    #[test]
    fn item_of_ag_ui_may_be_a_focus() {
        let item = |description: &str, value: &str| ContextItem {
            description: description.into(),
            value: value.into(),
        };
        let found = item("focus", r#"{"type": "order", "id": "17"}"#).focus();
        assert_eq!(found, Some(Focus { kind: "order".into(), id: "17".into(), data: None }));
        assert_eq!(item("the page", r#"{"type": "order", "id": "17"}"#).focus(), None);
        assert_eq!(item("focus", "the form").focus(), None);
    }

    #[test]
    fn context_is_bounded() {
        let item = |bytes: usize| ContextItem { description: String::new(), value: "x".repeat(bytes) };
        let context = |context: Vec<ContextItem>| ClientOffer { context, ..ClientOffer::default() };
        assert_eq!(wrong(&context(vec![item(MAX_CONTEXT_BYTES)])), None);
        assert_eq!(wrong(&context(vec![item(MAX_CONTEXT_BYTES), item(1)])).unwrap(), "/context");
        assert_eq!(wrong(&context(vec![item(1); 33])).unwrap(), "/context");
    }
}
