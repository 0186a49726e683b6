//! The tenant in every query of a request, and its connections.

use std::collections::{BTreeMap, BTreeSet};

use houston_testkit::sources::Source;

use super::{module_of, sources};

/// Queries of requests without a condition on the tenant, and why.
const WITHOUT_TENANT: [(&str, &str); 20] = [
    (
        "store::bound::lock",
        "an advisory lock, which reads no table; its name has the tenant or one of its rows",
    ),
    ("store::cancel::lock", "the agentable was found with its tenant; its tasks have the same one"),
    ("store::cancel::below", "the agentable was found with its tenant; its tasks have the same one"),
    ("store::cancel::ask", "the rows were locked by `store::cancel::lock`"),
    ("store::cancel::archive", "the rows were locked by `store::cancel::lock`"),
    ("store::task_push::end", "the webhook was stored by `store::task_push::put` in the same transaction"),
    ("store::question::close", "the question was read with its tenant, under the lock of its agentable"),
    (
        "store::conversation::read::seal",
        "reads the secret of the installation; the tenant is a part of what is sealed",
    ),
    ("store::message::alone::lock_key", "reads no table; the name of the lock has the tenant"),
    (
        "store::system_message::lock",
        "the agentable was found by `store::feed::writer` or `store::erasure::waiting_parent`",
    ),
    ("store::system_message::is_archived", "the row was locked by `store::system_message::lock`"),
    ("store::message::posted_into", "the message was posted or found with its tenant"),
    ("store::row_security::leave", "reads no table"),
    ("store::event::position::setting", "reads no table"),
    ("store::event::position::keeps", "reads how far events of all tenants were deleted, and no event"),
    ("store::fan_out::ensure_reader", "the reader is one for all tenants; only that it exists is written"),
    ("store::fan_out::notify", "reads no table"),
    ("store::trigger_reader::ensure", "the reader is one for all tenants; only that it exists is written"),
    ("store::trigger::notify", "reads no table"),
    ("store::creation::has_shard", "reads which shards this cell has, and nothing of a tenant"),
];

/// What a request reaches and that runs without row-level security, and why. Everything else has the connections of its
/// `TenantStore`, or those of `pool_of`.
const WITHOUT_ROW_SECURITY: [(&str, &str); 7] = [
    (
        "audit::write_record",
        "writes also what was done to the whole installation, which is of no tenant; names the tenant otherwise",
    ),
    (
        "ended::ended_runs",
        "reads so many rows at most, whosever they are, which it could not count under it; names the tenant",
    ),
    ("event::position::keeps_events_since", "reads how far events of all tenants were deleted, and no event"),
    (
        "run_list::scan_runs",
        "reads so many rows at most, whosever they are, which it could not count under it; names the tenant",
    ),
    (
        "usage::usage_of_ended",
        "reads so many rows at most, whosever they are, which it could not count under it; names the tenant",
    ),
    (
        "workspace_file::folder::settle_some",
        "does what committed rows of one agentable say, also for workers",
    ),
    (
        "workspace_file::folder::remove",
        "looks for rows of agentables that are being deleted, also for workers",
    ),
];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A function of the store.
#[derive(Debug, Default)]
struct Function {
    /// `event::batch`.
    module: String,
    /// The type of its `impl`; empty for a free function.
    of: String,
    name: String,
    body: String,
    /// The names that its file imports, with the last word of the module they come from.
    imports: BTreeMap<String, String>,
}

