//! The top-level modules of a crate, which are the files and folders directly in its `src`, do not use each other in a circle:
//! one can be read after those that it uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::{members, sources};

/// The modules of a crate, with those that each of them uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// What the paths of a file begin with that begin at its crate: `a`, `b` and `c` of `crate::a` and `crate::{b, c::D}`.
fn named(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0_usize, true);
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' => begins = depth == 0,
                letter if begins && !letter.is_whitespace() => {
                    names.insert(word(&group[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// Which modules of a crate use which, by its files: their paths below `src`, and their texts.
fn uses<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Uses {
    let mut uses = Uses::new();
    for (path, text) in files {
        let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
        if !["lib", "main"].contains(&module) {
            uses.entry(module.to_owned()).or_default().extend(named(text));
        }
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, used) in &mut uses {
        used.retain(|name| name != module && modules.contains(name));
    }
    uses
}

/// The modules that use themselves by way of others.
fn circling(uses: &Uses) -> Vec<&str> {
    let is_circling = |module: &&String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*module]);
        while let Some(used) = next.pop().and_then(|module| uses.get(module)) {
            next.extend(used.iter().filter(|used| seen.insert(*used)));
        }
        seen.contains(*module)
    };
    uses.keys().filter(is_circling).map(String::as_str).collect()
}

#[test]
fn modules_of_a_crate_use_each_other_in_no_circle() {
    let (sources, mut count) = (sources(), 0);
    for member in members() {
        let folder = format!("crates/{}/src/", member.name);
        let files = sources.iter().filter(|source| !source.is_for_tests());
        let files = files.filter_map(|source| Some((source.path.strip_prefix(&folder)?, &*source.text)));
        let uses = uses(files);
        count += uses.values().map(BTreeSet::len).sum::<usize>();
        let circling = circling(&uses);
        assert!(circling.is_empty(), "circles in {}: {circling:#?} of {uses:#?}", member.name);
    }
    assert!(count > 1000, "this test finds only {count} uses");
}

#[test]
fn circles_are_found() {
    let files = [
        ("lib.rs", "use crate::a::X;"),
        ("a.rs", "use crate::{b::{X, d}, c};"),
        ("b/mod.rs", "fn f() { crate::c::g() }"),
        ("b/inner.rs", "use crate::b::X;\n// crate::a"),
        ("c.rs", "use crate::{X, d::{Y, a}};"),
        ("d.rs", "use crate::b::Z;"),
    ];
    let uses = uses(files.into_iter());
    assert_eq!(circling(&uses), ["b", "c", "d"]);
    assert_eq!(uses["a"].iter().collect::<Vec<_>>(), ["b", "c"]);
}
