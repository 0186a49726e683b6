//! Texts that only some files may have: one table, and one walk over the code of the service. And the form of some texts.

use std::fs;

use crate::{is_of_name, named, root, service, sources};

/// Texts, and the only files that may have them.
struct Rule {
    /// The beginning of the paths in `crates` that the rule is for.
    within: &'static str,
    texts: Vec<String>,
    /// Beginnings of paths in `crates`. Each of them must have one of the texts, so that this list shrinks.
    files: &'static [&'static str],
    why: &'static str,
}

fn only(files: &'static [&'static str], texts: &[&str], why: &'static str) -> Rule {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    Rule { within: "", texts, files, why }
}

/// What reads foreign input has one door: where it is bounded.
fn engines() -> [Rule; 11] {
    const SANDBOX: &str = "within the walls of the sandbox";
    const UNPACKED: &str = "where bytes of what is unpacked are counted";
    [
        // What these do not bound is evaluated in a child process: `plan/metered.rs`.
        only(&["domain/src/plan/expression.rs"], &["minijinja::"], "with fuel and sizes"),
        only(&["domain/src/bounded_regex.rs"], &["regex_automata::"], "where its work is counted"),
        // Expectations are written by operators, and analysis has patterns of its own.
        only(
            &[
                "domain/src/analysis/mod.rs",
                "domain/src/bounded_regex.rs",
                "domain/src/team.rs",
                "domain/src/trace/expectation.rs",
                "domain/src/transform.rs",
                "domain/src/trigger/keyword.rs",
            ],
            &["regex::"],
            "compiled to at most 128 KiB, and read at most 1,000 characters or in `meter`",
        ),
        only(
            &["domain/src/guard/pattern.rs", "domain/src/workspace/path.rs"],
            &["globset::"],
            "where the number and the length of patterns, and the bytes of paths are bounded",
        ),
        only(&["domain/src/custom_table/csv.rs"], &["::csv::"], "where bytes and rows are counted"),
        only(&["console/src/assets.rs", "web/src/body.rs"], &["flate2::"], UNPACKED),
        only(&["cli/src/skill_source.rs"], &["zip::"], UNPACKED),
        only(&["sandbox/src/child/html.rs"], &["htmd::"], SANDBOX),
        only(&["sandbox/src/child/pdf.rs"], &["lopdf::"], SANDBOX),
        only(&["sandbox/src/child/calculation.rs"], &["fend_core::"], SANDBOX),
        // The others are for files, terminals, servers of the installation, and what is written by operators.
        only(
            &[
                "api/src/state/offload.rs",
                "cli/src/process.rs",
                "cli/src/tokens.rs",
                "console/src/call.rs",
                "engine/src/setup/guards.rs",
                "folder/src/root.rs",
                "mcp/src/http.rs",
                "mcp/src/surroundings.rs",
                "meter/src/lib.rs",
                "store/src/schedule/trigger_reader.rs",
                "tools/src/builtin/search_files.rs",
            ],
            &["spawn_blocking("],
            "`houston_meter::compute` is for foreign input",
        ),
    ]
}

/// Text of users, models and providers may contain escape sequences of terminals. Macros that print are denied by clippy.
fn terminal() -> Rule {
    let ways = [
        "::stdout",
        "::stderr",
        " stdout(",
        " stderr(",
        "ExternalPrinter",
        "create_external_printer",
        "/dev/tty",
        "/dev/stdout",
        "/dev/stderr",
    ];
    let rule = only(
        &["cli/src/output.rs", "cli/src/chat/editor.rs"],
        &ways,
        "crate::output removes escape sequences",
    );
    Rule { within: "cli/src/", ..rule }
}

/// With these and the types (a `Principal` is made only by `ApiKey::principal` and `OperatorStore::principal`), the API has no
/// tenant but that of a key which was read from Postgres, or of a command of the operator.
fn tenants() -> [Rule; 5] {
    let rules = [
        only(&["api/src/caller.rs", "api/src/state/mod.rs"], &[".principal()"], "only from authentication"),
        only(&["api/src/caller.rs"], &["key.principal()"], "only where keys are authenticated"),
        only(&["api/src/state/keys.rs"], &["Authority::of"], "only where keys are looked up"),
        only(&["api/src/local.rs"], &["Authority::for_command"], "only for commands of the operator"),
        only(&[], &["    ApiKey {"], "a key that was not read from Postgres"),
    ];
    rules.map(|rule| Rule { within: "api/src/", ..rule })
}

