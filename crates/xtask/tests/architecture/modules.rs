//! The modules of `engine` have floors and import only what is below them.

use crate::workspace::sources;

/// The modules of `engine` from the top floor to the lowest. Modules of one floor do not import each other. The map is in
/// `crates/README.md`.
const FLOORS: [&[&str]; 10] = [
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
];

/// Modules that only declare others.
const DECLARING: [&str; 2] = ["lib", "run"];

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
fn floor_of(path: &str) -> Option<(usize, &'static str)> {
    let is_inside =
        |room: &str| path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let mut rooms =
        FLOORS.iter().enumerate().flat_map(|(floor, rooms)| rooms.iter().map(move |room| (floor, *room)));
    rooms.find(|(_, room)| is_inside(room))
}

/// The arrows of a module that do not lead downwards.
fn upward(module: &str, text: &str) -> Vec<String> {
    let Some((floor, room)) = floor_of(module) else { return vec![format!("{module} has no floor")] };
    let is_wrong = |path: &String| floor_of(path).is_some_and(|(to, other)| other != room && to <= floor);
    mentioned(module, text).into_iter().filter(is_wrong).map(|path| format!("{module} → {path}")).collect()
}

#[test]
fn modules_import_only_what_is_below_them() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| !source.is_for_tests()) {
        let Some(path) = source.path.strip_prefix("crates/engine/src/") else { continue };
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        if !DECLARING.contains(&module.as_str()) {
            count += mentioned(&module, &source.text).len();
            wrong.extend(upward(&module, &source.text));
        }
    }
    assert!(wrong.is_empty(), "upward arrows: {wrong:#?}");
    assert!(count > 100, "this test finds only {count} paths");
}

#[test]
fn upward_arrows_are_found() {
    let text = "use crate::run::journal::Journal;\nlet a = super::super::driver::next();\n// crate::drive";
    assert_eq!(upward("run::tool_runner::call", text), ["run::tool_runner::call → run::driver::next"]);
    let sideways = "use crate::run::model_turn::{Call, Turn};";
    assert_eq!(upward("run::tool_runner", sideways), ["run::tool_runner → run::model_turn"]);
    assert_eq!(upward("run::driver", sideways), [""; 0]);
    assert_eq!(upward("new", ""), ["new has no floor"]);
}
