//! The service's own statements, to be sent by others.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use houston_xtask::repository;

/// The queries of the service by name, as they are prepared.
pub(crate) fn statements() -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Prepared {
        query: String,
    }
    let mut statements = BTreeMap::new();
    for entry in std::fs::read_dir(repository::root().join("crates/store/.sqlx"))? {
        let prepared: Prepared = serde_json::from_slice(&std::fs::read(entry?.path())?)?;
        if let Some((name, text)) =
            prepared.query.strip_prefix("-- ").and_then(|query| query.split_once('\n'))
        {
            statements.insert(name.trim().to_owned(), text.trim().to_owned());
        }
    }
    Ok(statements)
}

/// Puts `values` in the places of `$1`, `$2`, …; there must be as many as places.
pub(crate) fn fill(text: &str, values: &[&str]) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let (mut rest, mut highest) = (text, 0);
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let place: usize = after[..end].parse()?;
        filled.push_str(before);
        filled.push_str(values.get(place - 1).with_context(|| format!("there is no value for ${place}"))?);
        highest = highest.max(place);
        rest = &after[end..];
    }
    ensure!(highest == values.len(), "{} values for {highest} places", values.len());
    Ok(filled + rest)
}

/// As a literal of SQL.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_counted() {
        assert_eq!(fill("f($1, $2, $1)", &["a", "b"]).unwrap(), "f(a, b, a)");
        assert!(fill("f($1)", &["a", "b"]).is_err());
        assert!(fill("f($1, $10)", &["a"]).is_err());
    }
}