/// Kinds are data: code checks the properties of an agent type, never its name.
fn kinds() -> Rule {
    let files = fs::read_dir(root().join("jobs/agents")).unwrap();
    let kinds = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    // It is also the name of the driver of plans, and the beginning of their ids and topics.
    let kinds = kinds.filter(|kind| kind != "plan");
    let texts = kinds.flat_map(|kind| [format!("\"{kind}\""), format!("'{kind}'")]).collect();
    let files = &[
        // The list of the kinds that come with Houston, and names of the tables of fields.
        "cli/src/config/kinds.rs",
        "domain/src/field.rs",
        // The example of an agentable's id in the API's document.
        "domain/src/schema.rs",
        // Steps and fields of plans, some of which have the same names.
        "domain/src/plan/",
        "tools/src/builtin/plans.rs",
        "console/src/threads/plan.rs",
        "llm/src/simulated/rules.rs",
        "domain/examples/",
        "mcp/examples/",
        "store/examples/",
    ];
    Rule { within: "", texts, files, why: "check a property of the agent type instead" }
}

/// Whether a text is in the code, and not a part of a longer name.
fn has(code: &str, text: &str) -> bool {
    code.match_indices(text).any(|(at, _)| {
        let before = text.starts_with(is_of_name) && code[..at].ends_with(is_of_name);
        let goes_on = text.ends_with(is_of_name) && code[at + text.len()..].starts_with(is_of_name);
        !before && !goes_on
    })
}

