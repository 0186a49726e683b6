use super::*;

fn code(status: u16, body: &str) -> Code {
    refused(status, &HeaderMap::new(), body.as_bytes()).code
}

#[test]
fn what_is_no_json_is_judged_by_its_status() {
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
fn what_the_recordings_do_not_show_is_classified_as_documented() {
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
fn a_wait_is_taken_only_from_errors_that_may_pass() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    assert!(refused(401, &headers, b"{}").retry_after.is_none());
    assert_eq!(refused(503, &headers, b"").retry_after, Some(std::time::Duration::from_secs(7)));
}
