//! Tries a model for each field of its [`Profile`]: [`examine`].
//!
//! Each field is tried alone, with a short request that has what the field is about. The values of a field are tried from the one
//! that promises most; the first that the provider accepts is what was found. What it silently ignores counts as accepted.

use std::sync::Arc;

use houston_domain::answering::Effort;
use houston_domain::attachment::SentDocument;
use houston_domain::history::{Block, Entry};
use houston_domain::id::AttachmentId;
use houston_domain::model::{ModelAnswer, ModelError, Usage};
use houston_domain::model_policy::{CachePolicy, Latency};
use houston_domain::tool_call::ToolDefinition;
use serde::Serialize;
use serde_json::{Value, json};

use crate::call::{collected, text_of};
use crate::connection::{Connection, connect_as};
use crate::http::Http;
use crate::ledger::Ledger;
use crate::model::{AnswerSchema, Description, Image, Request};
use crate::profile::{Changes, Profile};
use crate::provider::{Choice, Lookup, TokenSource};

/// What was found about a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The model, as `provider/model`.
    pub model: String,
    /// Each field that was tried.
    pub fields: Vec<Finding>,
    /// Requests that were sent.
    pub requests: usize,
    /// What they have used, as far as answers were received.
    pub usage: Usage,
}

/// What was found about one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its name in `[profiles]` of `jobs/models.toml`.
    pub field: &'static str,
    /// What the table says, with the operator's rows.
    pub table: Value,
    /// What the model accepts. `None`: it could not be found out.
    pub found: Option<Value>,
    /// Why not, or why what promises more was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Finding {
    /// Whether the table is wrong.
    pub fn differs(&self) -> bool {
        self.found.as_ref().is_some_and(|found| *found != self.table)
    }
}

impl Report {
    /// The lines of `jobs/models.toml` with which requests are made as was found; `None`: the table is right.
    pub fn lines(&self) -> Option<String> {
        let wrong = self.fields.iter().filter(|finding| finding.differs());
        let lines: Vec<String> = wrong
            .filter_map(|finding| Some(format!("{} = {}\n", finding.field, finding.found.as_ref()?)))
            .collect();
        (!lines.is_empty()).then(|| format!("[profiles.\"{}\"]\n{}", self.model, lines.concat()))
    }
}

/// The most requests that [`examine`] sends.
pub const MOST_REQUESTS: u64 = 40;

/// The most tokens that it sends and receives in all.
pub fn most_usage() -> Usage {
    let output_tokens = u64::from(ROOM) * (MOST_REQUESTS - 6) + u64::from(ROOM_TO_THINK) * 6;
    Usage { input_tokens: 400 * MOST_REQUESTS, output_tokens, ..Usage::default() }
}

/// Longest answer, in tokens.
const ROOM: u32 = 256;
/// Longest answer of a request that asks for an effort of thinking.
const ROOM_TO_THINK: u32 = 2_048;

/// What a request has for a field to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Plain,
    Tools,
    ForcedTool,
    Sampling,
    Temperature,
    TopP,
    Stop,
    Schema,
    SchemaWithTools,
    Effort(Effort),
    Cache(CachePolicy),
    Tier(Latency),
    Image,
    Document,
}

/// Tries a model for each field of its profile.
///
/// # Errors
/// The error of the first request, if the model cannot be asked at all; [`ModelError`] as from
/// [`connect`](crate::connect).
pub async fn examine(
    choice: &Choice,
    http: &Http,
    lookup: Lookup<'_>,
    tokens: Option<Arc<dyn TokenSource>>,
) -> Result<Report, ModelError> {
    let mut own = Changes { wire: choice.wire, ..Changes::default() };
    let description = choice.description();
    let table = Profile::with(&description.provider, &description.model, &own);
    let mut patient =
        Patient { choice, http: &http.exact(), lookup, tokens, requests: 0, usage: Usage::default() };
    let mut fields = Vec::new();
    for Trial { field, values, asks } in fields_of(&table, &description) {
        let mut finding = Finding { field, table: table.field(field), found: None, why: None };
        let mut failed = false;
        for value in values {
            let Ok(change) = serde_json::from_value::<Changes>(json!({ field: value })) else { continue };
            // Without a tier nothing is sent that could be refused.
            let is_nothing = matches!(asks, Asks::Tier(_)) && value == "";
            let accepted = match is_nothing {
                true => Ok(()),
                false => patient.accepts(own.clone().then(change.clone()), asks).await,
            };
            match accepted {
                Ok(()) => {
                    own = own.then(change);
                    finding.found = Some(value);
                    break;
                }
                Err(Refusal::Refused(why)) => {
                    finding.why.get_or_insert(why);
                }
                Err(Refusal::Failed(error)) if fields.is_empty() => return Err(error),
                Err(Refusal::Failed(error)) => {
                    finding.why = Some(error.to_string());
                    failed = true;
                    break;
                }
            }
        }
        if field == "vision" && finding.found.is_none() && finding.why.is_some() && !failed {
            finding.found = Some(json!(false));
        }
        fields.push(finding);
    }
    if let Some(finding) = patient.efforts(&table, &own).await {
        fields.push(finding);
    }
    let Patient { requests, usage, .. } = patient;
    Ok(Report { model: description.to_string(), fields, requests, usage })
}

