//! A setting that cannot be read, as one line for a person.

use figment::error::Kind;

use super::ConfigError;

/// What figment found, as one readable line.
pub(super) fn explain(error: figment::Error) -> ConfigError {
    let key = error.path.join(".");
    let origin = origin_of(&error.metadata, &key);
    let mut reason = error.kind.to_string();
    if let Kind::UnknownField(given, allowed) | Kind::UnknownVariant(given, allowed) = &error.kind
        && let Some(nearest) = nearest(given, allowed)
    {
        reason = format!("{reason}; did you mean `{nearest}`?");
    }
    let key = if key.is_empty() { "settings".to_owned() } else { key };
    ConfigError::Setting { key, origin, reason }
}

/// The word that is most like `given`, if any is like it.
pub(super) fn nearest<'w>(given: &str, words: &[&'w str]) -> Option<&'w str> {
    /// From 0 to 1; below it, two names have little in common.
    const LIKE: f64 = 0.7;
    let like = words.iter().map(|&word| (strsim::jaro_winkler(word, given), word));
    let (likeness, word) = like.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (likeness >= LIKE).then_some(word)
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
