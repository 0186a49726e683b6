//! The service's SQL statements, for `pgbench`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use houston_xtask::repository;

/// The prepared queries of `crates/store/.sqlx`, by name.
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

/// Replaces the parameters `$1`, `$2`, … by `values`; fails if their numbers differ.
pub(crate) fn fill(text: &str, values: &[&str]) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let (mut rest, mut highest) = (text, 0);
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let parameter: usize = after[..end].parse()?;
        filled.push_str(before);
        filled.push_str(
            values.get(parameter - 1).with_context(|| format!("there is no value for ${parameter}"))?,
        );
        highest = highest.max(parameter);
        rest = &after[end..];
    }
    ensure!(highest == values.len(), "{} values for {highest} parameters", values.len());
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_filled_and_counted() {
        assert_eq!(fill("f($1, $2, $1)", &["a", "b"]).unwrap(), "f(a, b, a)");
        assert!(fill("f($1)", &["a", "b"]).is_err());
        assert!(fill("f($1, $10)", &["a"]).is_err());
    }
}
