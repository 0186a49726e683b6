//! The top-level modules of a crate, which are the files and folders directly in its `src`, do not use each other in a circle:
//! one can be read after those that it uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::{code, named, sources};

/// The modules of a crate, with those that each of them uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Which modules of a crate use which, by its files: their paths below `src`, and their texts.
fn uses<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Uses {
    let mut uses = Uses::new();
    for (path, text) in files {
        let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
        if !["lib", "main"].contains(&module) {
            let used = uses.entry(module.to_owned()).or_default();
            used.extend(named(&code(text), "crate::").into_iter().map(str::to_owned));
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
    let sources = sources();
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_for_tests()) {
        if let Some((name, path)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().push((path, source.text.as_str()));
        }
    }
    for (name, files) in crates {
        let uses = uses(files);
        let circling = circling(&uses);
        assert!(circling.is_empty(), "circles in {name}: {circling:#?} of {uses:#?}");
    }
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
    let uses = uses(files);
    assert_eq!(circling(&uses), ["b", "c", "d"]);
    assert_eq!(uses["a"].iter().collect::<Vec<_>>(), ["b", "c"]);
}
