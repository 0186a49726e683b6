//! What the commands of operators print, as text and as JSON, compared with `tests/commands/<command>.txt`.
//!
//! All run on one database: `houston_testkit::seed_data` with a few agentables, and `tests/commands/seed.sql`. Ids of these
//! begin with 01900000 and are recorded as they are. Others are new each time: they become `#1`, `#2`, … in the order of
//! the file. All digits of times become zeros, and so do ages (`12 s`, `"…_age_s":12`). JSON that is printed on one line
//! is recorded on several. `!` is a line of stderr, `?` an exit code other than 0.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use houston_testkit::installation::TestInstallation;
use houston_testkit::seed_data::SeedData;
use houston_testkit::snapshot;
use serde_json::Value;

use crate::test_houston::houston_command;

const SEED: SeedData = SeedData { agentables: 20, runs: 2, waiting: 2, driven: 2, workers: 2 };

/// Commands that change nothing: `{goal:4}` is the id of the goal with this number.
const READS: &[(&str, &[&str])] = &[
    (
        "list",
        &[
            "list --limit 4",
            "list goals --user {user:1} --json --limit 2",
            "list users",
            "list users --json",
            "list runs --limit 5",
            "list runs --json --limit 2",
            "list agents --limit 2",
            "list agents --json --limit 2",
            "list teams --limit 2",
            "list teams --json --limit 2",
        ],
    ),
    ("queues", &["queues", "queues --json"]),
    ("workers", &["workers", "workers --json"]),
    ("why", &["why {goal:0}", "why {goal:0} --json", "why {run:42}", "why {goal:4}"]),
    ("approvals", &["approvals", "approvals --json"]),
    ("grants", &["grants list {user:0}", "grants list {user:0} --json", "grants list {user:1}"]),
    (
        "guard",
        &[
            "guard explain {goal:4} fetch_page {\"url\":\"https://example.com\"}",
            "guard explain {goal:4} send_message {\"content\":\"Hello\"}",
            "guard explain {goal:4} send_message {\"content\":\"Hello\"} --json",
            "guard show {user:0}",
        ],
    ),
    ("triggers", &["triggers list {user:0}", "triggers list {user:0} --json", "triggers list {user:1}"]),
    ("tables", &["tables list {user:0}", "tables list {user:0} --json", "tables export {table:0}"]),
    (
        "skills",
        &[
            "skills list --user {user:0}",
            "skills list --user {user:0} --json",
            "skills show trains --user {user:0}",
        ],
    ),
    ("snippets", &["snippets list {user:0}", "snippets list {user:0} --json"]),
    ("history", &["history {goal:4}", "history {goal:2} --json"]),
    ("trace", &["trace {run:4}"]),
    ("stats", &["stats {goal:4}", "stats {goal:4} --json"]),
    ("audit", &["audit --tenant seed", "audit --tenant seed --json --limit 2"]),
    ("export", &["export {goal:4} --json"]),
    ("mcp", &["mcp own list --user {user:0}", "mcp own list --user {user:0} --json"]),
    ("state", &["state {goal:4}", "state {goal:2} --json"]),
];

/// What changes the lists of other commands.
const LANES: &[(&str, &[&str])] =
    &[("queues", &["queues pause background", "queues", "queues resume background --json"])];

/// Commands that change something, each something else; what it has recorded is in the audit log.
const WRITES: &[(&str, &[&str])] = &[
    ("workers", &["workers drain {worker:1} --json", "audit --tenant seed --target {worker:1}"]),
    (
        "approvals",
        &[
            "approvals approve {question:2} --remember user",
            "approvals reject {question:3} no --json",
            "audit --tenant seed --target {question:3}",
        ],
    ),
    ("grants", &["grants revoke {grant:16}", "audit --tenant seed --target {grant:16}"]),
    (
        "guard",
        &[
            "guard off {goal:12} http_request",
            "guard show {goal:12} --json",
            "guard on {goal:12} http_request",
            "audit --tenant seed --target {goal:12}",
        ],
    ),
    (
        "triggers",
        &[
            "triggers add {user:1} {folder}/trigger.json",
            "triggers pause {trigger:0}",
            "triggers resume {trigger:16}",
            "triggers delete {trigger:0}",
            "audit --tenant seed --target {trigger:0}",
        ],
    ),
    (
        "tables",
        &[
            "tables add-fields {table:0} --field {\"name\":\"owner\",\"type\":\"text\"}",
            "tables import {table:0} {folder}/cars.csv",
            "audit --tenant seed --target {table:0}",
        ],
    ),
    ("skills", &["skills import {folder}/boats --user {user:1}", "skills remove trains --user {user:0}"]),
    ("snippets", &["snippets delete {user:0} greet", "snippets delete {user:0} greet"]),
    (
        "cancel",
        &[
            "cancel {goal:0}",
            "cancel {run:41} --json",
            "cancel {goal:7}",
            "audit --tenant seed --target {goal:0}",
        ],
    ),
    (
        "reset",
        &[
            "reset {goal:8}",
            "reset {goal:9} --knowledge --json",
            "reset {goal:2}",
            "audit --tenant seed --target {goal:8}",
        ],
    ),
    (
        "fork",
        &["fork {goal:10}", "fork {goal:10} --position 2 --json", "audit --tenant seed --target {goal:10}"],
    ),
    (
        "import",
        &[
            "export {goal:6} -o {folder}/goal.json",
            "import {folder}/goal.json --user {user:0}",
            "import {folder}/goal.json --user {user:0} --json --title Copy",
            "import {folder}/trigger.json --user {user:0}",
        ],
    ),
];

