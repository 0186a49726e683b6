//! Names of queries match the code, so that they can be found from Postgres' views.

use super::{module_of, sources};

/// The first string literal after `at`, without quotes and hashes.
fn literal(text: &str, at: usize) -> Option<&str> {
    let text = &text[at..];
    let start = text.find('"')? + 1;
    let end = start + text[start..].find('"')?;
    Some(&text[start..end])
}

#[test]
fn queries_begin_with_module_and_function() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in sources() {
        let Some(module) = module_of(&source) else { continue };
        let start = format!("-- store::{module}::");
        for call in [
            "query!(",
            "query_as!(",
            "query_scalar!(",
            "sqlx::query(",
            "sqlx::query_as(",
            "sqlx::query_scalar(",
            "query_with_context!(",
        ] {
            // In a macro whose caller names the query.
            let text = source.text.replace("query!($before", "");
            for (at, _) in text.match_indices(call) {
                count += 1;
                let line = text[..at].lines().count();
                let named = literal(&text, at + call.len()).and_then(|text| text.strip_prefix(&start));
                let name = named.and_then(|rest| rest.split(|c: char| c.is_whitespace() || c == '\\').next());
                if !name.is_some_and(|name| !name.is_empty() && name.chars().all(is_plain)) {
                    wrong.push(format!("{}:{line} does not begin with `{start}<function>`", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 20, "this test finds too few queries: {count}");
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}
