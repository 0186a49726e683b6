//! Hosts in arguments.

/// Maximum length of a name in DNS.
const MAX_NAME: usize = 253;

/// The host of a URL, or of a host with or without a port: in lower case, without a dot at the end. `None` when
/// programs could read the text differently, for instance because of a backslash or of letters outside ASCII (an
/// international name is written as `xn--…`).
pub(super) fn host_of(url: &str) -> Option<String> {
    let url = url.trim_matches(' ');
    if url.contains(|letter: char| letter == '\\' || letter.is_whitespace() || letter.is_control()) {
        return None;
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => {
            let named = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            if scheme.is_empty() || !named || rest.starts_with('/') {
                return None;
            }
            rest
        }
        None => url.strip_prefix("//").unwrap_or(url),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let (host, port) = match host.strip_prefix('[') {
        Some(address) => {
            let (address, port) = address.split_once(']')?;
            if !address.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.') {
                return None;
            }
            (address, port.strip_prefix(':').unwrap_or(port))
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    let plain = (1..=MAX_NAME).contains(&host.len())
        && host.chars().all(is_name)
        && port.chars().all(|c| c.is_ascii_digit());
    plain.then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_clients_read_them() {
        for (url, host) in [
            ("https://example.com/a?b#c", "example.com"),
            ("HTTPS://Example.COM:8443", "example.com"),
            ("https://user:secret@example.com/", "example.com"),
            ("https://good.example@evil.example/", "evil.example"),
            ("https://good.example@x@evil.example/", "evil.example"),
            ("https://evil.example?good.example", "evil.example"),
            ("https://evil.example#@good.example", "evil.example"),
            ("example.com", "example.com"),
            ("example.com:80", "example.com"),
            ("//example.com/a", "example.com"),
            ("https://example.com./", "example.com"),
            ("http://[::1]:80/", "::1"),
        ] {
            assert_eq!(host_of(url).as_deref(), Some(host), "{url}");
        }
    }

    #[test]
    fn ambiguous_hosts_are_not_read() {
        for url in [
            "https://good.example\\@evil.example/",
            "https:\\\\evil.example",
            "https:///evil.example",
            "",
            "https://",
            "http://evil.example\t.good.example",
            "http://evil%2eexample/",
            "http://еvil.example",
            "://evil.example",
            "http://good.example:80:evil",
            "http:evil.example",
            "https://[::1",
            "http://evil.example。good",
        ] {
            assert_eq!(host_of(url), None, "{url:?}");
        }
    }
}
