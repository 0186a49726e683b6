//! Names that change or mix their answers, and connections that end elsewhere.

use std::time::Duration;

use houston_web::{Client, Phase, Refusal, Request, WebError};

use crate::certificate;
use crate::network::{Mode, Network, Step, answer, html};

/// Closes the connection after each answer, so that each request looks the name up again: a TTL of 0.
fn closing() -> Network {
    Network::new(|_| {
        let mut steps = answer(200, &[("connection", "close")], "public");
        steps.push(Step::Close);
        steps
    })
}

#[tokio::test]
async fn a_name_that_changes_to_a_private_address_is_refused() {
    let (client, network) = closing().name("a.example.com", &["1.1.1.1", "127.0.0.1"]).guarded();
    let get = || client.send(Request::get("http://a.example.com/"));
    assert_eq!(get().await.unwrap().body, "public");
    for _ in 0..3 {
        let error = get().await.unwrap_err();
        assert!(matches!(error, WebError::Refused(Refusal::NotPublic { .. })), "{error}");
    }
    assert_eq!(network.dialled(), ["1.1.1.1:80"]);
    assert_eq!(network.lookups(), 4);
}

/// There is no second look-up between the check and the connection: the answer that is judged is the one that is used.
#[tokio::test]
async fn a_name_is_looked_up_once_for_each_connection() {
    let (client, network) = closing().name("a.example.com", &["1.1.1.1", "127.0.0.1"]).guarded();
    client.send(Request::get("http://a.example.com/")).await.unwrap();
    assert_eq!((network.lookups(), network.dialled().len()), (1, 1));
}

#[tokio::test]
async fn of_mixed_answers_only_public_addresses_are_used() {
    let mixed = "127.0.0.1 10.0.0.1 1.1.1.1 ::1 169.254.169.254 2606:4700::1111";
    let (client, network) = closing().name("a.example.com", &[mixed]).mode(Mode::Refuses).guarded();
    let error = client.send(Request::get("http://a.example.com/")).await.unwrap_err();
    assert_eq!(error.to_string(), "no connection to `a.example.com`: nothing listens there");
    assert!(!error.may_have_been_sent());
    assert_eq!(network.dialled(), ["1.1.1.1:80", "[2606:4700::1111]:80"]);
}

#[tokio::test]
async fn at_most_four_addresses_of_a_host_are_tried() {
    let many = (1..100).map(|last| format!("1.1.1.{last}")).collect::<Vec<_>>().join(" ");
    let (client, network) = closing().name("a.example.com", &[&many]).mode(Mode::Refuses).guarded();
    client.send(Request::get("http://a.example.com/")).await.unwrap_err();
    assert_eq!(network.dialled().len(), 4);
}

#[tokio::test]
async fn a_connection_that_ends_elsewhere_is_closed_unused() {
    for peer in ["127.0.0.1:80", "10.0.0.1:80", "1.1.1.2:80", "[::1]:80"] {
        let (client, network) =
            closing().name("a.example.com", &["1.1.1.1"]).mode(Mode::EndsAt(peer.parse().unwrap())).guarded();
        let error = client.send(Request::get("http://a.example.com/")).await.unwrap_err();
        assert!(matches!(error, WebError::Refused(Refusal::OtherPeer(_))), "{peer}: {error}");
        assert_eq!(network.requests(), Vec::<String>::new(), "{peer}");
    }
}

#[tokio::test]
async fn names_without_addresses_are_not_found() {
    let (client, network) = closing().name("empty.example.com", &[""]).guarded();
    for url in ["http://unknown.example.com/", "http://empty.example.com/"] {
        let error = client.send(Request::get(url)).await.unwrap_err();
        assert!(matches!(error, WebError::NoSuchHost(_)), "{url}: {error}");
    }
    assert_eq!(network.dialled(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn connecting_ends_after_its_limit() {
    let (client, network) = closing().name("a.example.com", &["1.1.1.1 1.1.1.2"]).mode(Mode::Hangs).guarded();
    let started = tokio::time::Instant::now();
    let error = client.send(Request::get("http://a.example.com/")).await.unwrap_err();
    let limit = Duration::from_secs(5);
    assert_eq!(error, WebError::Timeout { host: "a.example.com".to_owned(), phase: Phase::Connect, limit });
    assert_eq!(error.to_string(), "`a.example.com` did not answer in time: no connection after 5 s");
    assert_eq!((network.dialled().len(), started.elapsed().as_secs()), (2, 5));
}

/// What an operator lists is reached wherever it is, and by this client only: a guarded client does not find the open
/// connection to the same host.
#[tokio::test]
async fn listed_hosts_share_no_connection_with_public_ones() {
    let network = Network::new(|_| html("own")).name("own.example.com", &["10.0.0.9"]);
    let (listed, network) = network.listed("http://own.example.com/");
    let get = || Request::get("http://own.example.com/search");
    for _ in 0..2 {
        assert_eq!(listed.send(get()).await.unwrap().body, "own");
    }
    assert_eq!(network.dialled(), ["10.0.0.9:80"], "the second request uses the open connection");
    let guarded = network.attached(Client::guarded(certificate::trusting()));
    let error = guarded.send(get()).await.unwrap_err();
    assert!(matches!(error, WebError::Refused(Refusal::NotPublic { .. })), "{error}");
    let error = listed.send(Request::get("http://1.1.1.1/")).await.unwrap_err();
    assert!(matches!(error, WebError::Refused(Refusal::NotListed(_))), "{error}");
    assert_eq!((network.dialled().len(), network.requests().len()), (1, 2));
}

#[tokio::test]
async fn certificates_must_fit_the_host() {
    let (client, _) = Network::new(|_| html("x"))
        .name("a.example.com", &["1.1.1.1"])
        .name("other.net", &["1.1.1.1"])
        .guarded();
    assert!(client.send(Request::get("https://a.example.com/")).await.is_ok());
    let error = client.send(Request::get("https://other.net/")).await.unwrap_err();
    assert!(error.to_string().contains("TLS failed"), "{error}");
    assert!(!error.may_have_been_sent());
}
