//! The settings of an agent: the checks of a body that sets them, against what they may refer to ([`AgentSources`]).

use houston_domain::agent_settings::{
    AgentSettings, DEFAULT, MAX_AGENT_DESCRIPTION_BYTES, MAX_AGENT_NAME_CHARS, MAX_INSTRUCTIONS_CHARS,
    MAX_MODEL_CHARS,
};
use houston_domain::agentable::AgentType;
use houston_domain::answering::Output;
use houston_protocol::agent::AgentSettingsRequest;

use crate::request::checks::{check_one_line, suggestion, truncated};
use crate::request::prelude::*;
use crate::resources::agentables::tools::check_of_kind;
use crate::wiring::{AgentSources, ProviderName};

/// Whether a change gives `fields` and nothing else, except perhaps `version` and whether its model must be listed.
fn gives_only(body: &AgentSettingsRequest, fields: AgentSettingsRequest) -> bool {
    let AgentSettingsRequest { version, allow_unlisted_model, .. } = *body;
    *body == AgentSettingsRequest { version, allow_unlisted_model, ..fields }
}

/// Whether no field is given that changes something.
pub(super) fn is_empty(body: &AgentSettingsRequest) -> bool {
    gives_only(body, AgentSettingsRequest::default())
}

/// Whether a field of [`AgentSettings`] is given, besides the name, which was taken out.
pub(super) fn changes_settings(body: &AgentSettingsRequest) -> bool {
    !gives_only(body, AgentSettingsRequest { enabled: body.enabled, ..AgentSettingsRequest::default() })
}

/// Whether a field is given that the file of the kind also has.
pub(super) fn changes_file_settings(body: &AgentSettingsRequest) -> bool {
    let description = body.description.clone();
    let others =
        AgentSettingsRequest { enabled: body.enabled, description, ..AgentSettingsRequest::default() };
    !gives_only(body, others)
}

pub(super) fn check_name(name: &str) -> Result<()> {
    check_one_line("/name", name, MAX_AGENT_NAME_CHARS)
}

/// Checks the given fields and applies them to `settings` of an agent of `kind`.
pub(super) fn apply(
    body: AgentSettingsRequest,
    mut settings: AgentSettings,
    kind: &AgentType,
    sources: &AgentSources,
) -> Result<AgentSettings> {
    let allow_unlisted = body.allow_unlisted_model;
    if let Some(description) = body.description {
        check_bytes("/description", &description, MAX_AGENT_DESCRIPTION_BYTES)?;
        settings.description = description;
    }
    if let Some(role) = body.role {
        check_line("/role", &role, MAX_INSTRUCTIONS_CHARS)?;
        settings.role = role;
    }
    if let Some(guidelines) = body.guidelines {
        check_text("/guidelines", &guidelines)?;
        if guidelines.chars().count() > MAX_INSTRUCTIONS_CHARS {
            let detail = format!("must have at most {MAX_INSTRUCTIONS_CHARS} characters");
            return Err(ApiError::field("/guidelines", detail));
        }
        settings.guidelines = guidelines;
    }
    if let Some(tools) = body.tools {
        check_of_kind(&tools, kind, &sources.tools, "/tools")?;
        settings.tools = tools;
    }
    if let Some(use_case) = body.use_case {
        check_use_case(&use_case, kind, &sources.use_cases)?;
        settings.use_case = use_case;
    }
    if let Some(limits) = body.limits {
        // The operator's limits bound the cost of runs.
        let checked = limits.check(Some(&sources.limits.with(kind.limits)));
        checked.map_err(|wrong| wrong.below("/limits"))?;
        settings.limits = limits;
    }
    if let Some(sampling) = body.sampling {
        sampling.check().map_err(|wrong| wrong.below("/sampling"))?;
        settings.sampling = sampling;
    }
    if let Some(output) = body.output {
        check_output(output.as_ref())?;
        settings.output = output;
    }
    settings.model_policy = body.model_policy.unwrap_or(settings.model_policy);
    let names_model = body.provider.is_some() || body.model.is_some();
    settings.provider = body.provider.unwrap_or(settings.provider);
    settings.model = body.model.unwrap_or(settings.model);
    if names_model {
        check_model(&mut settings, sources, allow_unlisted)?;
    }
    Ok(settings)
}

/// Checks the form of answers, at `/output`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it cannot be used, or Postgres could not store it.
pub(crate) fn check_output(output: Option<&Output>) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    output.check().map_err(|wrong| wrong.below("/output"))?;
    check_storable_value("/output/schema", &output.schema)
}

fn check_use_case(use_case: &str, kind: &AgentType, use_cases: &[String]) -> Result<()> {
    // The use case of a kind's file is always accepted: the file may name models instead of a use case.
    if use_cases.iter().any(|existing| existing == use_case) || use_case == kind.use_case {
        return Ok(());
    }
    let existing: Vec<&str> = use_cases.iter().map(String::as_str).collect();
    let detail = format!(
        "there is no use case `{}`; there are: {}{}",
        truncated(use_case),
        existing.join(", "),
        suggestion(use_case, &existing)
    );
    Err(ApiError::field("/use_case", detail))
}

