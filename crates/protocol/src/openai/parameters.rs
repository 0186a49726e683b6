//! What becomes of each parameter of `POST /responses` and `POST /chat/completions`: it is honoured, refused with a reason, or
//! accepted without effect on the answer, and then named in a header. The table is the document's, too.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The header of a response that names the parameters without effect, separated by commas.
pub const IGNORED_HEADER: &str = "houston-ignored-parameters";

/// An endpoint with parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /responses`.
    Responses,
    /// `POST /chat/completions`.
    Chat,
}

use Endpoint::{Chat, Responses};

/// What becomes of a parameter.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Houston does what it says; what is allowed is checked where it is read.
    Honoured,
    /// Other values than those that change nothing are refused: they would change what the answer is.
    Refused { changes_nothing: fn(&Value) -> bool, reason: &'static str },
    /// Without effect on the answer, for this reason.
    Ignored(&'static str),
}

/// A parameter that is refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// What is allowed.
    pub reason: String,
}

struct Parameter {
    name: &'static str,
    of: &'static [Endpoint],
    fate: Fate,
}

const BOTH: &[Endpoint] = &[Responses, Chat];
const OWN_SETTINGS: &str = "the agent has its own settings of the model";
const OWN_CACHE: &str = "Houston uses the caches of providers by itself";

const fn honoured(name: &'static str, of: &'static [Endpoint]) -> Parameter {
    Parameter { name, of, fate: Fate::Honoured }
}

const fn ignored(name: &'static str, of: &'static [Endpoint], why: &'static str) -> Parameter {
    Parameter { name, of, fate: Fate::Ignored(why) }
}

const fn refused(
    name: &'static str,
    of: &'static [Endpoint],
    changes_nothing: fn(&Value) -> bool,
    reason: &'static str,
) -> Parameter {
    Parameter { name, of, fate: Fate::Refused { changes_nothing, reason } }
}

const PARAMETERS: &[Parameter] = &[
    honoured("background", &[Responses]),
    honoured("background_options", &[Responses]),
    honoured("conversation", &[Responses]),
    honoured("input", &[Responses]),
    honoured("instructions", &[Responses]),
    honoured("messages", &[Chat]),
    honoured("metadata", BOTH),
    honoured("model", BOTH),
    honoured("parallel_tool_calls", BOTH),
    honoured("previous_response_id", &[Responses]),
    honoured("prompt_cache_retention", BOTH),
    honoured("safety_identifier", BOTH),
    honoured("service_tier", BOTH),
    honoured("stream", BOTH),
    honoured("stream_options", BOTH),
    honoured("tool_choice", BOTH),
    honoured("tools", BOTH),
    honoured("response_format", &[Chat]),
    honoured("text", &[Responses]),
    honoured("max_completion_tokens", &[Chat]),
    honoured("max_output_tokens", &[Responses]),
    honoured("max_tokens", &[Chat]),
    honoured("reasoning", &[Responses]),
    honoured("reasoning_effort", &[Chat]),
    honoured("stop", &[Chat]),
    honoured("temperature", BOTH),
    honoured("top_p", BOTH),
    honoured("user", BOTH),
    refused("audio", &[Chat], |_| false, "is not supported: answers are text"),
    refused("function_call", &[Chat], |value| value == "auto", "is not supported; use `tools`"),
    refused("functions", &[Chat], is_empty_list, "is not supported; use `tools`"),
    refused(
        "logprobs",
        &[Chat],
        |value| value == &Value::Bool(false),
        "is not supported: models' probabilities are not kept",
    ),
    refused("max_tool_calls", &[Responses], |_| false, "is not supported: limits of calls are the agent's"),
    refused(
        "modalities",
        &[Chat],
        |value| value.as_array().is_some_and(|list| list.iter().all(|one| one == "text")),
        "must be `[\"text\"]`: answers are text",
    ),
    refused("n", &[Chat], |value| value.as_f64() == Some(1.0), "must be 1: a run has one answer"),
    refused("prompt", &[Responses], |_| false, "is not supported: an agent has its own instructions"),
    refused(
        "store",
        &[Responses],
        |value| value == &Value::Bool(true),
        "false is not possible: the thread is what the agent remembers. Leave it out, and delete the conversation afterwards",
    ),
    refused(
        "top_logprobs",
        BOTH,
        |value| value.as_f64() == Some(0.0),
        "must be 0: models' probabilities are not kept",
    ),
    refused("web_search_options", &[Chat], |_| false, "is not supported: the agent has its own tools"),
    ignored("access_programs", &[Responses], "there are none here"),
    ignored("context_management", &[Responses], "Houston keeps the history within the model's window"),
    ignored("frequency_penalty", &[Chat], OWN_SETTINGS),
    ignored("image", &[Responses], OWN_SETTINGS),
    ignored("include", &[Responses], "responses have what they have"),
    ignored("logit_bias", &[Chat], OWN_SETTINGS),
    ignored("moderation", BOTH, "the agent's guards check what it says"),
    ignored("prediction", &[Chat], OWN_SETTINGS),
    ignored("presence_penalty", &[Chat], OWN_SETTINGS),
    ignored("prompt_cache_key", BOTH, OWN_CACHE),
    ignored("prompt_cache_options", BOTH, OWN_CACHE),
    ignored("seed", &[Chat], OWN_SETTINGS),
    ignored("store", &[Chat], "the thread is what the agent remembers, and is kept in any case"),
    ignored("truncation", &[Responses], "Houston keeps the history within the model's window"),
    ignored("verbosity", &[Chat], OWN_SETTINGS),
];