/// A field that is tried.
struct Trial {
    field: &'static str,
    /// From the one that promises most.
    values: Vec<Value>,
    asks: Asks,
}

/// The fields that can be tried.
fn fields_of(table: &Profile, model: &Description) -> Vec<Trial> {
    let both = || vec![json!(true), json!(false)];
    let of = |values: &[&str]| values.iter().map(|value| json!(value)).collect::<Vec<_>>();
    // What the table says first: a lax server accepts either.
    let first = |field, others: &[&str]| {
        let said = table.field(field);
        let others = of(others).into_iter().filter(|other| *other != said);
        std::iter::once(said.clone()).chain(others).collect::<Vec<_>>()
    };
    let has_tools = model.supports_tools;
    let is_chat = table.wire == crate::Wire::OpenAiChat;
    let wires = std::iter::once(table.wire).chain(table.wire.alternative()).map(|wire| json!(wire)).collect();
    let schemas = ["json_schema", "json_object", "prompt_only"];
    let schemas = schemas.into_iter().filter(|schema| is_chat || *schema != "json_object");
    let forced =
        if table.wire == crate::Wire::Ollama { &["auto"][..] } else { &["named", "required", "auto"] };
    let caches = &["key", "none"][usize::from(table.field("cache") == "marks")..];
    let keeps_long = ["marks", "retention", "options"].iter().any(|cache| table.field("cache") == *cache);
    let (relaxed, fast) = ("relaxed_tier", "fast_tier");
    let limits = first("output_limit", &["max_tokens", "max_completion_tokens"]);
    let fields = [
        (is_chat, "output_limit", limits, Asks::Plain),
        (is_chat, "stream_options", both(), Asks::Plain),
        (true, "wire", wires, if has_tools { Asks::Tools } else { Asks::Plain }),
        (true, "temperature", both(), Asks::Temperature),
        (true, "top_p", both(), Asks::TopP),
        (true, "temperature_with_top_p", both(), Asks::Sampling),
        (true, "stop", both(), Asks::Stop),
        (true, "result_schema", schemas.map(Value::from).collect(), Asks::Schema),
        (has_tools, "schema_with_tools", both(), Asks::SchemaWithTools),
        (has_tools, "forced_tool", of(forced), Asks::ForcedTool),
        (true, "cache", first("cache", caches), Asks::Cache(CachePolicy::Short)),
        (keeps_long, "long_cache", both(), Asks::Cache(CachePolicy::Long)),
        (table.field(relaxed) != "", relaxed, first(relaxed, &[""]), Asks::Tier(Latency::Relaxed)),
        (table.field(fast) != "", fast, first(fast, &[""]), Asks::Tier(Latency::Fast)),
        // There is no other way to send an image.
        (true, "vision", vec![json!(true)], Asks::Image),
        (table.documents, "documents", both(), Asks::Document),
    ];
    let tried = fields.into_iter().filter(|(is_tried, ..)| *is_tried);
    tried.map(|(_, field, values, asks)| Trial { field, values, asks }).collect()
}

/// Why a value is not what was found.
enum Refusal {
    /// The provider refused it, or did not do it.
    Refused(String),
    /// The request failed in another way.
    Failed(ModelError),
}

/// A model that is examined.
struct Patient<'a> {
    choice: &'a Choice,
    http: &'a Http,
    lookup: Lookup<'a>,
    tokens: Option<Arc<dyn TokenSource>>,
    requests: usize,
    usage: Usage,
}

impl Patient<'_> {
    /// The efforts that it accepts, if it has a setting for them.
    async fn efforts(&mut self, table: &Profile, own: &Changes) -> Option<Finding> {
        const ALL: [Effort; 6] =
            [Effort::None, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max];
        if table.thinking == crate::profile::Thinking::None {
            return None;
        }
        let mut finding = Finding { field: "efforts", table: table.field("efforts"), found: None, why: None };
        let own = own.clone().then(Changes { efforts: Some(ALL.to_vec()), ..Changes::default() });
        let mut accepted = Vec::new();
        for effort in ALL {
            match self.accepts(own.clone(), Asks::Effort(effort)).await {
                Ok(()) => accepted.push(effort),
                Err(Refusal::Refused(why)) => {
                    finding.why.get_or_insert(why);
                }
                Err(Refusal::Failed(error)) => {
                    finding.why = Some(error.to_string());
                    return Some(finding);
                }
            }
        }
        finding.found = Some(json!(accepted));
        Some(finding)
    }

    /// Whether a request that has what is asked for is accepted with this profile, and done.
    async fn accepts(&mut self, own: Changes, asks: Asks) -> Result<(), Refusal> {
        let tokens = self.tokens.clone();
        let connection = Connection { http: self.http, lookup: self.lookup, tokens, own };
        let model = connect_as(self.choice, connection).map_err(Refusal::Failed)?;
        let ledger = Ledger::default();
        self.requests += 1;
        let sample = Sample::new(asks);
        let answer = collected(&*model, &Request { ledger: Some(&ledger), ..sample.request(asks) }).await;
        let now = chrono::DateTime::<chrono::Utc>::MAX_UTC;
        for used in ledger.take() {
            self.usage += used.call(0, now).usage;
        }
        match answer {
            Ok((answer, _)) => has_done(&answer, asks).map_err(Refusal::Refused),
            Err(error) if error.refuses_the_request() => Err(Refusal::Refused(reason(error))),
            Err(error) => Err(Refusal::Failed(error)),
        }
    }
}