fn check_model(settings: &mut AgentSettings, sources: &AgentSources, allow_unlisted: bool) -> Result<()> {
    let model = settings.model.as_str();
    let is_name = !model.is_empty()
        && model.chars().count() <= MAX_MODEL_CHARS
        && !model.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',');
    if !is_name {
        let detail = format!("must be `default` or the name of one model: 1 to {MAX_MODEL_CHARS} characters");
        return Err(ApiError::field("/model", detail));
    }
    if settings.provider == DEFAULT {
        return Ok(());
    }
    let provider = provider(&sources.providers, &settings.provider)
        .map_err(|detail| ApiError::field("/provider", detail))?;
    if model == DEFAULT && provider.needs_model {
        let detail = format!("{} has no default model; name a model", provider.name);
        return Err(ApiError::field("/model", detail));
    }
    let nearest = (model != DEFAULT && provider.is_listed && !allow_unlisted)
        .then(|| (sources.nearest_model)(&provider.name, model))
        .flatten();
    if let Some(nearest) = nearest {
        let detail = format!(
            "`{}` is not a listed model of {}; did you mean `{nearest}`? A model newer than this release is accepted \
             with `allow_unlisted_model`: true",
            truncated(model),
            provider.name
        );
        return Err(ApiError::field("/model", detail));
    }
    settings.provider.clone_from(&provider.name);
    Ok(())
}

/// Finds a provider that agents may name by name or alias, ignoring case.
///
/// # Errors
/// A message with the allowed providers and the most similar one.
fn provider<'s>(providers: &'s [ProviderName], given: &str) -> Result<&'s ProviderName, String> {
    let lower = given.to_ascii_lowercase();
    let called = |one: &&ProviderName| one.name == lower || one.aliases.contains(&lower);
    providers.iter().find(called).ok_or_else(|| {
        let names: Vec<&str> = providers.iter().map(|one| one.name.as_str()).collect();
        let names_and_aliases = providers.iter().flat_map(|one| one.aliases.iter().chain([&one.name]));
        let names_and_aliases: Vec<&str> = names_and_aliases.map(String::as_str).collect();
        format!(
            "there is no provider `{}`; there are: default, {}{}",
            truncated(given),
            names.join(", "),
            suggestion(&lower, &names_and_aliases)
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use houston_domain::agent::limits::Limits;

    use super::*;

    fn sources() -> AgentSources {
        let provider = |name: &str, needs_model, is_listed| ProviderName {
            name: name.to_owned(),
            aliases: vec![format!("{name}-alias")],
            needs_model,
            is_listed,
        };
        AgentSources {
            tools: ["send_message", "create_note", "launch_rocket"].map(String::from).to_vec(),
            use_cases: ["agent", "titles"].map(String::from).to_vec(),
            providers: vec![provider("openai", false, true), provider("custom", true, false)],
            overseer: houston_domain::overseer::Settings::default(),
            nearest_model: |_, model| (model != "gpt-5").then_some("gpt-5"),
            limits: Limits { max_output_tokens: 1000, ..Limits::USUAL },
            read_files: Arc::new(|| Ok(BTreeMap::new())),
        }
    }

    fn apply(body: &str) -> Result<AgentSettings, (String, String)> {
        let kind: AgentType = toml::from_str(include_str!("../../../../../jobs/agents/goal.toml")).unwrap();
        let body: AgentSettingsRequest = serde_json::from_str(body).unwrap();
        super::apply(body, AgentSettings::of(&kind), &kind, &sources()).map_err(|error| match error {
            ApiError::InvalidRequest(errors) => {
                (errors[0].pointer.clone().unwrap(), errors[0].detail.clone())
            }
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn errors_have_a_pointer_the_allowed_values_and_a_suggestion() {
        for (body, pointer, words) in [
            (
                r#"{"tools": ["send_message", "creat_note"]}"#,
                "/tools/1",
                &["no tool `creat_note`", "send_message, ", "did you mean `create_note`?"][..],
            ),
            (r#"{"tools": ["launch_rocket"]}"#, "/tools/0", &["not among the tools of the kind `goal`"]),
            (r#"{"tools": ["create_note", "create_note"]}"#, "/tools/1", &["twice"]),
            (r#"{"use_case": "title"}"#, "/use_case", &["agent, titles", "did you mean `titles`?"]),
            (r#"{"provider": "opnai"}"#, "/provider", &["default, openai, custom", "did you mean `openai`?"]),
            (
                r#"{"provider": "openai", "model": "gpt-55"}"#,
                "/model",
                &["not a listed model of openai", "`gpt-5`", "allow_unlisted_model"],
            ),
            (r#"{"provider": "custom"}"#, "/model", &["custom has no default model"]),
            (r#"{"model": ""}"#, "/model", &["`default`"]),
            (r#"{"model": "a, b"}"#, "/model", &["one model"]),
            (r#"{"limits": {"max_iterations": 21}}"#, "/limits/max_iterations", &["from 1 to 20"]),
            (r#"{"limits": {"max_history_entries": 0}}"#, "/limits/max_history_entries", &["1 or more"]),
            (r#"{"role": " "}"#, "/role", &["empty"]),
        ] {
            let (at, detail) = apply(body).unwrap_err();
            assert_eq!(at, pointer, "{body}: {detail}");
            for word in words {
                assert!(detail.contains(word), "{body}: `{detail}` does not say `{word}`");
            }
        }
    }

    #[test]
    fn valid_fields_are_applied_and_others_stay_unchanged() {
        let set = apply(
            r#"{"provider": "OpenAI-alias", "model": "gpt-5", "tools": ["create_note"], "use_case": "titles",
                "limits": {"max_iterations": 2}}"#,
        )
        .unwrap();
        assert_eq!((set.provider.as_str(), set.model.as_str()), ("openai", "gpt-5"));
        assert_eq!((set.tools, set.limits.max_iterations), (vec!["create_note".to_owned()], Some(2)));
        assert!(set.role.contains("one goal of your user"));
        let newer = apply(r#"{"provider": "openai", "model": "gpt-6", "allow_unlisted_model": true}"#);
        assert_eq!(newer.unwrap().model, "gpt-6");
        assert_eq!(apply(r#"{"provider": "custom", "model": "mine"}"#).unwrap().model, "mine");
        assert_eq!(apply(r#"{"model": "whatever"}"#).unwrap().provider, "default");
    }
}
