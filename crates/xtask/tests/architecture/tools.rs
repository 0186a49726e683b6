//! The name of a tool is written once, as its constant, which everything else uses.

use crate::workspace::sources;

/// The crates that run tools or speak of them. A simulated model (in `llm`), the harness and tests call tools by name, as
/// a model does.
const CRATES: [&str; 9] = ["api", "cli", "domain", "engine", "protocol", "queue", "store", "tools", "worker"];

/// Files that may contain a name as well, and why.
const EXCEPTIONS: [(&str, &str); 6] = [
    // What Houston discloses of a skill by itself says how to read the rest.
    ("read_skill_file", "crates/domain/src/skill/entry.rs"),
    // What the end of a plan leaves out, and how to read it.
    ("read_plan", "crates/domain/src/plan/checklist.rs"),
    ("read_plan", "crates/domain/src/plan/resolve.rs"),
    // The id of a REST operation, which is no tool.
    ("update_profile", "crates/api/src/resources/profile.rs"),
    ("create_plan", "crates/api/src/resources/plans/create.rs"),
    ("change_plan", "crates/api/src/resources/plans.rs"),
];

/// The contents of the string literals of a file, without its tests and comments.
fn literals(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default().replace("'\"'", "");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.map(|line| format!("{line}\n")).collect();
    code.replace("\\\"", "").split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|one| one == word)
}

/// The name that a line gives to a constant.
fn constant(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("str = \"")?;
    before.contains("const ").then(|| rest.strip_suffix("\";"))?
}

#[test]
fn the_name_of_a_tool_is_written_in_its_file_only() {
    let mut sources = sources();
    sources.retain(|source| {
        let is_of = |name: &str| source.path.starts_with(&format!("crates/{name}/src/"));
        !source.is_for_tests() && CRATES.into_iter().any(is_of)
    });
    let checked: Vec<_> = sources.iter().map(|source| (source, literals(&source.text))).collect();
    let (mut wrong, mut used) = (Vec::new(), 0);
    let definitions = include_str!("../../../tools/tests/it/definitions.json");
    let definitions: serde_json::Value = serde_json::from_str(definitions).unwrap();
    let lists = ["tools", "tools_that_find_others"].map(|list| definitions[list].as_array().unwrap());
    let tools: Vec<&str> = lists.into_iter().flatten().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(tools.len() > 60, "this test finds only {} tools", tools.len());
    for tool in tools {
        for (source, literals) in &checked {
            let is_its_home = || source.text.lines().filter_map(constant).any(|name| name == tool);
            if !literals.iter().any(|literal| has_word(literal, tool)) || is_its_home() {
                continue;
            }
            if EXCEPTIONS.contains(&(tool, source.path.as_str())) {
                used += 1;
            } else {
                wrong.push(format!("`{tool}` in {}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "use the constant `NAME` of the tool: {wrong:#?}");
    assert_eq!(used, EXCEPTIONS.len(), "remove exceptions that are not needed");
}