/// Fields without effect of parameters that are honoured, with the names that the header has.
const FIELDS: [(&str, &str, &str); 2] =
    [("text", "verbosity", "text.verbosity"), ("reasoning", "summary", "reasoning.summary")];

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn find(endpoint: Endpoint, name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name && parameter.of.contains(&endpoint))
}

/// The parameters of a request that have no effect on its answer. `null` is like leaving one out.
///
/// # Errors
/// [`Refused`]: the first that would change the answer, or that the endpoint does not have.
pub fn judge(endpoint: Endpoint, given: &Map<String, Value>) -> Result<Vec<&str>, Refused> {
    let mut ignored = Vec::new();
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let refuse = |reason: &str| Err(Refused { name: name.clone(), reason: reason.to_owned() });
        match find(endpoint, name).map(|parameter| parameter.fate) {
            None => return refuse("is no parameter of this endpoint"),
            Some(Fate::Honoured) => {
                let fields = FIELDS.iter().filter(|(of, field, _)| of == name && !value[field].is_null());
                ignored.extend(fields.map(|(_, _, named)| *named));
            }
            Some(Fate::Refused { changes_nothing, reason }) if !changes_nothing(value) => {
                return refuse(reason);
            }
            Some(Fate::Refused { .. }) => {}
            Some(Fate::Ignored(_)) => ignored.push(name),
        }
    }
    Ok(ignored)
}

/// The table as Markdown.
#[must_use]
pub fn document() -> String {
    let mut rows: Vec<&Parameter> = PARAMETERS.iter().collect();
    rows.sort_by_key(|parameter| parameter.name);
    let mut table = String::from("| parameter | of | what becomes of it |\n|---|---|---|\n");
    for Parameter { name, of, fate } in rows {
        let of = match of {
            [Responses] => "responses",
            [Chat] => "chat",
            _ => "both",
        };
        let _ = match fate {
            Fate::Honoured => writeln!(table, "| `{name}` | {of} | honoured |"),
            Fate::Refused { reason, .. } => writeln!(table, "| `{name}` | {of} | refused: {reason} |"),
            Fate::Ignored(why) => writeln!(table, "| `{name}` | {of} | without effect: {why} |"),
        };
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(endpoint: Endpoint, given: Value) -> Result<Vec<String>, String> {
        let Value::Object(given) = given else { panic!("an object") };
        match judge(endpoint, &given) {
            Ok(ignored) => Ok(ignored.into_iter().map(str::to_owned).collect()),
            Err(refused) => Err(refused.name),
        }
    }

    #[test]
    fn what_changes_the_answer_is_refused_and_the_rest_named() {
        let of = |given| judged(Chat, given);
        let nothing =
            json!({"n": 1, "tool_choice": "auto", "stop": null, "stream_options": {}, "logprobs": false});
        assert_eq!(of(nothing), Ok(vec![]));
        let tuned = json!({"max_tokens": 16, "seed": 1, "store": false, "temperature": 0.2, "stop": "x"});
        assert_eq!(of(tuned), Ok(["seed", "store"].map(str::to_owned).to_vec()));
        for (name, value) in [
            ("n", json!(2)),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("function_call", json!({"name": "f"})),
            ("modalities", json!(["text", "audio"])),
            ("temperatur", json!(1)),
            ("background", json!(true)),
        ] {
            assert_eq!(of(json!({name: value})), Err(name.to_owned()));
        }
        let text = json!({"text": {"format": {"type": "text"}, "verbosity": "low"}, "truncation": "auto",
            "reasoning": {"effort": "low", "summary": "auto"}});
        let named = ["text.verbosity", "truncation", "reasoning.summary"].map(str::to_owned).to_vec();
        assert_eq!(judged(Responses, text), Ok(named));
        assert_eq!(judged(Responses, json!({"store": false})), Err("store".to_owned()));
    }

    #[test]
    fn each_parameter_has_one_fate_and_is_in_the_readme() {
        for endpoint in [Responses, Chat] {
            let names: Vec<_> =
                PARAMETERS.iter().filter(|one| one.of.contains(&endpoint)).map(|one| one.name).collect();
            let once: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(once.len(), names.len(), "{endpoint:?}");
        }
        let readme = include_str!("../../../api/README.md");
        assert!(readme.contains(&document()), "crates/api/README.md must contain:\n{}", document());
    }
}
