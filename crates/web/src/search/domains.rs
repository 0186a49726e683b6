//! Domain filters: as `site:` terms for providers that have no filter of their own, and checked in every answer.

use url::{Host, Url};

use super::Hit;
use super::query::Query;

/// A domain in small ASCII letters; `None` if the text is none. A URL's host is accepted, too.
pub(super) fn normalised(text: &str) -> Option<String> {
    let text = text.trim();
    let url =
        if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}/")) }.ok()?;
    let Some(Host::Domain(domain)) = url.host() else { return None };
    let domain = domain.trim_end_matches('.');
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_plain = url.port().is_none() && url.username().is_empty() && url.query().is_none();
    (is_plain && domain.contains('.') && domain.split('.').all(is_label)).then(|| domain.to_owned())
}

/// The query with `site:` terms for its domains.
pub(super) fn with_terms(query: &Query) -> String {
    let mut text = query.query.clone();
    let include: Vec<String> = query.include_domains.iter().map(|domain| format!("site:{domain}")).collect();
    match include.as_slice() {
        [] => {}
        [one] => text = format!("{text} {one}"),
        several => text = format!("{text} ({})", several.join(" OR ")),
    }
    for domain in &query.exclude_domains {
        text = format!("{text} -site:{domain}");
    }
    text
}

/// Whether a page may be in the answer: an http or https URL, and of the right domain. Not every engine follows `site:`.
pub(super) fn fits(query: &Query, hit: &Hit) -> bool {
    let Ok(url) = Url::parse(&hit.url) else { return false };
    let (true, Some(host)) = (matches!(url.scheme(), "http" | "https"), url.host_str()) else { return false };
    let is_of = |domain: &String| {
        host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    (query.include_domains.is_empty() || query.include_domains.iter().any(is_of))
        && !query.exclude_domains.iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(include: &[&str], exclude: &[&str]) -> Query {
        let owned = |domains: &[&str]| domains.iter().map(|&domain| domain.to_owned()).collect();
        Query { include_domains: owned(include), exclude_domains: owned(exclude), ..Query::new("rust") }
    }

    #[test]
    fn domains_become_site_terms() {
        assert_eq!(with_terms(&query(&[], &[])), "rust");
        assert_eq!(
            with_terms(&query(&["a.com"], &["b.com", "c.com"])),
            "rust site:a.com -site:b.com -site:c.com"
        );
        assert_eq!(with_terms(&query(&["a.com", "b.com"], &[])), "rust (site:a.com OR site:b.com)");
    }

    #[test]
    fn results_of_other_domains_are_dropped() {
        let hit = |url: &str| Hit {
            title: String::new(),
            url: url.to_owned(),
            snippet: String::new(),
            published: None,
            score: None,
        };
        let query = query(&["a.com"], &["x.a.com"]);
        for url in ["https://a.com/", "http://www.a.com/page"] {
            assert!(fits(&query, &hit(url)), "{url}");
        }
        for url in [
            "https://b.com/",
            "https://nota.com/",
            "https://x.a.com/",
            "https://a.com.evil.net/",
            "javascript:1",
            "a.com",
        ] {
            assert!(!fits(&query, &hit(url)), "{url}");
        }
    }

    #[test]
    fn domains_are_written_in_one_way() {
        for (text, domain) in [
            ("Example.COM", "example.com"),
            ("https://www.example.com/a", "www.example.com"),
            ("bücher.de", "xn--bcher-kva.de"),
            ("example.com.", "example.com"),
        ] {
            assert_eq!(normalised(text).as_deref(), Some(domain), "{text}");
        }
        for text in ["", "com", "a b.com", "a.com OR b.com", "127.0.0.1", "a.com:81", "u@a.com", "a.com?x"] {
            assert_eq!(normalised(text), None, "{text}");
        }
    }
}
