//! What reads foreign input has one door: each engine is called in few files, which say how it is bounded, and what computes for
//! long does so in `meter`.

use crate::workspace::sources;

/// An engine, where it may be named, and what bounds it there.
struct Engine {
    name: &'static str,
    files: &'static [&'static str],
}

const ENGINES: [Engine; 10] = [
    // Fuel and sizes; what these do not bound is evaluated in a child process: `plan/metered.rs`.
    Engine { name: "minijinja", files: &["crates/domain/src/plan/expression.rs"] },
    // Counts its work.
    Engine { name: "regex_automata", files: &["crates/domain/src/bounded_regex.rs"] },
    // Compiled to at most 128 KiB, and read at most 1,000 characters; those of transformations run in `meter`. Expectations
    // are written by operators, and analysis has patterns of its own.
    Engine {
        name: "regex",
        files: &[
            "crates/domain/src/analysis/mod.rs",
            "crates/domain/src/bounded_regex.rs",
            "crates/domain/src/skill/trigger.rs",
            "crates/domain/src/team.rs",
            "crates/domain/src/trace/expectation.rs",
            "crates/domain/src/transform.rs",
            "crates/domain/src/trigger/keyword.rs",
        ],
    },
    // The number and the length of patterns, and how many bytes of paths a call may name; in arguments the work is counted.
    Engine {
        name: "globset",
        files: &["crates/domain/src/guard/pattern.rs", "crates/domain/src/workspace/path.rs"],
    },
    // Bytes and rows of a file.
    Engine { name: "::csv", files: &["crates/domain/src/custom_table/csv.rs"] },
    // Bytes of what is unpacked.
    Engine { name: "flate2", files: &["crates/console/src/assets.rs", "crates/web/src/body.rs"] },
    Engine { name: "zip", files: &["crates/cli/src/skill_source.rs"] },
    // The walls of the sandbox.
    Engine { name: "htmd", files: &["crates/sandbox/src/child/html.rs"] },
    Engine { name: "lopdf", files: &["crates/sandbox/src/child/pdf.rs"] },
    Engine { name: "fend_core", files: &["crates/sandbox/src/child/calculation.rs"] },
];

/// Where blocking threads are used besides `meter`: files, terminals, servers of the installation, and what is written by
/// operators.
const BLOCKING: [&str; 12] = [
    "crates/api/src/state/offload.rs",
    "crates/cli/src/lifecycle.rs",
    "crates/cli/src/process.rs",
    "crates/cli/src/tokens.rs",
    "crates/console/src/call.rs",
    "crates/engine/src/setup/guards.rs",
    "crates/folder/src/root.rs",
    "crates/mcp/src/http.rs",
    "crates/mcp/src/surroundings.rs",
    "crates/meter/src/lib.rs",
    "crates/store/src/schedule/trigger_reader.rs",
    "crates/tools/src/builtin/search_files.rs",
];

/// Crates that no foreign input reaches.
const INNER: [&str; 4] = ["crates/harness/", "crates/testkit/", "crates/verify/", "crates/xtask/"];

/// Whether code, other than that of tests in the file, names `word` before `::`.
fn names(text: &str, word: &str) -> bool {
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let path = format!("{word}::");
    code.flat_map(|line| line.match_indices(&path).map(move |(at, _)| &line[..at]))
        .map(|before| before.strip_suffix("::").unwrap_or(before))
        .any(|before| !before.ends_with(|c: char| c.is_alphanumeric() || "_:>".contains(c)))
}

#[test]
fn engines_for_foreign_input_are_named_where_they_are_bounded() {
    let (mut wrong, mut unused) = (Vec::new(), Vec::new());
    let sources = sources();
    let of_service = || {
        let inner = |path: &str| INNER.iter().any(|folder| path.starts_with(folder));
        sources.iter().filter(move |source| !source.is_for_tests() && !inner(&source.path))
    };
    for Engine { name, files } in ENGINES {
        let found: Vec<&str> = of_service()
            .filter(|source| names(&source.text, name))
            .map(|source| source.path.as_str())
            .collect();
        wrong.extend(found.iter().filter(|path| !files.contains(path)).map(|path| format!("{path}: {name}")));
        unused
            .extend(files.iter().filter(|file| !found.contains(file)).map(|file| format!("{file}: {name}")));
    }
    for source in of_service().filter(|source| source.text.contains("spawn_blocking(")) {
        if !BLOCKING.contains(&source.path.as_str()) {
            wrong.push(format!(
                "{}: spawn_blocking; `houston_meter::compute` is for foreign input",
                source.path
            ));
        }
    }
    assert!(wrong.is_empty(), "engines in files that are not listed in this test: {wrong:#?}");
    assert!(unused.is_empty(), "listed files that do not name the engine: {unused:#?}");
}
