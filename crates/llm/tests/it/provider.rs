//! From a choice to a model.

use houston_domain::model::ModelErrorCode as Code;
use houston_llm::{
    Choice, Description, Event, Model as _, PROVIDERS, Secret, Timeouts, Unavailable, Wire, connect,
    parse_choice,
};

use crate::caller::{QUICK, call, http};
use crate::server::server;

#[test]
fn a_choice_is_read_and_a_slip_is_met_with_the_nearest_name() {
    let choice = parse_choice("openrouter/anthropic/claude-haiku-4.5").unwrap();
    assert_eq!(
        (choice.provider.as_str(), choice.model.as_str()),
        ("openrouter", "anthropic/claude-haiku-4.5")
    );
    assert_eq!(parse_choice(" Anthropic ").unwrap().to_string(), "anthropic/claude-sonnet-5-5");
    let error = parse_choice("antropic/claude").unwrap_err();
    assert_eq!(error.code, Code::ProviderNotSupported);
    assert!(error.message.contains("did you mean anthropic?"), "{}", error.message);
    for row in PROVIDERS {
        assert_eq!(parse_choice(row.name).unwrap().model, row.default_model);
    }
}

#[test]
fn what_is_missing_is_named_in_one_line() {
    let http = http(Timeouts::default());
    for row in PROVIDERS {
        let result = connect(&Choice::new(row.name, "m"), &http, &|_| None);
        let error = match result {
            Ok(model) => {
                assert!(!row.needs_key);
                assert_eq!(model.description().simulated, row.name == "simulated");
                continue;
            }
            Err(error) => error,
        };
        assert_eq!(error.code, Code::ProviderNotConfigured);
        let variable = if row.needs_key { row.key_variable } else { row.url_variable };
        assert!(
            error.message.contains(&format!("set {variable}")) && !error.message.contains('\n'),
            "{error}"
        );
    }
    let error = connect(&Choice::new("anthropic", "m"), &http, &|_| Some(" ".into())).err().unwrap();
    assert_eq!(
        error.message,
        "anthropic needs a key: set ANTHROPIC_API_KEY (or choose another model with HOUSTON_MODEL=provider/model)"
    );
    let choice = Choice { base_url: Some("ftp://x".into()), ..Choice::new("local", "m") };
    assert_eq!(connect(&choice, &http, &|_| None).err().unwrap().code, Code::ProviderNotConfigured);
    let choice = Choice { key: Some(Secret::new("a\nb")), ..Choice::new("openai", "m") };
    let error = connect(&choice, &http, &|_| None).err().unwrap();
    assert!(!error.message.contains('b') || !error.message.contains("a\nb"), "{error}");
}

#[tokio::test]
async fn the_key_is_sent_as_the_provider_wants_it_and_never_shown() {
    let (base, requests) = server(|mut asked| {
        let key =
            asked.request.lines().find_map(|line| line.strip_prefix("x-api-key: ")).unwrap_or("?").to_owned();
        let body = format!(
            r#"{{"type":"error","error":{{"type":"authentication_error","message":"bad key {key}"}}}}"#
        );
        asked.answer("401 Unauthorized", "request-id: req_1\r\n", &body);
        asked.request
    });
    let lookup = move |name: &str| match name {
        "ANTHROPIC_API_KEY" => Some("sk-ant-secret\n".to_owned()),
        "ANTHROPIC_BASE_URL" => Some(base.clone()),
        _ => None,
    };
    let model = connect(&Choice::new("anthropic", "claude"), &http(QUICK), &lookup).unwrap();
    let error = call(&*model).await.1.unwrap();
    assert_eq!(error.code, Code::AuthenticationError);
    assert_eq!(error.message, "anthropic: bad key [redacted] (HTTP 401)");
    assert_eq!((error.status, error.request_id.as_deref()), (Some(401), Some("req_1")));
    let request = requests.recv().unwrap();
    assert!(
        request.starts_with("POST /v1/messages ") && request.contains("anthropic-version: 2023-06-01\r\n"),
        "{request}"
    );
}

#[tokio::test]
async fn a_wire_can_be_chosen_and_an_address_needs_no_version() {
    for (wire, path, stream) in [
        (Wire::Anthropic, "/v1/messages", &[r#"{"type":"message_stop"}"#][..]),
        (
            Wire::OpenAiResponses,
            "/v1/responses",
            &[r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#],
        ),
        // The end of the body is the end of the answer.
        (
            Wire::Gemini,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            &[r#"{"candidates":[{"finishReason":"STOP"}]}"#, r#"{"usageMetadata":{"promptTokenCount":1}}"#],
        ),
    ] {
        let (base, requests) = server(move |mut asked| {
            asked.begin();
            stream.iter().for_each(|data| asked.event(data));
            asked.send("0\r\n\r\n");
            asked.request
        });
        let base = base.trim_end_matches("/v1").to_owned();
        let choice = Choice { base_url: Some(base), wire: Some(wire), ..Choice::new("local", "m") };
        let model = connect(&choice, &http(QUICK), &|_| None).unwrap();
        let (events, error) = call(&*model).await;
        assert!(matches!(&events[..], [Event::Done(_)]) && error.is_none(), "{wire:?}: {error:?}");
        assert!(requests.recv().unwrap().starts_with(&format!("POST {path} ")), "{wire:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_connected_fails_each_call() {
    let choice = Choice::new("anthropic", "m");
    let error = connect(&choice, &http(QUICK), &|_| None).err().unwrap();
    let model = Unavailable::new(choice.description(), error.clone());
    assert_eq!(
        *model.description(),
        Description {
            provider: "anthropic".into(),
            model: "m".into(),
            simulated: false,
            supports_tools: true
        }
    );
    assert_eq!(call(&model).await.1, Some(error));
}
