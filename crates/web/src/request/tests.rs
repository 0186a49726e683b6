use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use proptest::prelude::*;
use secrecy::SecretString;

use super::{Hop, Request};
use crate::error::Refusal;
use crate::target::{ListedHost, Reach};

fn public() -> Reach {
    Reach::Public
}

fn request(method: Method) -> Request {
    Request::new(method, "https://a.example.com/x?token=1")
        .header(ACCEPT, HeaderValue::from_static("text/html"))
        .header(HeaderName::from_static("x-api-key"), HeaderValue::from_static("k"))
        .secret(AUTHORIZATION, "Bearer ", &SecretString::from("secret"))
        .unwrap()
}

fn redirected(method: Method, status: u16, to: &str) -> Result<Option<Hop>, Refusal> {
    let location: HeaderMap = [(LOCATION, HeaderValue::from_str(to).unwrap())].into_iter().collect();
    let hop = Hop::first(&request(method), &public()).unwrap();
    hop.next(StatusCode::from_u16(status).unwrap(), location.get(LOCATION), &public())
}

#[test]
fn credentials_stay_with_their_host() {
    for to in
        ["https://b.example.com/", "https://a.example.com:8443/", "https://example.com/", "//b.example.com/"]
    {
        let hop = redirected(Method::GET, 302, to).unwrap().unwrap();
        let names: Vec<_> = hop.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept"], "{to}");
    }
    for to in ["/y", "y", "?z", "https://a.example.com/y", "https://A.example.com.:443/y"] {
        let hop = redirected(Method::GET, 302, to).unwrap().unwrap();
        assert_eq!(hop.headers.len(), 3, "{to}");
    }
}

#[test]
fn secrets_are_not_printed() {
    let printed = format!("{:?}", request(Method::GET));
    assert!(!printed.contains("secret"), "{printed}");
    let error = request(Method::GET).secret(AUTHORIZATION, "", &SecretString::from("sec\nret")).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("ret"), "{error:?}");
}

#[test]
fn secrets_are_sent_to_public_hosts_over_https_only() {
    let mut request = request(Method::GET);
    request.url = "http://a.example.com/".to_owned();
    let refusal = Hop::first(&request, &public()).unwrap_err();
    assert_eq!(refusal, Refusal::PlainSecret("a.example.com".to_owned()));
    let listed = Reach::Listed(vec![ListedHost::of(&request.url).unwrap()]);
    assert!(Hop::first(&request, &listed).is_ok());
}

#[test]
fn redirects_are_judged_like_first_requests() {
    for to in [
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://localhost/",
        "https://user:pw@example.com/",
        "https://example.com:22/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "//127.0.0.1/",
        r"\\127.0.0.1\",
    ] {
        let refusal = redirected(Method::GET, 302, to).expect_err(to);
        assert!(matches!(refusal, Refusal::RedirectTo { .. }), "{to}: {refusal}");
        assert!(!refusal.to_string().contains("token"), "{refusal}");
    }
    let refusal = redirected(Method::GET, 301, "http://a.example.com/").unwrap_err();
    assert!(matches!(refusal, Refusal::Downgrade(_)), "{refusal}");
    let refusal = redirected(Method::GET, 301, "https://[").unwrap_err();
    assert!(matches!(refusal, Refusal::BadRedirect(_)), "{refusal}");
}

#[test]
fn writes_are_not_repeated_at_another_address() {
    for status in [301, 302, 307, 308] {
        let refusal =
            redirected(Method::POST, status, "https://a.example.com/y?key=1").unwrap_err().to_string();
        assert!(refusal.contains("not repeated") && refusal.contains("https://a.example.com/y"), "{refusal}");
        assert!(!refusal.contains("key"), "{refusal}");
    }
}

#[test]
fn see_other_after_a_write_is_read() {
    let mut request =
        request(Method::POST).header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.body = "{}".into();
    let hop = Hop::first(&request, &public()).unwrap();
    let hop = hop
        .next(StatusCode::SEE_OTHER, Some(&HeaderValue::from_static("/done")), &public())
        .unwrap()
        .unwrap();
    assert_eq!((hop.method, hop.body.len()), (Method::GET, 0));
    assert!(!hop.headers.contains_key(CONTENT_TYPE) && hop.headers.contains_key(AUTHORIZATION));
}

#[test]
fn other_answers_are_no_redirects() {
    for status in [200, 300, 304, 305, 404] {
        assert!(redirected(Method::GET, status, "https://127.0.0.1/").unwrap().is_none(), "{status}");
    }
    let hop = Hop::first(&request(Method::GET), &public()).unwrap();
    assert!(hop.next(StatusCode::FOUND, None, &public()).unwrap().is_none());
}

#[test]
fn headers_of_the_connection_cannot_be_set() {
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "proxy-authorization",
        "accept-encoding",
    ] {
        let name = HeaderName::from_static(name);
        let request =
            Request::get("https://example.com/").header(name.clone(), HeaderValue::from_static("1"));
        let refusal = Hop::first(&request, &public()).unwrap_err();
        assert_eq!(refusal, Refusal::Header(name.as_str().to_owned()));
    }
}

proptest! {
    /// Whatever a server answers: the next hop is allowed, and has credentials only at the same origin.
    #[test]
    fn no_redirect_leads_out_of_the_rules(to in r"(https?:|file:|)?/{0,3}[ -~]{0,30}", status in 300_u16..309) {
        prop_assume!(HeaderValue::from_str(&to).is_ok());
        if let Ok(Some(hop)) = redirected(Method::GET, status, &to) {
            prop_assert_eq!(hop.target.url().scheme(), "https");
            prop_assert!(super::Target::judge(hop.target.url().clone(), &public()).is_ok());
            let same = hop.target.host() == "a.example.com" && hop.target.port() == 443;
            prop_assert_eq!(hop.headers.contains_key(AUTHORIZATION), same);
            prop_assert_eq!(hop.headers.contains_key("x-api-key"), same);
        }
    }
}
