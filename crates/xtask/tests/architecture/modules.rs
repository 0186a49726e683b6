//! The modules of a crate have floors and import only what is below them.

use crate::sources::{Source, sources};

/// A crate, and its modules from the top floor to the lowest. Modules of one floor do not import each other. The map is in
/// `crates/README.md`.
const FLOORS: [(&str, &[&[&str]]); 1] = [(
    "engine",
    &[
        &["drive"],
        &["engine", "meter"],
        &["run::driver"],
        &["run::model_turn", "run::tool_runner"],
        &["run::journal"],
        &["run::services", "run::signals", "run::storage"],
        &["background", "prompt"],
        &["setup"],
        &["driver", "hook"],
        &["config", "error", "holder", "live", "observer", "rates"],
    ],
)];

/// A module as the path to it: `run::driver::turn`.
fn module_of(path: &str, sources: &str) -> String {
    let inner = path.strip_prefix(sources).unwrap().strip_suffix(".rs").unwrap();
    inner.strip_suffix("/mod").unwrap_or(inner).replace('/', "::")
}

/// The paths inside the crate that a module mentions, as `run::journal::Journal`.
fn mentioned(module: &str, text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut paths = Vec::new();
    for line in code {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        for word in words.filter(|word| word.contains("::")) {
            let mut from: Vec<&str> = module.split("::").collect();
            let mut rest = word;
            if let Some(absolute) = rest.strip_prefix("crate::") {
                (from, rest) = (Vec::new(), absolute);
            } else if rest.starts_with("super::") {
                while let Some(above) = rest.strip_prefix("super::") {
                    from.pop();
                    rest = above;
                }
            } else {
                continue;
            }
            from.extend(rest.split("::").filter(|part| !part.is_empty()));
            paths.push(from.join("::"));
        }
    }
    paths
}

/// The floor of a path, counted from the top, and the module there.
fn floor_of<'f>(floors: &'f [&'f [&'f str]], path: &str) -> Option<(usize, &'f str)> {
    let is_inside = |room: &str| path == room || path.starts_with(&format!("{room}::"));
    let all =
        floors.iter().enumerate().flat_map(|(floor, rooms)| rooms.iter().map(move |room| (floor, *room)));
    all.into_iter().find(|(_, room)| is_inside(room))
}

/// The arrows of a module that do not lead downwards.
fn upward(floors: &[&[&str]], module: &str, text: &str) -> Vec<String> {
    let Some((floor, room)) = floor_of(floors, module) else { return Vec::new() };
    let mut wrong = Vec::new();
    for path in mentioned(module, text) {
        if let Some((other_floor, other)) = floor_of(floors, &path)
            && other != room
            && other_floor <= floor
        {
            wrong.push(format!("{module} → {path}"));
        }
    }
    wrong
}

#[test]
fn modules_import_only_what_is_below_them() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, floors) in FLOORS {
        let folder = format!("crates/{name}/src/");
        let is_code = |source: &Source| source.path.starts_with(&folder) && !source.is_for_tests();
        for source in sources().iter().filter(|source| is_code(source)) {
            let module = module_of(&source.path, &folder);
            count += mentioned(&module, &source.text).len();
            wrong.extend(upward(floors, &module, &source.text));
        }
    }
    assert!(wrong.is_empty(), "upward arrows: {wrong:#?}");
    assert!(count > 100, "this test finds only {count} paths");
}

#[test]
fn every_module_has_a_floor() {
    let mut wrong = Vec::new();
    for (name, floors) in FLOORS {
        let folder = format!("crates/{name}/src/");
        let is_code = |source: &Source| source.path.starts_with(&folder) && !source.is_for_tests();
        for source in sources().iter().filter(|source| is_code(source)) {
            let module = module_of(&source.path, &folder);
            let only_declares = ["lib", "run"].contains(&module.as_str());
            if !only_declares && floor_of(floors, &module).is_none() {
                wrong.push(format!("{name}::{module}"));
            }
        }
    }
    assert!(wrong.is_empty(), "give these modules a floor: {wrong:#?}");
}

#[test]
fn upward_arrows_are_found() {
    let floors: &[&[&str]] = &[&["run::driver"], &["run::tools", "run::model"], &["run::journal"]];
    let text =
        "use crate::run::journal::Journal;\nlet a = super::super::driver::next();\n// crate::run::driver";
    assert_eq!(upward(floors, "run::tools::call", text), ["run::tools::call → run::driver::next"]);
    let sideways = "use crate::run::model::{Call, Turn};";
    assert_eq!(upward(floors, "run::tools", sideways), ["run::tools → run::model"]);
    assert_eq!(upward(floors, "run::driver", sideways), [""; 0]);
}
