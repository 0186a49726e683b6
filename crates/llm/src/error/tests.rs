mod documented;

use self::documented::DOCUMENTED;
use super::*;

fn code(status: u16, body: &str) -> Code {
    refused(status, &HeaderMap::new(), body.as_bytes()).code
}

#[test]
fn non_json_errors_are_classified_by_status() {
    let page = "<!doctype html><html><title>502 Bad Gateway</title>";
    assert_eq!(code(502, page), Code::NetworkError);
    assert_eq!(code(503, page), Code::NetworkError);
    assert_eq!(code(504, page), Code::Timeout);
    assert_eq!(code(429, page), Code::RateLimited);
    assert_eq!(code(403, page), Code::AuthenticationError);
    assert_eq!(code(404, page), Code::InvalidResponse);
    assert_eq!(code(404, "{\"detail\":\"Not Found\"}"), Code::InvalidResponse);
    assert_eq!(code(302, ""), Code::InvalidResponse);
    assert_eq!(code(418, ""), Code::Unknown);
    let error = refused(502, &HeaderMap::new(), page.as_bytes());
    assert!(!error.message.contains("<html>"), "{error}");
}

#[test]
fn unrecorded_errors_are_classified_as_documented() {
    let error = |kind: &str| format!("{{\"error\":{{\"type\":\"{kind}\",\"message\":\"m\"}}}}");
    assert_eq!(code(429, &error("insufficient_quota")), Code::Unknown);
    assert_eq!(code(402, &error("x")), Code::Unknown);
    assert_eq!(code(500, &error("api_error")), Code::NetworkError);
    assert_eq!(code(413, &error("request_too_large")), Code::ContextLengthExceeded);
    assert_eq!(code(503, &error("overloaded_error")), Code::RateLimited);
    assert_eq!(in_stream(&error("overloaded_error")).code, Code::RateLimited);
    assert_eq!(in_stream(&error("api_error")).code, Code::NetworkError);
    assert_eq!(in_stream("{\"object\":\"error\",\"message\":\"m\",\"code\":429}").code, Code::RateLimited);
    assert_eq!(in_stream("oops").code, Code::InvalidResponse);
}

#[test]
fn redirect_says_where_to_without_credentials() {
    let mut headers = HeaderMap::new();
    assert!(refused(307, &headers, b"").message.contains("does not say where"));
    headers.insert("location", "https://u:CANARY@h.example/v1/chat?key=CANARY".parse().unwrap());
    for body in [&b""[..], b"{\"error\":{\"message\":\"moved\"}}"] {
        let error = refused(307, &headers, body);
        assert_eq!(error.code, Code::InvalidResponse);
        assert!(error.message.contains("https://[redacted]@h.example/v1/chat"), "{error}");
        assert!(!error.message.contains("CANARY"), "{error}");
    }
}

#[test]
fn compressed_error_is_named_as_such() {
    let error = refused(500, &HeaderMap::new(), &[0x1f, 0x8b, 8, 0]);
    assert_eq!(error.message, "HTTP 500 with a compressed body");
    let mut headers = HeaderMap::new();
    headers.insert("content-encoding", "br".parse().unwrap());
    assert!(is_compressed(&headers, b"") && !is_compressed(&HeaderMap::new(), b"{}"));
}

#[test]
fn wrong_endpoint_is_not_a_missing_model() {
    for message in [
        "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?",
        "This model is only supported in v1/responses and not in v1/chat/completions.",
    ] {
        let body = serde_json::json!({"error": {"message": message, "type": "invalid_request_error",
            "param": "model", "code": null}});
        assert_eq!(code(404, &body.to_string()), Code::Unknown, "{message}");
    }
}

#[test]
fn retry_delay_is_ignored_for_permanent_errors() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    assert!(refused(401, &headers, b"{}").retry_after.is_none());
    assert_eq!(refused(503, &headers, b"").retry_after, Some(std::time::Duration::from_secs(7)));
}

#[test]
fn documented_errors_are_classified() {
    for (status, body, expected) in DOCUMENTED {
        assert_eq!(code(*status, body), *expected, "{status} {body}");
        let error = refused(*status, &HeaderMap::new(), body.as_bytes());
        assert!(!error.message.is_empty() && !error.message.contains("<html"), "{error}");
        assert_eq!(error.cause.is_some(), !body.is_empty());
    }
}

#[test]
fn retry_delay_sources_have_an_order() {
    let wait = |status: u16, headers: &[(&'static str, &str)], body: &str| {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        refused(status, &headers, body.as_bytes()).retry_after.map(|wait| wait.as_millis())
    };
    let words = r#"{"error":{"message":"Rate limit reached. Please try again in 20s.","code":"rate_limit_exceeded"}}"#;
    let field =
        r#"{"error":{"message":"Please retry in 48.9s.","code":429,"details":[{"retryDelay":"48s"}]}}"#;
    let limit = ("x-ratelimit-reset-requests", "6m0s");
    assert_eq!(wait(429, &[("retry-after", "1"), limit], words), Some(1_000));
    assert_eq!(wait(429, &[limit], words), Some(20_000));
    assert_eq!(wait(429, &[], field), Some(48_000));
    assert_eq!(wait(429, &[limit], "{}"), Some(360_000));
    assert_eq!(wait(503, &[limit], "{}"), None, "a limit does not delay a 503");
    let moment = r#"{"error":{"code":429,"message":"Rate limit exceeded: free","metadata":{"headers":{"X-RateLimit-Reset":"1780006592000"}}}}"#;
    assert_eq!(wait(429, &[("date", "Thu, 28 May 2026 22:16:02 GMT")], moment), Some(30_000));
    assert_eq!(in_stream(words).retry_after.map(|wait| wait.as_secs()), Some(20));
}

#[test]
fn provider_request_id_precedes_proxy_ids() {
    let named = |headers: &[(&'static str, &str)]| {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        refused(500, &headers, b"").request_id
    };
    assert_eq!(named(&[("cf-ray", "a"), ("x-request-id", "b"), ("request-id", "c")]).as_deref(), Some("c"));
    assert_eq!(named(&[("cf-ray", "a"), ("apim-request-id", "b")]).as_deref(), Some("b"));
    assert_eq!(named(&[("cf-ray", "a")]).as_deref(), Some("a"));
}

#[test]
fn long_error_text_is_truncated() {
    let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(LONGEST_REFUSAL - 40));
    let error = refused(500, &HeaderMap::new(), body.as_bytes());
    assert!(error.cause.unwrap().chars().count() <= LONGEST_CAUSE + 1);
    assert!(error.message.chars().count() <= LONGEST_MESSAGE + 20);
}