/// The functions of a file, recognised by the indentation that rustfmt gives them.
fn functions(source: &Source) -> Vec<Function> {
    let Some(module) = module_of(source) else { return Vec::new() };
    let imports = imports(&source.text, &module);
    let (mut all, mut of, mut open): (Vec<Function>, String, Option<usize>) = Default::default();
    for line in source.text.lines().take_while(|line| *line != "#[cfg(test)]") {
        let indent = line.len() - line.trim_start().len();
        if open.is_none() && indent == 0 && line.starts_with("impl") {
            let type_name = line.trim_end_matches(" {").rsplit(' ').next().unwrap_or_default();
            of = type_name.split('<').next().unwrap_or_default().to_owned();
        } else if open.is_none() && line == "}" {
            of.clear();
        }
        let head = line.trim_start();
        let head = ["pub ", "pub(crate) ", "pub(super) ", "async "]
            .iter()
            .fold(head, |head, word| head.trim_start_matches(word));
        if let (None, Some(rest)) = (open, head.strip_prefix("fn ").filter(|_| indent <= 4)) {
            let name = rest.chars().take_while(|c| is_word(*c)).collect();
            let (module, of, imports) = (module.clone(), of.clone(), imports.clone());
            all.push(Function { module, of, name, body: String::new(), imports });
            open = Some(indent);
        }
        if let (Some(at), Some(function)) = (open, all.last_mut()) {
            function.body.push_str(line);
            function.body.push('\n');
            if indent == at && (line.trim_start() == "}" || line.ends_with(';')) {
                open = None;
            }
        }
    }
    all
}

/// The imported names of a file, with the last word of the module they come from.
fn imports(text: &str, module: &str) -> BTreeMap<String, String> {
    let mut imports = BTreeMap::new();
    for used in text.split("\nuse ").skip(1) {
        let used = used.split(';').next().unwrap_or_default();
        let (from, names) = used.split_once('{').or_else(|| used.rsplit_once("::")).unwrap_or((used, ""));
        let from = from.trim_end_matches("::").rsplit("::").next().unwrap_or_default();
        let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
        let from = if from == "super" { parent.rsplit("::").next().unwrap_or_default() } else { from };
        for name in names.trim_end_matches('}').split(',') {
            imports.insert(name.trim().to_owned(), from.to_owned());
        }
    }
    imports
}

/// What is written before each call in a text (`batch` for `batch::read(`, `.` for a method), and the name that is called.
fn calls(body: &str) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    for (at, _) in body.match_indices('(') {
        // `item::<K>(`
        let generic = body[..at].strip_suffix('>').and_then(|before| before.rsplit_once("::<"));
        let before = generic.map_or(&body[..at], |(before, _)| before);
        let start = before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        let (before, name) = before.split_at(start);
        if name.is_empty() {
            continue;
        }
        let path = match before.strip_suffix("::") {
            Some(path) => path.rsplit(|c: char| !is_word(c)).next().unwrap_or_default(),
            None if before.trim_end().ends_with('.') => ".",
            None => "",
        };
        calls.push((path.to_owned(), name.to_owned()));
    }
    calls
}

/// The functions that a request may reach from the methods of its handle. Too many rather than too few: a method is
/// recognised by its name alone.
fn reachable(all: &[Function]) -> Vec<&Function> {
    let closed = ["RunStore", "ApiStore", "OperatorStore", "Store", "FencedTx"];
    let ends = |module: &str, word: &str| module.rsplit("::").next() == Some(word);
    let is_called = |one: &Function, caller: &Function, path: &str, name: &str| {
        let is_free = one.of.is_empty();
        one.name == name
            && match path {
                "." => {
                    let is_near = one.module.split("::").next() == caller.module.split("::").next();
                    !is_free
                        && !closed.contains(&one.of.as_str())
                        && (is_near || one.of == "TenantStore" || one.of == "Shared")
                }
                "Self" => one.of == caller.of && one.module == caller.module,
                "" | "self" if one.module == caller.module => is_free,
                "" => is_free && caller.imports.get(name).is_some_and(|from| ends(&one.module, from)),
                path => one.of == path || (is_free && ends(&one.module, path)),
            }
    };
    // What a batcher calls for them.
    let batches = ["Creations", "Posts", "StreamReads"];
    let is_first = |one: &Function| {
        one.of == "TenantStore" || (one.name == "write" && batches.contains(&one.of.as_str()))
    };
    let mut todo: Vec<usize> = (0..all.len()).filter(|nth| is_first(&all[*nth])).collect();
    let mut found: BTreeSet<usize> = todo.iter().copied().collect();
    while let Some(nth) = todo.pop() {
        for (path, name) in calls(&all[nth].body) {
            let called = (0..all.len()).filter(|one| is_called(&all[*one], &all[nth], &path, &name));
            todo.extend(called.filter(|one| found.insert(*one)).collect::<Vec<_>>());
        }
    }
    found.into_iter().map(|nth| &all[nth]).collect()
}

