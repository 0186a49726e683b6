//! Rules for the text of SQL, so that an installation can be spread over several Postgres servers or moved to a
//! distributed one. The rules for tables and functions are in the test `shards`, which reads the catalog.
//!
//! 1. **No clock in UPDATE and DELETE.** A volatile function there is refused by distributed servers, and two rows of one
//!    statement would get two times. Use `statement_timestamp()`, which is stable; where the time after waiting for a lock
//!    matters, read it into a variable or a CTE first.
//! 2. **No time in CASE, COALESCE or RETURNING of an UPDATE or DELETE**, not even a stable one: distributed servers refuse
//!    it. Compute it before.
//! 3. **A function that reads tables is called on its own**, not in a statement that reads tables beside it: it would run
//!    on another server than its caller's rows.
//! 4. **No advisory locks and no temporary tables** beside those listed: they exist on one server only.
//!
//! Each exception is a named query or function with its reason. The lists may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{root, sources};

/// Exceptions of rule 1.
const CLOCKS: &[(&str, &str)] = &[];

/// Exceptions of rule 2.
const TIMES: &[(&str, &str)] = &[];

/// Exceptions of rule 3.
const CALLS: &[(&str, &str)] = &[
    ("close_session", "session_extract of the agentable of its row"),
    ("store::claim::read::candidates", "free_slots of the users of the batch, which is read without locks"),
    ("store::conversation::make::past::sessions", "session_extract of the new agentable"),
    ("store::conversation::reset::close", "close_session of one agentable, beside the check of its tenant"),
    ("store::health::waiting::late", "free_slots of users that wait; asked of each server by itself"),
    ("store::message::batch::post", "free_slots of the users of the batch, for the hint only"),
    ("store::question::report", "free_slots of the users whose questions were closed, for the hint only"),
    (
        "store::step::statement::write",
        "free_slots of the users whose slots a batch frees, for the hints only",
    ),
    ("store::step::statement::write_with_plans", "as store::step::statement::write"),
    ("store::step::statement::write_with_tools", "as store::step::statement::write"),
    ("store::system_message::post", "free_slots of the user, for the hint only"),
    ("store::trigger_effect::notify", "free_slots of the user, for the hint only"),
];

/// Exceptions of rule 4.
const LOCKS: &[(&str, &str)] = &[
    ("store::claim::alone::lock_worker", "the claims of one worker, which is registered on this server"),
    ("post_message", "an idempotency key, which is on the server of what its request is for"),
    ("store::bound::lock", "a limit of one user or agentable, all of whose rows are on one server"),
    (
        "store::claim::write::claims",
        "the slots of one user, all of whose rows are on one server; as post_message",
    ),
    ("store::creation::batch::create", "as post_message"),
    ("store::functions::lock", "the functions of one server"),
    ("store::lease::look", "the lock of another worker, which its connection holds on the same server"),
    ("store::lease::lock", "the connection of a worker to one server; the worker is alive while it is held"),
    ("store::message::alone::lock_key", "as post_message"),
    ("store::message::batch::post", "as post_message"),
];

/// Functions that are evaluated again for each row.
const VOLATILE: [&str; 4] = ["clock_timestamp", "gen_random_uuid", "random", "timeofday"];

/// Functions that return the time, volatile or not.
const TIME: [&str; 5] =
    ["clock_timestamp", "current_timestamp", "now", "statement_timestamp", "transaction_timestamp"];

/// Tables with the same rows on every server: functions may read them anywhere.
const EVERYWHERE: [&str; 2] = ["settings", "installation"];

/// A named query, or a function of `migrations/functions`: its name and the words and punctuation of its SQL.
struct Sql {
    name: String,
    tokens: Vec<String>,
}

