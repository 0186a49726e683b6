use proptest::prelude::*;
use url::Url;

use super::{ListedHost, Reach, Refusal, Target};

fn public() -> Reach {
    Reach::Public
}

fn refusal(text: &str) -> Refusal {
    Target::parse(text, &public()).expect_err(text)
}

#[test]
fn public_urls_are_allowed() {
    for (text, host, port) in [
        ("https://example.com/a?b=c", "example.com", 443),
        ("http://example.com:8080/", "example.com", 8080),
        ("https://example.com.:8443/", "example.com", 8443),
        ("HTTPS://EXAMPLE.com/", "example.com", 443),
        ("https://bücher.de/", "xn--bcher-kva.de", 443),
        ("https://a_b.example.co.uk/", "a_b.example.co.uk", 443),
        ("http://1.1.1.1/", "1.1.1.1", 80),
        ("http://[2606:4700::1111]/", "[2606:4700::1111]", 80),
    ] {
        let target = Target::parse(text, &public()).expect(text);
        assert_eq!((target.host(), target.port()), (host, port), "{text}");
        assert_eq!(target.url().host_str(), Some(host), "{text}");
    }
}

#[test]
fn fragments_are_not_sent() {
    let target = Target::parse("https://example.com/a#secret", &public()).unwrap();
    assert_eq!(target.url().as_str(), "https://example.com/a");
}

#[test]
fn every_spelling_of_a_local_address_is_refused() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "0x7f.0x0.0x0.0x1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
    ] {
        let refusal = refusal(&format!("http://{host}/"));
        assert!(matches!(refusal, Refusal::NotPublic { .. }), "{host}: {refusal}");
    }
}

#[test]
fn local_names_are_refused() {
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "ⓛocalhost",
        "%6c%6f%63%61%6c%68%6f%73%74",
        "metadata",
        "metadata.google.internal",
        "printer.local",
        "router.home.arpa",
        "db.corp",
        "x.onion",
        "a.test",
        "intranet",
    ] {
        let refusal = refusal(&format!("http://{host}/"));
        assert!(matches!(refusal, Refusal::LocalName(_)), "{host}: {refusal}");
    }
}

#[test]
fn hosts_that_no_name_server_has_are_refused() {
    let long = format!("{}.com", "a".repeat(64));
    for host in ["a..com", "example.com..", "a!b.com", "a'b.com", "a$b.com", "a(b).com", "a,b.com", &long] {
        let refusal = refusal(&format!("http://{host}/"));
        assert!(matches!(refusal, Refusal::HostName(_)), "{host}: {refusal}");
    }
}

#[test]
fn each_refusal_says_what_is_allowed() {
    for (text, says) in [
        ("example.com/page", "https://example.com/page"),
        ("ftp://example.com/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("http://user:pw@example.com/", "credentials belong in headers"),
        ("http://user@example.com/", "credentials belong in headers"),
        ("http://example.com:22/", "80, 443, 8080 and 8443"),
        ("http://10.0.0.1/", "`10.0.0.1` is in a private network: only addresses on the public internet"),
    ] {
        let refusal = refusal(text).to_string();
        assert!(refusal.contains(says), "{text}: {refusal}");
        assert!(!refusal.contains("pw"), "{refusal}");
    }
    assert!(matches!(refusal(&format!("http://example.com/{}", "a".repeat(9000))), Refusal::NotAUrl(_)));
}

#[test]
fn a_client_for_listed_hosts_reaches_only_these() {
    let reach = Reach::Listed(vec![ListedHost::of("http://searx.internal:8888/path").unwrap()]);
    assert!(Target::parse("http://searx.internal:8888/search?q=a", &reach).is_ok());
    for text in [
        "http://searx.internal/",
        "http://searx.internal:8889/",
        "http://other.internal:8888/",
        "https://example.com/",
        "http://a.searx.internal:8888/",
        "http://user@searx.internal:8888/",
        "ftp://searx.internal:8888/",
    ] {
        assert!(Target::parse(text, &reach).is_err(), "{text}");
    }
    assert!(ListedHost::of("searx.internal:8888").is_err());
}

proptest! {
    /// Whatever a model writes: what passes names a public host, an allowed port and no user.
    #[test]
    fn what_passes_satisfies_every_rule(text in r"(https?:)?/{0,3}[a-z0-9.@:%\[\]①。x/\\-]{0,24}(/[a-z#?]{0,4})?") {
        if let Ok(target) = Target::parse(&text, &public()) {
            let url = Url::parse(target.url().as_str()).unwrap();
            prop_assert!(matches!(url.scheme(), "http" | "https"));
            prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            prop_assert!([80, 443, 8080, 8443].contains(&url.port_or_known_default().unwrap()));
            match url.host().unwrap() {
                url::Host::Domain(name) => prop_assert!(name.contains('.') && !name.ends_with('.')),
                url::Host::Ipv4(address) => prop_assert!(crate::address::not_public(address.into()).is_none()),
                url::Host::Ipv6(address) => prop_assert!(crate::address::not_public(address.into()).is_none()),
            }
        }
    }

    #[test]
    fn judging_twice_changes_nothing(host in r"[a-zA-Z0-9-]{1,8}(\.[a-zA-Z0-9-]{1,8}){0,3}\.?", path in "[a-z/.%]{0,8}") {
        if let Ok(target) = Target::parse(&format!("https://{host}/{path}"), &public()) {
            prop_assert_eq!(Target::parse(target.url().as_str(), &public()), Ok(target));
        }
    }
}
