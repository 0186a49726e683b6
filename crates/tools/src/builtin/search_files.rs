//! `search_files`: finds lines in files of the workspace by a regular expression.

use std::sync::Arc;
use std::time::{Duration, Instant};

use houston_domain::capability::Capability;
use houston_domain::guard::{Layer, is_open};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_domain::workspace::{FilePattern, MAX_LINE_BYTES, TextPattern, WorkspacePath};
use houston_store::record::RecordTx;
use houston_store::workspace_file::FileEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read_file;
use crate::files::{self, Clamped};
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "search_files";
/// Matches if the call does not set `limit`.
const DEFAULT_MATCHES: u32 = 50;
/// Matches at most.
const MAX_MATCHES: u32 = 200;
/// Bytes that one call searches: the transaction of the step stays open meanwhile.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of the files that are read at once.
const READ_BYTES: u64 = 256 * 1024;
/// How long one call searches, whatever the expression is. Other runs wait for the thread meanwhile.
const MAX_TIME: Duration = Duration::from_millis(500);
/// Bytes that are searched however long it takes, so that a small workspace is always searched whole.
const MIN_BYTES: u64 = 32 * 1024;

/// Searches the contents of files.
#[derive(Debug)]
pub(super) struct SearchFiles(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    regex: String,
    glob: Option<String>,
    path: Option<String>,
    ignore_case: Option<bool>,
    limit: Option<u32>,
    after: Option<String>,
}

impl Default for SearchFiles {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Find lines in the files of your workspace: path, number and text of each. Files whose names \
                          suggest secrets are left out."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "regex": {"type": "string", "description": "A regular expression for one line."},
                    "glob": {"type": "string", "description": "Only files with such a path, as *.md."},
                    "path": {"type": "string", "description": "Only files in this folder."},
                    "ignore_case": {"type": "boolean"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES,
                              "description": format!("How many lines at most; {DEFAULT_MATCHES} when left out.")},
                    "after": {"type": "string", "description": "Only files whose paths come after this one."},
                },
                "required": ["regex"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for SearchFiles {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { regex, glob, path, ignore_case, limit, after } = input::read(NAME, input)?;
        let text = TextPattern::new(&regex, ignore_case.unwrap_or(false))
            .map_err(|error| InvalidInput(format!("{NAME}: `regex` {error}")))?;
        Ok(Plan::record(Call {
            text,
            glob: glob.map(|glob| files::pattern(NAME, &glob)).transpose()?,
            folder: files::folder(NAME, path.as_deref())?,
            most: files::clamped("limit", limit, DEFAULT_MATCHES, MAX_MATCHES),
            after: after.unwrap_or_default(),
            guards: Arc::clone(&context.guards),
        }))
    }
}

#[derive(Debug)]
struct Call {
    text: TextPattern,
    glob: Option<FilePattern>,
    folder: Option<WorkspacePath>,
    most: Clamped,
    after: String,
    guards: Arc<[Arc<Layer>]>,
}

/// What a search has found so far.
#[derive(Debug, Default)]
struct Found {
    lines: Vec<String>,
    /// Files that were searched to their end, or up to the last match that is returned.
    searched: usize,
    bytes: u64,
    time: Duration,
    last: Option<String>,
    has_long_lines: bool,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let (entries, too_many) = files::entries(&mut tx).await?;
            let wanted: Vec<&FileEntry> = entries.iter().filter(|entry| self.wants(&entry.path)).collect();
            let (open, closed): (Vec<_>, Vec<_>) =
                wanted.into_iter().partition(|entry| is_open(&self.guards, &entry.path));
            let mut found = Found::default();
            let mut rest = &open[..];
            while !rest.is_empty() && !self.is_enough(&found) {
                let (batch, later) = rest.split_at(batch(rest));
                let paths: Vec<&str> = batch.iter().map(|entry| entry.path.as_str()).collect();
                let contents = tx.file_contents(&paths).await?;
                for (path, content) in &contents {
                    if self.is_enough(&found) {
                        break;
                    }
                    self.search(path, content, &mut found);
                }
                rest = later;
            }
            let mut notes: Vec<String> =
                [&self.most.note, &too_many].into_iter().flatten().cloned().collect();
            notes.extend(self.summary(&found, open.len(), closed.len()));
            Ok(files::with_notes(found.lines.join("\n"), &notes))
        })
    }
}

