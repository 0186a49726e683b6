//! A setting that cannot be read, as one line for a person.

use figment::error::Kind;

use super::ConfigError;

/// What figment found, as one readable line.
pub(super) fn explain(error: figment::Error) -> ConfigError {
    let key = error.path.join(".");
    let origin = origin_of(&error.metadata, &key);
    let is_of_provider = key.starts_with("providers") || origin.contains("providers.toml");
    let unknown = |what: &str, given: &str, allowed: &[&str]| {
        let like =
            nearest(given, allowed).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        format!("there is no {what} `{given}`; there are: {}{like}", allowed.join(", "))
    };
    let reason = match &error.kind {
        Kind::UnknownField(given, allowed) => unknown("key", given, allowed),
        other if is_of_provider => without_value(other),
        Kind::UnknownVariant(given, allowed) => unknown("value", given, allowed),
        other => other.to_string(),
    };
    let key = if key.is_empty() { "settings".to_owned() } else { key };
    ConfigError::Setting { key, origin, reason }
}

/// What is wrong with a setting of a provider, which may be a key in the wrong place: its value is not shown.
fn without_value(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(_, expected) => {
            format!("this value (not shown) is not of the right type, expected {expected}")
        }
        Kind::InvalidValue(_, expected) => {
            format!("this value (not shown) is not right, expected {expected}")
        }
        Kind::UnknownVariant(_, allowed) => {
            format!("this value (not shown) is not known, allowed are {}", allowed.join(", "))
        }
        Kind::ISizeOutOfRange(_) | Kind::USizeOutOfRange(_) => {
            "this number (not shown) is out of range".to_owned()
        }
        // Of TOML that cannot be read, the line that is wrong is quoted.
        Kind::Message(message) if message.contains("TOML parse error") => {
            let place = message.lines().next().unwrap_or_default();
            let fault = message.lines().last().unwrap_or_default();
            format!("{place}: {fault} (the line is not shown: it may hold a key)")
        }
        other => other.to_string(),
    }
}

/// The word that is most like `given`, if any is like it: a few letters more, less, other or swapped.
pub(crate) fn nearest<'w>(given: &str, words: &[&'w str]) -> Option<&'w str> {
    let slips = |word: &str| match given.chars().count() {
        3.. if word.starts_with(given) => 1,
        _ => strsim::damerau_levenshtein(&word.to_lowercase(), &given.to_lowercase()),
    };
    let length = given.chars().count();
    // Of equals the one that is as long: `agent` is rather `agents` than `agent_check_in`.
    let rated = words.iter().map(|&word| (slips(word), word.chars().count().abs_diff(length), word));
    let (slips, _, word) = rated.min_by_key(|(slips, longer, _)| (*slips, *longer))?;
    // One slip in three letters: `foo` and `google` have little in common.
    let longest = length.max(word.chars().count());
    let most = match given.rsplit_once('.') {
        // Of a file's name the end is another matter.
        Some((stem, _)) if word.split_once('.').is_some_and(|(known, _)| known == stem) => usize::MAX,
        _ => longest / 3,
    };
    (slips <= most).then_some(word)
}

/// The file or variable that `key` comes from.
pub(super) fn origin_of(metadata: &Option<figment::Metadata>, key: &str) -> String {
    match metadata {
        Some(metadata) if metadata.name.contains("environment") => variable(key),
        Some(metadata) => metadata.name.to_string(),
        None => "not set anywhere".to_owned(),
    }
}

fn variable(key: &str) -> String {
    format!("HOUSTON_{}", key.replace('.', "__").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let words = ["google", "anthropic", "mixtral-8x7b-32768", "server.toml", "send_message", "agents"];
        for (given, expected) in [
            ("foo", None),
            ("x", None),
            ("", None),
            ("fly", None),
            ("antropic", Some("anthropic")),
            ("Google", Some("google")),
            ("gogle", Some("google")),
            ("agent", Some("agents")),
            ("anthro", Some("anthropic")),
            ("server.yaml", Some("server.toml")),
            ("sendmessage", Some("send_message")),
        ] {
            assert_eq!(nearest(given, &words), expected, "{given}");
        }
    }
}