/// Where the string literal ends whose text begins here.
fn literal_end(text: &str, is_raw: bool) -> usize {
    let end = if is_raw {
        text.find("\"#")
    } else {
        text.match_indices('"').map(|(at, _)| at).find(|at| !text[..*at].ends_with('\\'))
    };
    end.unwrap_or(text.len())
}

/// The queries of a function: name and text.
fn queries(body: &str) -> Vec<(&str, &str)> {
    let mut queries = Vec::new();
    for (at, _) in body.match_indices("-- store::") {
        let start = at + 3;
        let mut end = start + literal_end(&body[start..], body[..at].ends_with("r#\""));
        // Between the name and the conditions of some are columns, which a macro has.
        loop {
            let rest = body[end..].trim_start_matches(['"', '#']);
            let Some(rest) = rest.strip_prefix(',').map(str::trim_start) else { break };
            let is_raw = rest.starts_with("r#\"");
            if !is_raw && !rest.starts_with('"') {
                break;
            }
            let start = body.len() - rest.len() + if is_raw { 3 } else { 1 };
            end = start + literal_end(&body[start..], is_raw);
        }
        let text = &body[start..end];
        let name = text.split(|c: char| c.is_whitespace() || c == '\\').next().unwrap_or_default();
        queries.push((name, text));
    }
    queries
}

/// Whether the rows that it reads or changes are restricted to a tenant, or the rows it inserts have one.
fn is_of_tenant(text: &str) -> bool {
    let has_condition = text.match_indices("tenant_id = ").any(|(at, found)| {
        // Not an assignment, as in `set tenant_id = null`.
        !text[at + found.len()..].starts_with("null")
    });
    has_condition || (text.contains("insert into") && text.contains("tenant_id,"))
}

#[test]
fn every_query_of_a_request_names_the_tenant() {
    let all: Vec<Function> = sources().iter().flat_map(functions).collect();
    let reachable = reachable(&all);
    let excepted: BTreeMap<&str, &str> = BTreeMap::from(WITHOUT_TENANT);
    let (mut wrong, mut used, mut count) = (Vec::new(), BTreeSet::new(), 0);
    for (name, text) in reachable.iter().flat_map(|function| queries(&function.body)) {
        count += 1;
        if is_of_tenant(text) {
            continue;
        }
        match excepted.get_key_value(name) {
            Some((name, _)) => drop(used.insert(*name)),
            None => wrong.push(name.to_owned()),
        }
    }
    assert!(wrong.is_empty(), "without a condition on tenant_id: {wrong:#?}");
    let unused: Vec<_> = excepted.keys().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "no longer exceptions: {unused:?}");
    assert!(count > 100, "this test finds too few queries: {count}");
    for method in ["events_after", "insert", "seal", "fence_off", "write"] {
        assert!(reachable.iter().any(|function| function.name == method), "{method} was not found");
    }
}

#[test]
fn requests_have_connections_with_row_security() {
    let all: Vec<Function> = sources().iter().flat_map(functions).collect();
    let mut found = BTreeSet::new();
    for function in reachable(&all) {
        let text = function.body.replace([' ', '\n'], "");
        // The field of a `TenantStore` is a `TenantPool`; that of all others has every right.
        let is_free = match function.of.as_str() {
            "TenantStore" => text.contains("shared.pool"),
            // It makes the connections of a `TenantStore`.
            "TenantPool" => false,
            _ => text.contains("self.pool)") || text.contains("self.pool.") || text.contains("shared.pool"),
        };
        if is_free {
            found.insert(format!("{}::{}", function.module, function.name));
        }
    }
    assert_eq!(found, WITHOUT_ROW_SECURITY.iter().map(|(name, _)| (*name).to_owned()).collect());
}