impl Sql {
    fn of(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), tokens: tokens(text) }
    }

    fn has(&self, word: &str) -> bool {
        self.tokens.iter().any(|token| token == word)
    }

    /// The names after `houston.`: of tables and functions, each with the position of the name.
    fn named(&self) -> impl Iterator<Item = (usize, &str)> {
        let after = |n: usize| n >= 2 && self.tokens[n - 1] == "." && self.tokens[n - 2] == "houston";
        self.tokens.iter().enumerate().filter(move |(n, _)| after(*n)).map(|(n, token)| (n, token.as_str()))
    }

    /// The functions of ours that it calls.
    fn calls(&self) -> impl Iterator<Item = &str> {
        // A table is followed by its columns in an INSERT.
        let is_call = |n: usize| {
            self.tokens.get(n + 1).is_some_and(|next| next == "(") && (n < 3 || self.tokens[n - 3] != "into")
        };
        self.named().filter(move |(n, _)| is_call(*n)).map(|(_, name)| name)
    }

    /// Whether it reads or writes a table.
    fn uses_tables(&self) -> bool {
        const BEFORE: [&str; 4] = ["from", "join", "into", "update"];
        self.named().filter(|(_, name)| !EVERYWHERE.contains(name)).any(|(n, _)| {
            let before = n.checked_sub(3).map(|n| self.tokens[n].as_str());
            let is_call = self.tokens.get(n + 1).is_some_and(|next| next == "(");
            before.is_some_and(|word| BEFORE.contains(&word)) && (!is_call || before == Some("into"))
        })
    }

    /// Each UPDATE and DELETE, from its keyword to its end.
    fn changes(&self) -> impl Iterator<Item = &[String]> {
        let begins = |n: &usize| {
            let before = n.checked_sub(1).map_or("", |n| self.tokens[n].as_str());
            match self.tokens[*n].as_str() {
                "update" => !["for", "key", "no"].contains(&before),
                "delete" => self.tokens.get(n + 1).is_some_and(|next| next == "from"),
                _ => false,
            }
        };
        (0..self.tokens.len()).filter(begins).map(|start| &self.tokens[start..self.end(start)])
    }

    /// The end of the statement or of the brackets that contain `start`.
    fn end(&self, start: usize) -> usize {
        let mut depth = 0;
        for (n, token) in self.tokens.iter().enumerate().skip(start) {
            match token.as_str() {
                "(" => depth += 1,
                ")" if depth == 0 => return n,
                ")" => depth -= 1,
                ";" => return n,
                _ => {}
            }
        }
        self.tokens.len()
    }
}

/// Words in lower case, and single characters of punctuation; without comments and string literals.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split("--").next().unwrap_or(line);
        // A literal that contains a line break does not occur; an escaped quote ends and begins one.
        for (nth, part) in line.split('\'').enumerate() {
            if nth % 2 == 1 {
                continue;
            }
            let mut word = String::new();
            for letter in part.chars().chain([' ']) {
                if letter.is_alphanumeric() || letter == '_' || letter == '$' {
                    word.extend(letter.to_lowercase());
                    continue;
                }
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
                if !letter.is_whitespace() {
                    found.push(letter.to_string());
                }
            }
        }
    }
    found
}

/// The functions, one per file.
fn functions() -> Vec<Sql> {
    let files = fs::read_dir(root().join("migrations/functions")).unwrap();
    let read = |path: &std::path::Path| {
        Sql::of(path.file_stem().unwrap().to_str().unwrap(), &fs::read_to_string(path).unwrap())
    };
    let mut all: Vec<Sql> = files.map(|entry| read(&entry.unwrap().path())).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(all.len() > 5, "this test finds only {} functions", all.len());
    all
}

/// The queries of the crates, which all begin with their name: those that are checked at compile time as they were prepared,
/// since macros compose some of them, and the others from their source.
fn queries() -> Vec<Sql> {
    const START: &str = "-- store::";
    let mut all: BTreeMap<String, Sql> = BTreeMap::new();
    let mut add = |text: &str| {
        let name = text[START.len()..].split_whitespace().next().unwrap_or_default();
        let name = format!("store::{name}");
        all.entry(name.clone()).or_insert_with(|| Sql::of(&name, text));
    };
    for file in fs::read_dir(root().join("crates/store/.sqlx")).unwrap() {
        let prepared = fs::read_to_string(file.unwrap().path()).unwrap();
        let prepared: serde_json::Value = serde_json::from_str(&prepared).unwrap();
        prepared["query"].as_str().filter(|text| text.starts_with(START)).into_iter().for_each(&mut add);
    }
    for source in sources().iter().filter(|source| !source.is_for_tests() && source.path.contains("/src/")) {
        for (at, _) in source.text.match_indices(&format!("\"{START}")) {
            let raw = source.text[..at].ends_with("r#");
            let text = &source.text[at + 1..];
            let end = text.find(if raw { "\"#" } else { "\"" }).unwrap_or(text.len());
            if !text[..end].ends_with("::") {
                add(&text[..end].replace("\\n", "\n"));
            }
        }
    }
    assert!(all.len() > 100, "this test finds only {} queries", all.len());
    all.into_values().collect()
}