#[test]
fn texts_are_only_in_the_files_of_the_table() {
    let (service, mut wrong) = (service(), Vec::new());
    let rules = engines().into_iter().chain(tenants()).chain([terminal(), kinds()]);
    for Rule { within, texts, files, why } in rules {
        let mut unused = files.to_vec();
        for (path, code) in service.iter().filter(|(path, _)| path.starts_with(within)) {
            let Some(text) = texts.iter().find(|text| has(code, text)) else { continue };
            if !files.iter().any(|file| path.starts_with(file)) {
                wrong.push(format!("{path} has `{text}`: {why}"));
            }
            unused.retain(|file| !path.starts_with(file));
        }
        wrong.extend(unused.iter().map(|file| format!("{file} has none of {texts:?}: remove the exception")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Handles of the store, and the crates that may name them.
const HANDLES: [(&str, &[&str]); 5] = [
    ("RunStore", &["engine", "worker", "cli"]),
    ("OperatorStore", &["cli"]),
    ("ApiStore", &["api"]),
    // A program is one tenant, whose handle `cli` makes for the library.
    ("TenantStore", &["store", "api", "cli", "houston"]),
    // Opens the database, and makes all the others.
    ("Store", &["store", "cli"]),
];

#[test]
fn crates_name_only_their_handles_of_the_store() {
    let mut wrong = Vec::new();
    for (path, code) in service() {
        let member = path.split('/').next().unwrap_or_default();
        for name in named(&code, "houston_store::") {
            let rule = HANDLES.iter().find(|(handle, may)| *handle == name && !may.contains(&member));
            wrong.extend(rule.map(|(_, may)| format!("{path} names {name}, which only {may:?} may name")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `cargo xtask quick` runs the tests in `src/` without servers.
#[test]
fn tests_in_src_use_no_servers() {
    // Development tools, and the crates whose purpose is to start servers.
    let may = ["testkit", "xtask", "harness", "embedded", "cli"].map(|name| format!("crates/{name}/"));
    let has_servers = |text: &str| text.contains("houston_testkit::") || text.contains("houston_embedded::");
    for source in sources() {
        let is_checked = source.path.contains("/src/") && !may.iter().any(|may| source.path.starts_with(may));
        let is_wrong = is_checked && has_servers(&source.text);
        assert!(!is_wrong, "{}: move tests with servers to the crate's `tests/`", source.path);
    }
}

/// The other way round, a case whose crash point is not reached fails when it is run.
#[test]
fn crash_points_have_cases_and_are_in_no_release() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("debug-assertions"), "a profile changes which builds have crash points");
    let cases = fs::read_to_string(root().join("crates/cli/tests/crash_points/case.rs")).unwrap();
    let service = service();
    let code = service.iter().filter(|(path, _)| !path.starts_with("faults/")).map(|(_, code)| code);
    let points =
        code.flat_map(|code| code.split("fault!(\"").skip(1)).filter_map(|rest| rest.split('"').next());
    let without: Vec<&str> = points.filter(|point| !has(&cases, point)).collect();
    assert!(without.is_empty(), "crash points without a case in crates/cli/tests/crash_points: {without:?}");
}

#[test]
fn log_messages_are_lower_case_without_full_stop() {
    let mut wrong = Vec::new();
    for (path, code) in service() {
        for level in ["error", "warn", "info", "debug", "trace"] {
            for arguments in code.split(&format!("tracing::{level}!(")).skip(1) {
                let Some((arguments, _)) = arguments.split_once(");") else { continue };
                // The message is the last literal of the call.
                let message = arguments.split('"').nth_back(1).unwrap_or_default();
                let first = message.split(' ').next().unwrap_or_default();
                let is_name = first.chars().skip(1).any(char::is_uppercase);
                if message.ends_with('.') || (first.starts_with(char::is_uppercase) && !is_name) {
                    wrong.push(format!("{path}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A test's name is a filter of `cargo xtask test`, too.
#[test]
fn test_names_are_short() {
    for source in sources() {
        for attribute in ["#[test]", "#[tokio::test"] {
            for after in source.text.split(attribute).skip(1) {
                let name =
                    after.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).unwrap_or_default();
                assert!(name.len() <= 60, "{}: `{name}` has {} characters of 60", source.path, name.len());
            }
        }
    }
}

/// Files that may contain the name of a tool besides the one with its constant, and why.
const TOOLS: [(&str, &str); 4] = [
    // What Houston discloses of a skill by itself says how to read the rest.
    ("read_skill_file", "domain/src/skill/entry.rs"),
    // What the end of a plan leaves out, and how to read it.
    ("read_plan", "domain/src/plan/checklist.rs"),
    ("read_plan", "domain/src/plan/resolve.rs"),
    // A verb in a list.
    ("translate", "domain/src/analysis/mod.rs"),
];

/// The contents of the string literals of a code.
fn literals(code: &str) -> String {
    let code = code.replace("'\"'", "").replace("\\\"", "");
    code.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_name_of_a_tool_is_written_in_its_file_only() {
    let definitions = include_str!("../../../tools/tests/it/definitions.json");
    let definitions: serde_json::Value = serde_json::from_str(definitions).unwrap();
    let lists = ["tools", "tools_that_find_others"].map(|list| definitions[list].as_array().unwrap());
    let tools: Vec<&str> = lists.into_iter().flatten().map(|tool| tool["name"].as_str().unwrap()).collect();
    let (mut wrong, mut used) = (Vec::new(), 0);
    for (path, code) in service() {
        // A simulated model calls tools by name, as a model does, the sandbox knows none, and examples are programs of others.
        if ["llm/", "sandbox/"].iter().any(|name| path.starts_with(name)) || !path.contains("/src/") {
            continue;
        }
        // The line of an endpoint with the id of its operation, which is no tool.
        let is_operation = |line: &&str| {
            let line = line.trim_start();
            path.starts_with("api/src/resources/")
                && line.starts_with('"')
                && (line.contains("\" in \"") || line.contains("\": \""))
        };
        let others: Vec<&str> = code.lines().filter(|line| !is_operation(line)).collect();
        let literals = literals(&others.join("\n"));
        // The file that gives this name to a constant, or to a type in `built_in!`.
        let is_home = |tool: &str| {
            let (value, of_type) = (format!("str = \"{tool}\";"), format!(": \"{tool}\", "));
            code.lines().any(|line| {
                line.contains("const ") && line.ends_with(&value)
                    || line.trim_start().starts_with(char::is_uppercase) && line.contains(&of_type)
            })
        };
        for tool in tools.iter().filter(|tool| has(&literals, tool) && !is_home(tool)) {
            match TOOLS.contains(&(*tool, path.as_str())) {
                true => used += 1,
                false => wrong.push(format!("`{tool}` in {path}: use the constant `NAME` of the tool")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(used, TOOLS.len(), "remove exceptions that are not needed");
}
