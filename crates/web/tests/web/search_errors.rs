//! How search providers fail: the same for all, except where their documentation differs.

use houston_web::search::Query;
use houston_web::{Failure, Fault};

use crate::network::{Mode, Network, Step, answer};
use crate::search::{ALL, BASE, KEY, Which, ask};

/// The error for an answer. No text of it contains the key.
async fn error(which: Which, status: u16, headers: &'static [(&str, &str)], body: &'static str) -> Failure {
    let (_, found) = ask(which, Query::new("q"), move |_| answer(status, headers, body)).await;
    let error = found.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(KEY), "{which:?}: {error:?}");
    error
}

#[tokio::test]
async fn a_rejected_key_is_a_matter_of_configuration() {
    for which in ALL {
        let error = error(which, 401, &[], r#"{"detail": {"error": "invalid key key-0123456789"}}"#).await;
        assert_eq!(error.fault, Fault::Config, "{which:?}");
        assert!(error.to_string().contains("rejected the API key (HTTP 401)"), "{error}");
    }
}

#[tokio::test]
async fn too_many_requests_say_how_long_to_wait() {
    for which in ALL {
        let limited = error(which, 429, &[("retry-after", "30")], "{}").await;
        assert_eq!(limited.fault, Fault::RateLimited, "{which:?}");
        assert!(
            limited.to_string().ends_with("allows no more searches at the moment: try again in 30 s"),
            "{limited}"
        );
        let unspecific = error(which, 429, &[], "").await.to_string();
        assert!(unspecific.ends_with("at the moment"), "{unspecific}");
    }
    let brave = [("x-ratelimit-reset", "1, 1419704"), ("x-ratelimit-remaining", "0, 12000")].as_slice();
    let limited = error(Which::Brave, 429, brave, "{}").await;
    assert!(limited.to_string().ends_with("try again in 1 s"), "{limited}");
}

#[tokio::test]
async fn a_used_up_plan_is_not_a_wrong_key() {
    for (which, status) in [(Which::Tavily, 432), (Which::Tavily, 433), (Which::Exa, 402)] {
        let error = error(which, status, &[], "{}").await;
        assert!(error.to_string().contains("is used up"), "{error}");
        assert_eq!(error.fault, Fault::Config);
    }
}

#[tokio::test]
async fn searxng_without_json_is_explained() {
    let error = error(Which::Searxng, 403, &[("content-type", "text/html")], "<h1>403 Forbidden</h1>").await;
    assert_eq!(error.fault, Fault::Config);
    assert!(error.to_string().contains("must add `json` to `search.formats`"), "{error}");
}

#[tokio::test]
async fn rejected_queries_quote_the_provider_without_the_key() {
    for which in ALL {
        let error = error(which, 422, &[], r#"{"error": "bad q; your key is key-0123456789"}"#).await;
        assert_eq!(error.fault, Fault::Invalid);
        assert!(error.to_string().contains("bad q; your key is [redacted]"), "{error}");
    }
}

#[tokio::test]
async fn failures_of_the_provider_can_be_tried_again() {
    for which in ALL {
        for status in [500, 502, 503] {
            let error = error(which, status, &[], "<html>oops</html>").await;
            assert_eq!(error.fault, Fault::Io, "{which:?}");
            assert!(error.to_string().contains("try again later"), "{error}");
        }
    }
}

#[tokio::test]
async fn answers_that_are_not_as_documented_are_unreadable() {
    for which in ALL {
        for body in [
            "",
            "<html></html>",
            r#"{"results": 7, "web": 7}"#,
            r#"{"results": [{}], "web": {"results": [{}]}}"#,
        ] {
            let error = error(which, 200, &[], body).await;
            assert!(error.to_string().contains("sent an answer that cannot be read: "), "{which:?}: {error}");
            assert_eq!(error.fault, Fault::Io);
        }
    }
    let endless =
        |_: &str| vec![Step::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()), Step::Forever(vec![b'['; 10_000])];
    let (_, found) = ask(Which::Exa, Query::new("q"), endless).await;
    assert!(found.unwrap_err().to_string().contains("too long"));
}

/// Brave leaves `web` out when it found nothing.
#[tokio::test]
async fn finding_nothing_is_no_error() {
    let (_, found) = ask(Which::Brave, Query::new("q"), |_| answer(200, &[], r#"{"type": "search"}"#)).await;
    assert_eq!(found.unwrap().results, []);
    for which in ALL {
        let empty = which.answer(&[]).to_string();
        let (_, found) = ask(which, Query::new("q"), move |_| answer(200, &[], &empty)).await;
        assert_eq!(found.unwrap().results, [], "{which:?}");
    }
}

#[tokio::test]
async fn a_provider_that_is_down_is_named() {
    for which in ALL {
        let network =
            Network::new(|_| Vec::new()).name("provider.internal", &["10.0.0.9"]).mode(Mode::Refuses);
        let (client, _) = network.listed(BASE);
        let provider = which.at(client);
        let error = provider.ask(&Query::new("q")).await.unwrap_err();
        assert!(error.to_string().starts_with(provider.provider().name()), "{error}");
        assert_eq!(error.fault, Fault::Io);
    }
}

/// A provider at an address that the client may not reach is a wrong setting, and nothing is dialled.
#[tokio::test]
async fn a_provider_out_of_reach_is_a_matter_of_configuration() {
    for which in ALL {
        let (client, network) =
            Network::new(|_| Vec::new()).name("provider.internal", &["10.0.0.9"]).guarded();
        let error = which.at(client).ask(&Query::new("q")).await.unwrap_err();
        assert_eq!(error.fault, Fault::Config, "{error}");
        assert_eq!(network.dialled(), Vec::<String>::new());
    }
}
