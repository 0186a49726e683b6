//! From a model selection to a connected model.

use houston_domain::model::ModelErrorCode as Code;
use houston_llm::{
    Choice, Description, Event, Model as _, PROVIDERS, Secret, Timeouts, TokenSource, Unavailable, Wire,
    connect, connect_with, parse_choice,
};

use crate::caller::{QUICK, call, http};
use crate::server::server;

#[test]
fn choice_is_parsed_and_unknown_provider_suggests_a_name() {
    let choice = parse_choice("openrouter/anthropic/claude-haiku-4.5").unwrap();
    assert_eq!(
        (choice.provider.as_str(), choice.model.as_str()),
        ("openrouter", "anthropic/claude-haiku-4.5")
    );
    assert_eq!(parse_choice(" Anthropic ").unwrap().to_string(), "anthropic/claude-sonnet-5-5");
    let error = parse_choice("antropic/claude").unwrap_err();
    assert_eq!(error.code, Code::ProviderNotSupported);
    assert!(error.message.contains("did you mean anthropic?"), "{}", error.message);
    for (alias, name) in [("zai", "zhipu"), ("Azure-OpenAI", "azure"), ("grok", "xai")] {
        assert_eq!(parse_choice(&format!("{alias}/m")).unwrap().provider, name);
    }
    for row in PROVIDERS.iter() {
        assert_eq!(parse_choice(row.name).unwrap().model, row.default_model);
    }
}

#[test]
fn missing_settings_are_named_in_one_line() {
    let http = http(Timeouts::default());
    for row in PROVIDERS.iter() {
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
        let variables = if row.needs_key { &row.key_variables } else { &row.url_variables };
        assert!(
            error.message.contains(&format!("set {}", variables[0])) && !error.message.contains('\n'),
            "{error}"
        );
        assert!(variables.iter().all(|name| error.message.contains(name)), "{error}");
    }
    let error = connect(&Choice::new("github", "m"), &http, &|_| Some(" ".into())).err().unwrap();
    assert_eq!(
        error.message,
        "github needs a key: set GITHUB_TOKEN (or choose another model with HOUSTON_MODEL=provider/model). Looked \
         in: GITHUB_TOKEN, GITHUB_TOKEN_FILE, providers.github.key in jobs/providers.toml, the token of `gh auth token`"
    );
    let error = connect(&parse_choice("azure").unwrap(), &http, &|_| Some("x".into())).err().unwrap();
    assert_eq!(error.message, "azure needs the name of a deployment: write azure/<name>");
    let choice = Choice { base_url: Some("ftp://x".into()), ..Choice::new("local", "m") };
    assert_eq!(connect(&choice, &http, &|_| None).err().unwrap().code, Code::ProviderNotConfigured);
    let choice = Choice { key: Some(Secret::new("a\nb")), ..Choice::new("openai", "m") };
    let error = connect(&choice, &http, &|_| None).err().unwrap();
    assert!(!error.message.contains('b') || !error.message.contains("a\nb"), "{error}");
}