/// Commands at the same time.
const AT_ONCE: usize = 4;

/// Numbered ids of what `seed.sql` adds.
const ADDED: [(&str, &str); 4] =
    [("question", "0010"), ("grant", "0011"), ("trigger", "0012"), ("table", "0013")];

async fn migrate(url: String) {
    let config = houston_store::Config {
        url,
        connections: houston_store::Sizes::ones(),
        acquire_timeout: crate::test_houston::PATIENCE,
    };
    let store = houston_store::Store::open(&config).unwrap();
    store.migrate().await.unwrap();
    store.close().await;
}

/// The database, and files that commands read.
struct Installation {
    servers: TestInstallation,
    folder: tempfile::TempDir,
}

impl Installation {
    fn start() -> Self {
        let (servers, folder) = (TestInstallation::start(migrate).unwrap(), tempfile::tempdir().unwrap());
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let seed = write("seed.sql", &format!("{}\n{}", SEED.script(), include_str!("../commands/seed.sql")));
        let mut psql = Command::new(servers.psql("").get_program());
        let filled = psql.args(["-Xq", servers.database_url(), "-f"]).arg(seed).output().unwrap();
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        let trigger = r#"{"name": "Boats", "when": {"type": "keyword", "words": ["boat"]},
            "then": {"type": "tell", "agentable_id": "goal_01900000000270008000000000000005", "instructions": "Look."}}"#;
        write("trigger.json", trigger);
        write("cars.csv", "what,price,owner\ngreen,3,Ben\n");
        write("boats/SKILL.md", "---\nname: boats\ndescription: Find boats.\n---\nAsk for the harbour.\n");
        Self { servers, folder }
    }

    /// The argument with the ids that it names.
    fn argument(&self, word: &str) -> String {
        let named = word.replace("{folder}", self.folder.path().to_str().unwrap());
        let Some((kind, number)) =
            named.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')?.split_once(':'))
        else {
            return named;
        };
        let Ok(number) = number.parse() else { return named };
        let added = ADDED.iter().find(|(name, _)| *name == kind);
        let uuid = match added {
            Some((_, mark)) => format!("01900000-{mark}-7000-8000-{number:012x}"),
            None => SeedData::id(kind, number),
        };
        format!("{kind}_{}", uuid.replace('-', ""))
    }

    /// What each command of a list prints.
    fn record(&self, commands: &[&str]) -> String {
        let mut text = String::new();
        for line in commands {
            let arguments: Vec<String> = line.split(' ').map(|word| self.argument(word)).collect();
            let mut command = houston_command();
            command.envs(self.servers.environment()).args(&arguments).current_dir(self.folder.path());
            command
                .env("HOUSTON_MODEL", "simulated")
                .env("USER", "ops")
                .env_remove("SUDO_USER")
                .env_remove("HOUSTON_JOBS");
            let output = command.output().unwrap();
            let [out, err] =
                [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            text.push_str(&format!("$ houston {}\n{}", arguments.join(" "), readable(&out)));
            err.lines().for_each(|line| text.push_str(&format!("! {line}\n")));
            if let Some(code) = output.status.code().filter(|code| *code != 0) {
                text.push_str(&format!("? {code}\n"));
            }
            text.push('\n');
        }
        text
    }
}

/// JSON of more than a few fields with a line for each value, and the definitions of tools, which `definitions.json` of
/// `crates/tools` has, by their names.
fn readable(out: &str) -> String {
    let mut text = String::new();
    for line in out.lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(mut value) if value.is_object() => {
                if let Some(tools) = value.get_mut("tools").and_then(Value::as_array_mut) {
                    tools
                        .iter_mut()
                        .filter(|tool| tool["input_schema"].is_object())
                        .for_each(|tool| *tool = tool["name"].take());
                }
                // Digests of bytes that are not the same each time.
                for digest in ["sha256", "seal"] {
                    if let Some(digest) = value.get_mut(digest) {
                        *digest = "…".into();
                    }
                }
                text.push_str(&serde_json::to_string_pretty(&value).unwrap());
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The commands side by side; what each prints, by its name.
fn record_all(
    installation: &Installation,
    commands: &[(&'static str, &[&str])],
    texts: &mut BTreeMap<&'static str, String>,
) {
    let (next, done) = (Mutex::new(commands.iter()), Mutex::new(texts));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((name, commands)) = next.lock().unwrap().next() else { break };
                    let text = installation.record(commands);
                    done.lock().unwrap().entry(name).or_default().push_str(&text);
                }
            });
        }
    });
}

