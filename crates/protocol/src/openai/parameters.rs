//! What becomes of each parameter of `POST /responses` and `POST /chat/completions`: it is honoured, refused with a reason, or
//! accepted without effect on the answer, and then named in a header. The table is the document's, too.

use std::fmt::Write as _;

use houston_domain::setting::WrongSetting;
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
use Fate::{Honoured, Ignored, Refused};

/// What becomes of a parameter.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Houston does what it says; what is allowed is checked where it is read.
    Honoured,
    /// Other values than those that change nothing are refused, for this reason: they would change what the answer is.
    Refused(fn(&Value) -> bool, &'static str),
    /// Without effect on the answer, for this reason.
    Ignored(&'static str),
}

/// The name of a parameter, the endpoints that have it, and what becomes of it.
type Parameter = (&'static str, &'static [Endpoint], Fate);

const BOTH: &[Endpoint] = &[Responses, Chat];
const OWN_SETTINGS: &str = "the agent has its own settings of the model";
const OWN_CACHE: &str = "Houston uses the caches of providers by itself";

const PARAMETERS: &[Parameter] = &[
    ("background", &[Responses], Honoured),
    ("background_options", &[Responses], Honoured),
    ("conversation", &[Responses], Honoured),
    ("input", &[Responses], Honoured),
    ("instructions", &[Responses], Honoured),
    ("messages", &[Chat], Honoured),
    ("metadata", BOTH, Honoured),
    ("model", BOTH, Honoured),
    ("parallel_tool_calls", BOTH, Honoured),
    ("previous_response_id", &[Responses], Honoured),
    ("prompt_cache_retention", BOTH, Honoured),
    ("safety_identifier", BOTH, Honoured),
    ("service_tier", BOTH, Honoured),
    ("stream", BOTH, Honoured),
    ("stream_options", BOTH, Honoured),
    ("tool_choice", BOTH, Honoured),
    ("tools", BOTH, Honoured),
    ("response_format", &[Chat], Honoured),
    ("text", &[Responses], Honoured),
    ("max_completion_tokens", &[Chat], Honoured),
    ("max_output_tokens", &[Responses], Honoured),
    ("max_tokens", &[Chat], Honoured),
    ("reasoning", &[Responses], Honoured),
    ("reasoning_effort", &[Chat], Honoured),
    ("stop", &[Chat], Honoured),
    ("temperature", BOTH, Honoured),
    ("top_p", BOTH, Honoured),
    ("user", BOTH, Honoured),
    ("audio", &[Chat], Refused(|_| false, "is not supported: answers are text")),
    ("function_call", &[Chat], Refused(|value| value == "auto", "is not supported; use `tools`")),
    ("functions", &[Chat], Refused(is_empty_list, "is not supported; use `tools`")),
    (
        "logprobs",
        &[Chat],
        Refused(|value| value == false, "is not supported: models' probabilities are not kept"),
    ),
    ("max_tool_calls", &[Responses], Refused(|_| false, "is not supported: limits of calls are the agent's")),
    ("modalities", &[Chat], Refused(is_text, "must be `[\"text\"]`: answers are text")),
    ("n", &[Chat], Refused(|value| value.as_f64() == Some(1.0), "must be 1: a run has one answer")),
    ("prompt", &[Responses], Refused(|_| false, "is not supported: an agent has its own instructions")),
    (
        "store",
        &[Responses],
        Refused(
            |value| value == true,
            "false is not possible: the thread is what the agent remembers. Leave it out, and delete the conversation afterwards",
        ),
    ),
    (
        "top_logprobs",
        BOTH,
        Refused(|value| value.as_f64() == Some(0.0), "must be 0: models' probabilities are not kept"),
    ),
    ("web_search_options", &[Chat], Refused(|_| false, "is not supported: the agent has its own tools")),
    ("access_programs", &[Responses], Ignored("there are none here")),
    ("context_management", &[Responses], Ignored("Houston keeps the history within the model's window")),
    ("frequency_penalty", &[Chat], Ignored(OWN_SETTINGS)),
    ("image", &[Responses], Ignored(OWN_SETTINGS)),
    ("include", &[Responses], Ignored("responses have what they have")),
    ("logit_bias", &[Chat], Ignored(OWN_SETTINGS)),
    ("moderation", BOTH, Ignored("the agent's guards check what it says")),
    ("prediction", &[Chat], Ignored(OWN_SETTINGS)),
    ("presence_penalty", &[Chat], Ignored(OWN_SETTINGS)),
    ("prompt_cache_key", BOTH, Ignored(OWN_CACHE)),
    ("prompt_cache_options", BOTH, Ignored(OWN_CACHE)),
    ("seed", &[Chat], Ignored(OWN_SETTINGS)),
    ("store", &[Chat], Ignored("the thread is what the agent remembers, and is kept in any case")),
    ("truncation", &[Responses], Ignored("Houston keeps the history within the model's window")),
    ("verbosity", &[Chat], Ignored(OWN_SETTINGS)),
];

/// Fields without effect of parameters that are honoured, with the names that the header has.
const FIELDS: [(&str, &str, &str); 2] =
    [("text", "verbosity", "text.verbosity"), ("reasoning", "summary", "reasoning.summary")];

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_text(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(|one| one == "text"))
}

/// The parameters of a request that have no effect on its answer. `null` is like leaving one out.
///
/// # Errors
/// [`WrongSetting`]: the first that would change the answer, or that the endpoint does not have.
pub fn judge(endpoint: Endpoint, given: &Map<String, Value>) -> Result<Vec<&str>, WrongSetting> {
    let mut ignored = Vec::new();
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let refuse = |reason: &str| Err(WrongSetting::new(format!("/{name}"), reason));
        let parameter = PARAMETERS.iter().find(|(known, of, _)| known == name && of.contains(&endpoint));
        match parameter.map(|(_, _, fate)| fate) {
            None => return refuse("is no parameter of this endpoint"),
            Some(Honoured) => {
                let fields = FIELDS.iter().filter(|(of, field, _)| of == name && !value[field].is_null());
                ignored.extend(fields.map(|(_, _, named)| *named));
            }
            Some(Refused(changes_nothing, reason)) if !changes_nothing(value) => return refuse(reason),
            Some(Refused(..)) => {}
            Some(Ignored(_)) => ignored.push(name),
        }
    }
    Ok(ignored)
}

/// The table as Markdown.
pub fn document() -> String {
    let mut rows: Vec<&Parameter> = PARAMETERS.iter().collect();
    rows.sort_by_key(|(name, _, _)| *name);
    let mut table = String::from("| parameter | of | what becomes of it |\n|---|---|---|\n");
    for (name, of, fate) in rows {
        let of = match of {
            [Responses] => "responses",
            [Chat] => "chat",
            _ => "both",
        };
        let _ = match fate {
            Honoured => writeln!(table, "| `{name}` | {of} | honoured |"),
            Refused(_, reason) => writeln!(table, "| `{name}` | {of} | refused: {reason} |"),
            Ignored(why) => writeln!(table, "| `{name}` | {of} | without effect: {why} |"),
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
            Err(refused) => Err(refused.pointer.replace('/', "")),
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
            let names: Vec<_> = PARAMETERS
                .iter()
                .filter(|(_, of, _)| of.contains(&endpoint))
                .map(|(name, _, _)| name)
                .collect();
            let once: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(once.len(), names.len(), "{endpoint:?}");
        }
        let readme = include_str!("../../../api/README.md");
        assert!(readme.contains(&document()), "crates/api/README.md must contain:\n{}", document());
    }
}
