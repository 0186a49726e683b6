//! Names of tools that models accept: of 1 to 64 letters, digits, `_` and `-`.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::ServerSettings;
use super::pin::Pin;

/// The most characters of a tool's name.
const MAX: usize = 64;
/// Between the name of the server and that of the tool.
const BETWEEN: &str = "__";
/// Hex digits that tell apart names that would be the same.
const DIGITS: usize = 6;

/// The names under which the tools of `server` are offered, by the names that the server gives them: `server__tool`. Other
/// characters become `_`. A name that is too long, or that another tool has already, ends in digits of its hash.
pub fn offered<'t>(server: &str, tools: impl IntoIterator<Item = &'t str>) -> BTreeMap<String, String> {
    let tools: BTreeSet<&str> = tools.into_iter().collect();
    let wanted = |tool: &str| format!("{}{}", prefix(server), plain(tool));
    // A tool keeps a name that it has as it is.
    let (kept, changed): (Vec<&str>, Vec<&str>) =
        tools.iter().copied().partition(|tool| plain(tool) == **tool && wanted(tool).len() <= MAX);
    let mut names: BTreeMap<String, String> =
        kept.iter().map(|tool| ((*tool).to_owned(), wanted(tool))).collect();
    let mut taken: BTreeSet<String> = names.values().cloned().collect();
    for tool in changed {
        let (wanted, mut count) = (wanted(tool), DIGITS);
        let mut name = wanted.clone();
        // A server may choose names so that the first digits are the same.
        while name.len() > MAX || taken.contains(&name) {
            let kept = wanted.len().min(MAX - count - 1);
            name = format!("{}_{}", &wanted[..kept], digits(tool, count));
            count += DIGITS;
        }
        taken.insert(name.clone());
        names.insert(tool.to_owned(), name);
    }
    names
}

/// The tools that a tenant's or user's server offers: the names that the server gives them, and the names under which they are
/// offered.
pub fn of_settings(
    server: &str,
    settings: &ServerSettings,
    pins: &BTreeMap<String, Pin>,
) -> Vec<(String, String)> {
    if !settings.enabled {
        return Vec::new();
    }
    // All pins count, so that leaving one tool out does not rename another.
    let mut names = offered(server, pins.keys().map(String::as_str));
    let listed = pins.iter().filter(|(tool, pin)| !pin.gone && !pin.withheld && settings.allows(tool));
    listed.filter_map(|(tool, _)| names.remove_entry(tool)).collect()
}

/// What the names of a server's tools begin with.
pub fn prefix(server: &str) -> String {
    format!("{server}{BETWEEN}")
}

fn plain(tool: &str) -> String {
    tool.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

fn digits(tool: &str, count: usize) -> String {
    let mut digits = hex::encode(Sha256::digest(tool));
    digits.truncate(count);
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_kept_or_made_plain_and_unique() {
        let names = offered("hub", ["a_b", "a.b", "a b", "issues/list"]);
        assert_eq!(names["a_b"], "hub__a_b");
        assert_eq!(names["issues/list"], "hub__issues_list");
        assert!(names["a.b"].starts_with("hub__a_b_") && names["a b"].starts_with("hub__a_b_"), "{names:?}");
        assert_ne!(names["a.b"], names["a b"]);
    }

    #[test]
    fn long_names_end_in_their_hash() {
        let (one, two) = (format!("{}1", "x".repeat(100)), format!("{}2", "x".repeat(100)));
        let names = offered("hub", [one.as_str(), two.as_str()]);
        assert!(
            names[&one].len() == 64 && names[&two].len() == 64 && names[&one] != names[&two],
            "{names:?}"
        );
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_models_accept(tools in prop::collection::btree_set(".{1,140}", 1..20)) {
            let names = offered("a-server-with-24-letters", tools.iter().map(String::as_str));
            let unique: BTreeSet<&String> = names.values().collect();
            prop_assert_eq!(unique.len(), tools.len());
            for name in unique {
                prop_assert!(name.len() <= MAX && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)));
            }
        }
    }
}
