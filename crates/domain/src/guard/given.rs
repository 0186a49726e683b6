//! Addresses that the user wrote.

/// Whether the user wrote this address. The scheme and a `/` at the end do not count. What the user wrote is compared as it
/// is: an address that contains anything else can carry data to its host.
pub(super) fn is_given(url: &str, user_texts: &[&str]) -> bool {
    let url = url.trim();
    let bare = match url.split_once("://") {
        Some((scheme, rest)) if ["http", "https"].iter().any(|one| scheme.eq_ignore_ascii_case(one)) => rest,
        _ => url,
    };
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    !bare.is_empty() && user_texts.iter().any(|text| text.contains(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_user_wrote_is_given() {
        let texts = ["Compare (https://a.example/x?q=1) with b.example, please.", "And http://[::1]:80/"];
        for (url, given) in [
            ("https://a.example/x?q=1", true),
            ("http://a.example/x", true),
            ("https://b.example/", true),
            ("HTTPS://b.example", true),
            ("http://[::1]:80", true),
            ("https://a.example/x?q=1&d=secret", false),
            ("https://a.example/x?q=1#secret", false),
            ("https://B.example/", false),
            ("https://b.example/secret", false),
            ("https://secret.b.example/", false),
            ("https://secret@b.example/", false),
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(is_given(url, &texts), given, "{url}");
        }
    }
}