fn reason(error: ModelError) -> String {
    error.cause.map_or(error.message, String::from)
}

/// Whether an answer shows that what was asked for was done, where it can.
fn has_done(answer: &ModelAnswer, asks: Asks) -> Result<(), String> {
    let called = |block: &Block| matches!(block, Block::ToolUse { name, .. } if name == FORCED);
    match asks {
        Asks::ForcedTool if !answer.content.iter().any(called) => Err("it was not called".to_owned()),
        Asks::Schema if !has_json(&text_of(answer)) => Err("the answer is not JSON".to_owned()),
        Asks::Tier(_) if answer.usage.tier.is_none() => Err("the usual tier answered".to_owned()),
        _ => Ok(()),
    }
}

/// Whether there is a JSON object in a text; a model that was only told to may write something around it.
fn has_json(text: &str) -> bool {
    let object = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    object.is_some_and(|object| serde_json::from_str::<Value>(object).is_ok())
}

/// The tool that must be called.
const FORCED: &str = "find";
/// An image of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// An empty page.
const PAGE: &str = "JVBERi0xLjEKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZy9QYWdlcyAyIDAgUj4+ZW5kb2JqCjIgMCBvYmo8PC9UeXBlL1BhZ2VzL0tpZHNbMyAwIFJdL0NvdW50IDE+PmVuZG9iagozIDAgb2JqPDwvVHlwZS9QYWdlL1BhcmVudCAyIDAgUi9NZWRpYUJveFswIDAgOSA5XT4+ZW5kb2JqCnRyYWlsZXI8PC9Sb290IDEgMCBSPj4K";

/// What the requests consist of.
struct Sample {
    entries: Vec<Entry>,
    tools: Vec<ToolDefinition>,
    stop: [String; 1],
    schema: Value,
}

impl Sample {
    fn new(asks: Asks) -> Self {
        let text = match asks {
            Asks::ForcedTool => "Find the word yes.",
            Asks::Schema | Asks::SchemaWithTools => {
                "Answer with the JSON object {\"answer\": \"yes\"} and nothing else."
            }
            _ => "Answer with the word yes and nothing else.",
        };
        let mut content = vec![Block::text(text)];
        if asks == Asks::Document {
            content.push(Block::Document(SentDocument {
                id: AttachmentId(Default::default()),
                name: "empty.pdf".to_owned(),
                base64: PAGE.into(),
                unread: "[An empty page.]".to_owned(),
            }));
        }
        let tool = |name: &str| ToolDefinition {
            name: name.to_owned(),
            description: "Looks something up.".to_owned(),
            input_schema:
                json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
                    .into(),
            effect: houston_domain::tool_call::EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        };
        let has_tools = matches!(asks, Asks::Tools | Asks::ForcedTool | Asks::SchemaWithTools);
        Self {
            entries: vec![Entry::user(content)],
            tools: if has_tools { vec![tool("look"), tool(FORCED)] } else { Vec::new() },
            stop: ["STOP".to_owned()],
            schema: json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"],
                "additionalProperties": false}),
        }
    }

    fn request(&self, asks: Asks) -> Request<'_> {
        let has = |any: &[Asks]| any.contains(&asks);
        Request {
            entries: &self.entries,
            tools: &self.tools,
            must_call: has(&[Asks::ForcedTool]).then_some(FORCED),
            max_output_tokens: if matches!(asks, Asks::Effort(_)) { ROOM_TO_THINK } else { ROOM },
            temperature: has(&[Asks::Temperature, Asks::Sampling]).then_some(0.5),
            top_p: has(&[Asks::TopP, Asks::Sampling]).then_some(0.9),
            stop: if asks == Asks::Stop { &self.stop } else { &[] },
            effort: if let Asks::Effort(effort) = asks { Some(effort) } else { None },
            answer_schema: has(&[Asks::Schema, Asks::SchemaWithTools]).then_some(AnswerSchema {
                name: "answer",
                schema: &self.schema,
                strict: true,
            }),
            image: has(&[Asks::Image]).then_some(Image { media_type: "image/png", base64: PIXEL }),
            cache: if let Asks::Cache(cache) = asks { cache } else { CachePolicy::Off },
            cache_key: matches!(asks, Asks::Cache(_)).then_some("houston-doctor"),
            latency: if let Asks::Tier(latency) = asks { latency } else { Latency::Interactive },
            ..Request::default()
        }
    }
}
