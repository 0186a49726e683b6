//! One tool is one file: its name is written there, and everywhere else its constant is used.

use crate::workspace::sources;

/// The crates that run tools or speak of them. A simulated model (in `llm`), the harness and tests call tools by name, as
/// a model does.
const CRATES: [&str; 9] = ["api", "cli", "domain", "engine", "protocol", "queue", "store", "tools", "worker"];

/// Files that may contain a name as well, and why.
const EXCEPTIONS: [(&str, &str); 9] = [
    // A call of it ends the turn, so the state machine has the constant.
    ("send_message", "crates/domain/src/agent/mod.rs"),
    // A call of it is a call of another tool, for the rules of a run and for the overseer.
    ("use_tool", "crates/domain/src/inner_call.rs"),
    // A call of it reads a skill, which a session does once; and what it returns is what Houston discloses by itself, which
    // says how to read the rest.
    ("use_skill", "crates/domain/src/skill.rs"),
    ("read_skill_file", "crates/domain/src/skill/entry.rs"),
    // What the end of a plan leaves out, and how to read it.
    ("read_plan", "crates/domain/src/plan/ended.rs"),
    ("read_plan", "crates/domain/src/plan/scope.rs"),
    // The id of a REST operation, which is no tool.
    ("update_profile", "crates/api/src/profile/change.rs"),
    ("create_plan", "crates/api/src/plans/create.rs"),
    ("change_plan", "crates/api/src/plans/change.rs"),
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

#[test]
fn the_name_of_a_tool_is_written_in_its_file_only() {
    let mut sources = sources();
    sources.retain(|source| {
        let is_of = |name: &str| source.path.starts_with(&format!("crates/{name}/src/"));
        !source.is_for_tests() && CRATES.into_iter().any(is_of)
    });
    let checked: Vec<_> = sources.iter().map(|source| (source, literals(&source.text))).collect();
    let (mut wrong, mut used) = (Vec::new(), 0);
    let files = sources.iter().filter_map(|source| source.path.strip_prefix("crates/tools/src/builtin/"));
    let tools: Vec<&str> =
        files.filter_map(|file| file.strip_suffix(".rs")).filter(|name| *name != "mod").collect();
    assert!(tools.len() > 20, "this test finds only {} tools", tools.len());
    for tool in tools {
        let own = format!("crates/tools/src/builtin/{tool}.rs");
        for (source, literals) in &checked {
            if source.path == own || !literals.iter().any(|literal| has_word(literal, tool)) {
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