#[tokio::test]
async fn key_is_sent_in_its_header_and_never_printed() {
    let (base, requests) = server(|mut connection| {
        let key = connection
            .request
            .lines()
            .find_map(|line| line.strip_prefix("x-api-key: "))
            .unwrap_or("?")
            .to_owned();
        let body = format!(
            r#"{{"type":"error","error":{{"type":"authentication_error","message":"bad key {key}"}}}}"#
        );
        connection.answer("401 Unauthorized", "request-id: req_1\r\n", &body);
        connection.request
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
async fn url_credentials_are_never_printed() {
    // A gateway that quotes the received headers.
    let (base, _requests) = server(|mut connection| {
        let sent = connection.request.lines().find(|line| line.starts_with("authorization: ")).unwrap_or("?");
        let body = format!(r#"{{"error":{{"message":"refused {sent}; password CANARYpw20"}}}}"#);
        connection.answer("400 Bad Request", "request-id: CANARYpw20\r\n", &body);
    });
    let base = base.replace("http://", "http://luser:CANARYpw20@");
    let choice = Choice { base_url: Some(base), ..Choice::new("local", "m") };
    let model = connect(&choice, &http(QUICK), &|_| None).unwrap();
    let error = call(&*model).await.1.unwrap();
    // printf luser:CANARYpw20 | base64
    let shown = format!("{error:?}");
    assert!(shown.contains("refused authorization: Basic [redacted]"), "{shown}");
    assert!(!shown.contains("CANARY") && !shown.contains("bHVzZXI6Q0FOQVJ"), "{shown}");

    let choice = Choice { base_url: Some("http://u:CANARY@[bad".into()), ..Choice::new("groq", "m") };
    let choice = Choice { key: Some(Secret::new("gsk_0123456789")), ..choice };
    let error = connect(&choice, &http(QUICK), &|_| None).err().unwrap();
    assert_eq!(error.message, "groq: `http://[redacted]@[bad` is not an http or https URL");
}

/// Returns one token, then none.
struct OneToken(std::sync::atomic::AtomicBool);

impl TokenSource for OneToken {
    fn token(&self) -> futures_util::future::BoxFuture<'_, Option<Secret>> {
        let token = Secret::new("entra-token-1");
        let given = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move { (!given).then_some(token) })
    }
}

#[tokio::test]
async fn each_call_without_a_key_fetches_a_token() {
    let (base, _requests) = server(|mut connection| {
        let sent = connection.request.lines().find(|line| line.starts_with("authorization: ")).unwrap_or("?");
        let body = format!(r#"{{"error":{{"message":"refused {sent}"}}}}"#);
        connection.answer("400 Bad Request", "", &body);
    });
    let choice = Choice { base_url: Some(base), ..Choice::new("azure", "m") };
    let tokens = std::sync::Arc::new(OneToken(false.into()));
    let model = connect_with(&choice, &http(QUICK), &|_| None, Some(tokens)).unwrap();
    let error = call(&*model).await.1.unwrap();
    assert_eq!(error.message, "azure: refused authorization: Bearer [redacted] (HTTP 400)");
    let error = call(&*model).await.1.unwrap();
    assert_eq!(error.code, Code::ProviderNotConfigured);
    assert!(error.message.contains("az account get-access-token"), "{error}");
    let error = connect(&choice, &http(QUICK), &|_| None).err().unwrap();
    assert!(error.message.contains("Looked in: AZURE_OPENAI_API_KEY"), "{error}");
    assert!(error.message.contains("the token of `az account get-access-token`"), "{error}");
}

#[tokio::test]
async fn wire_is_configurable_and_version_is_added_to_the_url() {
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
        let (base, requests) = server(move |mut connection| {
            connection.begin();
            stream.iter().for_each(|data| connection.event(data));
            connection.send("0\r\n\r\n");
            connection.request
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
async fn unavailable_model_fails_each_call() {
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

#[test]
fn key_file_is_read_and_choice_variable_takes_precedence() {
    let http = http(Timeouts::default());
    let folder = std::env::temp_dir().join(format!("houston-key-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, empty) = (folder.join("key"), folder.join("empty"));
    std::fs::write(&file, "sk-from-file\n").unwrap();
    std::fs::write(&empty, "\n").unwrap();
    let named = |name: &'static str, path: &std::path::Path| {
        let path = path.display().to_string();
        move |variable: &str| (variable == name).then(|| path.clone())
    };
    assert!(connect(&Choice::new("groq", "m"), &http, &named("GROQ_API_KEY_FILE", &file)).is_ok());
    let choice = Choice { key_variable: Some("MY_KEY".into()), ..Choice::new("groq", "m") };
    assert!(connect(&choice, &http, &named("MY_KEY_FILE", &file)).is_ok());
    let error = connect(&choice, &http, &|_| None).err().unwrap();
    assert!(error.message.starts_with("groq needs a key: set MY_KEY "), "{error}");
    for path in [&empty, &folder.join("none")] {
        let error = connect(&choice, &http, &named("MY_KEY_FILE", path)).err().unwrap();
        assert_eq!(error.code, Code::ProviderNotConfigured);
        assert!(error.message.contains("MY_KEY_FILE names `"), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn model_not_found_suggests_a_similar_name() {
    let (base, _requests) = server(|mut connection| {
        let body = r#"{"error":{"code":"model_not_found","message":"The model does not exist"}}"#;
        connection.answer("404 Not Found", "", body);
    });
    let choice = Choice {
        base_url: Some(base),
        key: Some(Secret::new("sk-123456")),
        ..Choice::new("openai", "gpt-4o-mimi")
    };
    let error = call(&*connect(&choice, &http(QUICK), &|_| None).unwrap()).await.1.unwrap();
    assert_eq!(error.code, Code::ModelNotFound);
    assert!(error.message.ends_with("; did you mean gpt-4o-mini?"), "{error}");
    assert!(error.cause.unwrap().contains("model_not_found"));
}

/// The URL and key header of each provider, as received by a server.
#[tokio::test]
async fn providers_get_their_url_and_key_header() {
    for (provider, variables, line, key) in [
        ("azure", &[][..], "POST /openai/v1/chat/completions ", "api-key: sk-123456"),
        (
            "azure",
            &[("AZURE_OPENAI_API_VERSION", "2024-10-21")][..],
            "POST /openai/deployments/m/chat/completions?api-version=2024-10-21 ",
            "api-key: sk-123456",
        ),
        (
            "foundry",
            &[][..],
            "POST /models/chat/completions?api-version=2024-05-01-preview ",
            "api-key: sk-123456",
        ),
        ("perplexity", &[][..], "POST /chat/completions ", "authorization: Bearer sk-123456"),
        ("cohere", &[][..], "POST /v2/chat ", "authorization: Bearer sk-123456"),
        ("ollama", &[][..], "POST /api/chat ", "authorization: Bearer sk-123456"),
        ("openai", &[][..], "POST /v1/chat/completions ", "authorization: Bearer sk-123456"),
    ] {
        let (base, requests) = server(|mut connection| {
            connection.answer("404 Not Found", "", "");
            connection.request
        });
        let base = base.trim_end_matches("/v1").to_owned();
        let choice = Choice {
            base_url: Some(base),
            key: Some(Secret::new("sk-123456")),
            ..Choice::new(provider, "m")
        };
        let lookup = move |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        call(&*connect(&choice, &http(QUICK), &lookup).unwrap()).await;
        let request = requests.recv().unwrap();
        assert!(request.starts_with(line), "{provider}: {request}");
        assert!(request.contains(&format!("\r\n{key}\r\n")), "{provider}: {request}");
    }
}