/// What `breaks` finds in all queries and functions, by name, compared with the exceptions.
fn check(rule: &str, exceptions: &[(&str, &str)], breaks: impl Fn(&Sql) -> Option<String>) {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for sql in queries().into_iter().chain(functions()) {
        if let Some(what) = breaks(&sql) {
            found.insert(sql.name, what);
        }
    }
    let listed: BTreeSet<&str> = exceptions.iter().map(|(name, _)| *name).collect();
    let wrong: Vec<_> = found.iter().filter(|(name, _)| !listed.contains(name.as_str())).collect();
    assert!(wrong.is_empty(), "{rule}: {wrong:#?}");
    let kept: Vec<_> = listed.iter().filter(|name| !found.contains_key(**name)).collect();
    assert!(kept.is_empty(), "{rule}: the list names what keeps the rule; remove {kept:?}");
}

#[test]
fn updates_and_deletes_read_no_clock() {
    check("a volatile function in UPDATE or DELETE", CLOCKS, |sql| {
        sql.changes().flatten().find(|token| VOLATILE.contains(&token.as_str())).cloned()
    });
}

#[test]
fn updates_compute_no_time_by_case_or_after() {
    check("a time in CASE, COALESCE or RETURNING", TIMES, |sql| sql.changes().find_map(time_inside));
}

/// The time that an UPDATE or DELETE reads inside of CASE, COALESCE or RETURNING.
fn time_inside(change: &[String]) -> Option<String> {
    let (mut depth, mut cases, mut coalesce, mut returning) = (0, 0, None, false);
    for (n, token) in change.iter().enumerate() {
        match token.as_str() {
            "(" => {
                depth += 1;
                if n > 0 && change[n - 1] == "coalesce" {
                    coalesce = coalesce.or(Some(depth));
                }
            }
            ")" => {
                if coalesce == Some(depth) {
                    coalesce = None;
                }
                depth -= 1;
            }
            "case" => cases += 1,
            "end" => cases -= 1,
            "returning" if depth == 0 => returning = true,
            time if TIME.contains(&time) && (cases > 0 || coalesce.is_some() || returning) => {
                return Some(token.clone());
            }
            _ => {}
        }
    }
    None
}

#[test]
fn functions_that_read_tables_are_called_alone() {
    let functions = functions();
    let mut readers: BTreeSet<String> =
        functions.iter().filter(|sql| sql.uses_tables()).map(|sql| sql.name.clone()).collect();
    // Those that call a reader read tables, too.
    while let Some(more) = functions
        .iter()
        .find(|sql| !readers.contains(&sql.name) && sql.calls().any(|name| readers.contains(name)))
    {
        readers.insert(more.name.clone());
    }
    check("a function that reads tables, beside tables", CALLS, |sql| {
        let called = sql.calls().find(|name| readers.contains(*name) && *name != sql.name)?;
        // Statements of a function are separate; only its own calls inside of a query count.
        statements(&sql.tokens)
            .into_iter()
            .map(|tokens| Sql { name: sql.name.clone(), tokens: tokens.to_vec() })
            .any(|one| {
                one.uses_tables() && one.calls().any(|name| readers.contains(name) && name != sql.name)
            })
            .then(|| called.to_owned())
    });
}

/// The statements between semicolons.
fn statements(tokens: &[String]) -> Vec<&[String]> {
    tokens.split(|token| token == ";").collect()
}

#[test]
fn nothing_relies_on_locks_or_tables_of_one_server() {
    check("an advisory lock or a temporary table", LOCKS, |sql| {
        let is_temporary = sql.has("temp") || sql.has("temporary");
        let lock = sql.tokens.iter().find(|token| token.contains("advisory"));
        lock.cloned().or_else(|| is_temporary.then(|| "a temporary table".to_owned()))
    });
}

#[test]
fn the_rules_find_what_breaks_them() {
    let clock =
        |text: &str| Sql::of("x", text).changes().flatten().any(|token| VOLATILE.contains(&token.as_str()));
    assert!(clock("with a as (update houston.x set at = clock_timestamp()) select 1"));
    assert!(clock("insert into houston.x values (1) on conflict (id) do update set at = clock_timestamp()"));
    assert!(clock("delete from houston.x where at < clock_timestamp()"));
    assert!(!clock("with t as (select clock_timestamp() as at) update houston.x set at = t.at from t"));
    assert!(!clock("select 1 from houston.x where at < clock_timestamp() for no key update"));
    assert!(!clock("update houston.x set at = null; select clock_timestamp()"));
    let time = |text: &str| Sql::of("x", text).changes().find_map(time_inside).is_some();
    assert!(time("update houston.x set at = case when b then now() end"));
    assert!(time("update houston.x set at = coalesce(at, now())"));
    assert!(time("update houston.x set at = null returning now()"));
    assert!(!time("update houston.x set n = coalesce(n, 1), at = now() returning id"));
}