#[test]
fn output_of_commands_is_as_recorded() {
    let installation = Installation::start();
    let mut texts = BTreeMap::new();
    for commands in [READS, LANES, WRITES] {
        record_all(&installation, commands, &mut texts);
    }
    let folder = installation.folder.path().to_str().unwrap();
    let texts: Vec<(String, String)> = texts
        .into_iter()
        .map(|(name, text)| (name.to_owned(), normalised(&text.replace(folder, "<folder>"))))
        .collect();
    let recorded: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    snapshot::assert_folder(&recorded, ".txt", &texts);
}

/// The text without what is not the same each time; see above.
fn normalised(text: &str) -> String {
    let mut ids: Vec<String> = Vec::new();
    let mut done = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let starts_word = !done.ends_with(|before: char| before.is_ascii_alphanumeric());
        let (taken, put) = match () {
            () if starts_word && let Some(length) = uuid(rest, &done) => {
                let id = &rest[..length];
                let nth = ids.iter().position(|other| other == id).unwrap_or_else(|| {
                    ids.push(id.to_owned());
                    ids.len() - 1
                });
                (length, format!("#{}", nth + 1))
            }
            () if starts_word && let Some((length, form)) = time(rest) => (length, form),
            () if let Some((length, form)) = age(rest, &done) => (length, form.to_owned()),
            () => (first.len_utf8(), first.to_string()),
        };
        done.push_str(&put);
        rest = &rest[taken..];
    }
    done
}

/// The length of an id that is not of the seed: after its prefix, or with dashes.
fn uuid(text: &str, before: &str) -> Option<usize> {
    let dashed = [8, 4, 4, 4, 12];
    let of = |parts: &[usize]| {
        let mut at = 0;
        for (nth, digits) in parts.iter().enumerate() {
            if nth > 0 {
                at += text[at..].starts_with('-').then_some(1)?;
            }
            let part = text.get(at..at + digits)?;
            at += part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(*digits)?;
        }
        (!text[at..].starts_with(|next: char| next.is_ascii_alphanumeric())).then_some(at)
    };
    let plain = if before.ends_with('_') { of(&[32]) } else { None };
    plain.or_else(|| of(&dashed)).filter(|_| !text.starts_with("01900000"))
}

/// The length of a time such as `2026-11-03T07:00:00.123Z` or `2026-11-03 07:00`, and its form.
fn time(text: &str) -> Option<(usize, String)> {
    let minute = text.get(..16)?;
    let is_time = minute.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T' || byte == b' ',
        13 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !is_time {
        return None;
    }
    let mut length = 16;
    let mut form: String =
        minute.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    if text[length..].starts_with(':') {
        (length, form) = (length + 3, form + ":00");
    }
    if let Some(fraction) = text.get(length..).and_then(|rest| rest.strip_prefix('.')) {
        // Of any length: zeros at its end are not always written.
        length += 1 + fraction.bytes().take_while(u8::is_ascii_digit).count();
        form.push_str(".0");
    }
    Some((length, form))
}

/// The length of a number of seconds after a name that ends in `age_s`, or before ` s` and, in a table, what pads it.
fn age(text: &str, before: &str) -> Option<(usize, &'static str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || before.ends_with(|char: char| char.is_alphanumeric() || char == '.') {
        return None;
    }
    if before.ends_with("age_s\": ") {
        return Some((digits, "0"));
    }
    let after =
        text[digits..].strip_prefix(" s").filter(|after| !after.starts_with(char::is_alphanumeric))?;
    match after.bytes().take_while(|byte| *byte == b' ').count() {
        0 | 1 => Some((digits + 2, "0 s")),
        padding => Some((digits + 2 + padding, "0 s  ")),
    }
}

#[test]
fn ids_times_and_ages_are_normalised_and_nothing_else() {
    let seed = "goal_01900000000270008000000000000004";
    let (one, two) = ("0".repeat(32), "1".repeat(32));
    let text = format!(
        "{seed} goal_{one} run_{two} goal_{one} 2026-11-03T07:00:00.123Z 2026-11-03 07:00  12 s   12 steps 1.5"
    );
    let expected =
        format!("{seed} goal_#1 run_#2 goal_#1 0000-00-00T00:00:00.0Z 0000-00-00 00:00  0 s  12 steps 1.5");
    assert_eq!(normalised(&text), expected);
    assert_eq!(normalised("\"oldest_age_s\": 17, \"busy\": 17"), "\"oldest_age_s\": 0, \"busy\": 17");
}