/// How many of the first files are read at once: at least one.
fn batch(files: &[&FileEntry]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&&FileEntry| {
        bytes += entry.bytes;
        bytes <= READ_BYTES
    };
    files.iter().take_while(fits).count().max(1)
}

/// Whether a call that has searched so much has taken long enough.
fn is_late(bytes: u64, time: Duration) -> bool {
    bytes > MIN_BYTES && time >= MAX_TIME
}

impl Call {
    fn wants(&self, path: &str) -> bool {
        path > self.after.as_str()
            && self.folder.as_ref().is_none_or(|folder| folder.contains(path))
            && self.glob.as_ref().is_none_or(|glob| glob.is_match(path))
    }

    fn is_enough(&self, found: &Found) -> bool {
        found.lines.len() >= self.most.value || found.bytes >= MAX_BYTES || is_late(found.bytes, found.time)
    }

    fn search(&self, path: &str, content: &str, found: &mut Found) {
        let began = Instant::now();
        let room = self.most.value - found.lines.len();
        let bytes = found.bytes + u64::try_from(content.len()).unwrap_or(u64::MAX);
        let goes_on = || !is_late(bytes, found.time + began.elapsed());
        let (lines, has_long_lines) = self.text.matches(content, room, goes_on);
        found.lines.extend(lines.into_iter().map(|found| format!("{path}:{}: {}", found.line, found.text)));
        found.has_long_lines |= has_long_lines;
        found.searched += 1;
        found.bytes = bytes;
        found.time += began.elapsed();
        found.last = Some(path.to_owned());
    }

    /// What was searched, and how to go on.
    fn summary(&self, found: &Found, open: usize, closed: usize) -> Vec<String> {
        let mut notes = Vec::new();
        let is_full = found.lines.len() >= self.most.value;
        if found.lines.is_empty() {
            notes.push(format!("No line of {} matches.", files::counted(found.searched, "file")));
        }
        if let Some(last) = found.last.as_deref().filter(|_| is_full || found.searched < open) {
            let why = if is_full { "There may be more" } else { "Not all files were searched" };
            notes.push(format!(
                "{why}: the search ended in {last}, file {} of {open}. Use a narrower `regex`, `glob` or `path`, or go on \
                 with `after` set to {last}.",
                found.searched
            ));
        }
        if found.has_long_lines {
            notes.push(format!(
                "Of lines longer than {MAX_LINE_BYTES} bytes only the beginning was searched."
            ));
        }
        if closed > 0 {
            notes.push(format!(
                "{} not searched, because the name may be that of secrets or of no allowed path: {} reads one by its path.",
                if closed == 1 { "1 file was".to_owned() } else { format!("{closed} files were") },
                read_file::NAME
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(regex: &str, most: u32, files: &[(&str, &str)]) -> String {
        let call = Call {
            text: TextPattern::new(regex, false).unwrap(),
            glob: None,
            folder: None,
            most: files::clamped("limit", Some(most), DEFAULT_MATCHES, MAX_MATCHES),
            after: String::new(),
            guards: Arc::new([]),
        };
        let mut found = Found::default();
        for (path, content) in files {
            if !call.is_enough(&found) {
                call.search(path, content, &mut found);
            }
        }
        let notes = call.summary(&found, files.len(), 0);
        files::with_notes(found.lines.join("\n"), &notes).text().to_owned()
    }

    #[test]
    fn search_says_where_lines_are_and_how_to_go_on() {
        let files = [("a.md", "one\ntwo\n"), ("b/c.md", "two two\nthree"), ("d", "two")];
        assert_eq!(said("tw", 9, &files), "a.md:2: two\nb/c.md:1: two two\nd:1: two");
        let full = said("o", 2, &files);
        assert!(
            full.starts_with("a.md:1: one\na.md:2: two\n\n[There may be more: the search ended in a.md"),
            "{full}"
        );
        assert!(full.ends_with("`after` set to a.md.]"), "{full}");
        assert_eq!(said("four", 9, &files), "[No line of 3 files matches.]");
    }

    #[test]
    fn one_call_searches_a_bounded_number_of_bytes() {
        let content = "x\n".repeat(600_000);
        let files: Vec<(String, &str)> = (0..9).map(|n| (format!("{n}"), content.as_str())).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        let text = said("y", 9, &files);
        assert!(text.contains("Not all files were searched") && text.contains("of 9"), "{text}");
    }
}
