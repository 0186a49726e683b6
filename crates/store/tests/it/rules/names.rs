//! Names of queries lead to the code, so that they can be found from Postgres' views.

use std::collections::BTreeSet;

use super::{module_of, sources};

/// The first string literal after `at`, without quotes and hashes.
fn literal(text: &str, at: usize) -> Option<&str> {
    let text = &text[at..];
    let start = text.find('"')? + 1;
    let end = start + text[start..].find('"')?;
    Some(&text[start..end])
}

/// `-- store::claim::read::candidates` is somewhere in `run/claim.rs` or below `run/claim/`, and nowhere else. The words after the
/// noun need not be those of the file: what measures and dashboards know by a name keeps it when code moves.
#[test]
fn queries_begin_with_their_noun_and_have_names_of_their_own() {
    let (mut wrong, mut names) = (Vec::new(), BTreeSet::new());
    for source in sources() {
        let Some(module) = module_of(&source) else { continue };
        let noun = module.split("::").next().unwrap_or_default();
        let start = format!("-- store::{noun}::");
        let text = &source.text;
        let macros = text.match_indices("!(").filter(|(at, _)| {
            let word =
                text[..*at].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            word == "query" || word.starts_with("query_")
        });
        let calls = ["sqlx::query(", "sqlx::query_as(", "sqlx::query_scalar("];
        let calls = calls.into_iter().flat_map(|call| text.match_indices(call));
        for (at, call) in macros.chain(calls) {
            let after = at + call.len();
            let begins = |with: &str| with.trim_start().starts_with("$before");
            let is_of_macro = begins(&text[after..])
                || text[after..].split_once(',').is_some_and(|(_, second)| begins(second));
            // In a macro whose caller names the query.
            if !is_of_macro {
                let line = text[..at].lines().count();
                let named = literal(text, after).and_then(|text| text.strip_prefix(&start));
                let name = named.and_then(|rest| rest.split(|c: char| c.is_whitespace() || c == '\\').next());
                match name.filter(|name| name.split("::").all(is_plain)) {
                    None => wrong.push(format!("{}:{line} does not begin with `{start}<name>`", source.path)),
                    Some(name) if !names.insert(format!("{noun}::{name}")) => {
                        wrong.push(format!("{}:{line} has the name of another query: {name}", source.path));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(names.len() > 20, "this test finds too few queries: {}", names.len());
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
