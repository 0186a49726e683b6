//! The workspace of the agent: what its files are, and how they are read. What a path, a change and a pattern are is decided in
//! [`houston_domain::workspace`].

use std::fmt::Display;
use std::sync::Arc;

use houston_domain::guard::{Layer, is_listed};
use houston_domain::workspace::{
    ChangeRefusal, FilePattern, FileVersion, Listed, MAX_DEPTH, MAX_LINE_BYTES, PageStart, WorkspacePath,
    lines_page, listing,
};
use houston_store::workspace_file::{FileEntry, WorkspaceFile};
use serde::Deserializer;
use serde::de::Error as _;

use super::prelude::*;
use super::search_files::SearchFiles;

built_in! {
    ReadFile: "read_file", Read, capability Files;
    ListFiles: "list_files", Read, capability Files;
    FindFiles: "find_files", Read, capability Files;
}

/// Lines of a page. Usually its bytes are the limit.
const MAX_PAGE_LINES: u32 = 2_000;

/// Read a text file of your workspace, page by page. The first line of the result has its length and its sha, which a
/// change may name as expected_sha.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// Path below the workspace, as notes/plan.md.
    #[serde(deserialize_with = "path")]
    #[schemars(with = "String")]
    path: WorkspacePath,
    /// First line; 1 when left out.
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// First byte of that line, for a line longer than a page; 0 when left out.
    at: Option<usize>,
    /// How many lines at most.
    #[schemars(range(min = 1, max = MAX_PAGE_LINES))]
    limit: Option<u32>,
    /// Whether lines begin with their numbers.
    numbered: Option<bool>,
}

impl Access for ReadFile {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let file = tx.file(&self.path).await?.ok_or_else(|| missing(&self.path))?;
        Ok(self.page(&file, tx.limits.page_bytes))
    }
}

impl ReadFile {
    /// The lines of the page, after a line about the file, and how to read on.
    fn page(&self, file: &WorkspaceFile, max_bytes: usize) -> String {
        let start = PageStart { line: self.offset.unwrap_or(1).max(1), at: self.at.unwrap_or(0) };
        let lines = clamped("limit", self.limit, MAX_PAGE_LINES, MAX_PAGE_LINES);
        let page = lines_page(&file.content, start, lines.value, max_bytes, self.numbered.unwrap_or(false));
        let mut notes: Vec<String> = lines.note.into_iter().collect();
        match page.lines {
            None if page.total == 0 => notes.push("The file is empty.".to_owned()),
            None => notes.push(format!("The file ends with line {}.", page.total)),
            Some((first, last)) => {
                if let Some(at) = page.cut_at {
                    notes.push(format!(
                        "Line {last} of {} is longer than a page: read on with offset {last} and at {at}. {} looks at \
                         the first {MAX_LINE_BYTES} bytes of a line.",
                        page.total,
                        SearchFiles::NAME
                    ));
                } else if last < page.total {
                    let next = last + 1;
                    notes.push(format!(
                        "Lines {first} to {last} of {}: read on with offset {next}.",
                        page.total
                    ));
                }
            }
        }
        let about = described(file.content.len(), file.version);
        let lines = counted(page.total, "line");
        let text = untrusted::stored(file.untrusted && !page.text.is_empty(), &file.path, page.text);
        let gap = if text.is_empty() { "" } else { "\n\n" };
        with_notes(format!("{}: {lines}, {about}{gap}{text}", self.path), &notes)
    }
}

/// Levels of folders if the call does not set `depth`.
const DEFAULT_DEPTH: u32 = 3;
/// Lines or files if the call does not set `limit`: about 8 KB.
const DEFAULT_LINES: u32 = 200;
/// Lines or files at most; files whose names one call looks at: five times as many as a workspace may have by default.
const MAX_LINES: u32 = 5_000;

/// List the files of your workspace with their lengths. Deeper folders are one line each.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// A folder; the whole workspace when left out.
    path: Option<String>,
    #[schemars(
        range(min = 1, max = MAX_DEPTH),
        description = format!("Levels of folders; {DEFAULT_DEPTH} when left out.")
    )]
    depth: Option<u32>,
    #[schemars(
        range(min = 1, max = MAX_LINES),
        description = format!("How many lines at most; {DEFAULT_LINES} when left out.")
    )]
    limit: Option<u32>,
}

impl Access for ListFiles {
    fn check(&self, _: &CallContext) -> Result<()> {
        folder(self.path.as_deref()).map(drop)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let folder = folder(self.path.as_deref())?;
        let deepest = u32::try_from(MAX_DEPTH).unwrap_or(u32::MAX);
        let depth = clamped("depth", self.depth, DEFAULT_DEPTH, deepest);
        let most = clamped("limit", self.limit, DEFAULT_LINES, MAX_LINES);
        let (entries, too_many) = entries(&mut tx, &context.guards).await?;
        let all = entries.iter().map(|entry| (entry.path.as_str(), entry.bytes));
        let listed = listing(folder.as_ref(), depth.value, all);
        let mut notes: Vec<String> = [depth.note, most.note, too_many].into_iter().flatten().collect();
        if listed.is_empty() {
            notes.push(match &folder {
                Some(folder) => format!("There are no files in {folder}."),
                None => "There are no files yet.".to_owned(),
            });
        }
        if let Some(more) = listed.len().checked_sub(most.value).filter(|more| *more > 0) {
            let lines = counted(more, "more line");
            notes.push(format!("{lines}: list one of the folders, or set a lower `depth`."));
        }
        let lines: Vec<String> = listed.iter().take(most.value).map(line).collect();
        // Names may be what strangers wrote, too.
        let is_untrusted = entries.iter().any(|entry| entry.untrusted);
        let text = untrusted::stored(is_untrusted && !lines.is_empty(), "files", lines.join("\n"));
        Ok(with_notes(text, &notes))
    }
}

/// `docs/ (2 files, 120 bytes)`, `docs/a.md (60 bytes)`
fn line(listed: &Listed) -> String {
    let bytes = counted(listed.bytes, "byte");
    match listed.files.map(|count| counted(count, "file")) {
        Some(count) => format!("{} ({count}, {bytes})", listed.path),
        None => format!("{} ({bytes})", listed.path),
    }
}

/// Find files of your workspace by their paths.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FindFiles {
    /// As *.md (in any folder), notes/**/*.{md,txt}, or ** for all.
    glob: String,
    #[schemars(
        range(min = 1, max = MAX_LINES),
        description = format!("How many at most; {DEFAULT_LINES} when left out.")
    )]
    limit: Option<u32>,
}

impl Access for FindFiles {
    fn check(&self, _: &CallContext) -> Result<()> {
        pattern(&self.glob).map(drop)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (pattern, most) = (pattern(&self.glob)?, clamped("limit", self.limit, DEFAULT_LINES, MAX_LINES));
        let (entries, too_many) = entries(&mut tx, &context.guards).await?;
        let found: Vec<_> = entries.iter().filter(|entry| pattern.is_match(&entry.path)).collect();
        let mut notes: Vec<String> = [most.note, too_many].into_iter().flatten().collect();
        if found.is_empty() {
            notes.push(format!("None of {} matches.", counted(entries.len(), "file")));
        }
        if let Some(more) = found.len().checked_sub(most.value).filter(|more| *more > 0) {
            notes.push(format!("{} match: use a narrower pattern.", counted(more, "more file")));
        }
        let line = |entry: &&FileEntry| format!("{} ({})", entry.path, counted(entry.bytes, "byte"));
        let lines: Vec<String> = found.iter().take(most.value).map(line).collect();
        // Names may be what strangers wrote, too.
        let is_untrusted = found.iter().any(|entry| entry.untrusted);
        let text = untrusted::stored(is_untrusted, "files", lines.join("\n"));
        Ok(with_notes(text, &notes))
    }
}

/// The file that the argument `path` names.
///
/// # Errors
/// Why there can be no such file.
pub(super) fn file(path: &str) -> Result<WorkspacePath, String> {
    WorkspacePath::file(path).map_err(|error| format!("`path`: {error}"))
}

/// Reads an argument `path` that names a file.
pub(super) fn path<'d, D: Deserializer<'d>>(given: D) -> Result<WorkspacePath, D::Error> {
    file(&String::deserialize(given)?).map_err(D::Error::custom)
}

/// The folder that the argument `path` names; `None`: the workspace.
pub(super) fn folder(path: Option<&str>) -> Result<Option<WorkspacePath>, Refusal> {
    let folder = WorkspacePath::folder(path.unwrap_or_default());
    folder.map_err(|error| invalid(format!("`path`: {error}")))
}

/// The pattern of paths in the argument `glob`.
pub(super) fn pattern(glob: &str) -> Result<FilePattern, Refusal> {
    FilePattern::new(glob).map_err(|error| invalid(format!("`glob` {error}")))
}

/// A number within its bounds, and what the model reads if the one it gave was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clamped {
    pub(super) value: usize,
    pub(super) note: Option<String>,
}

/// The argument `field`, from 1 to `max`; `default` if it is absent. Others are changed to the nearest one.
pub(super) fn clamped(field: &str, given: Option<u32>, default: u32, max: u32) -> Clamped {
    let given = given.unwrap_or(default);
    let value = given.clamp(1, max);
    let note = (value != given)
        .then(|| format!("`{field}` was {given}, and {value} is used: 1 to {max} are allowed."));
    Clamped { value: usize::try_from(value).unwrap_or(usize::MAX), note }
}

/// `text` with notes after it, in brackets.
pub(super) fn with_notes(mut text: String, notes: &[String]) -> String {
    if !notes.is_empty() {
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        text.push('[');
        text.push_str(&notes.join(" "));
        text.push(']');
    }
    text
}

/// The names of the files of the workspace that the guards let tools show, and a note if there are too many to look at all
/// of them.
pub(super) async fn entries(
    tx: &mut RecordTx<'_>,
    guards: &[Arc<Layer>],
) -> Result<(Vec<FileEntry>, Option<String>)> {
    let mut entries = tx.files(MAX_LINES + 1).await?;
    let note = keep(&mut entries, MAX_LINES)
        .then(|| format!("The workspace has more than {MAX_LINES} files; the others were not looked at."));
    entries.retain(|entry| is_listed(guards, &entry.path));
    Ok((entries, note))
}

/// `120 bytes, sha 2cf24dba5fb0a30e`
pub(super) fn described(bytes: usize, version: FileVersion) -> String {
    format!("{}, sha {version}", counted(bytes, "byte"))
}

/// `1 file`, `2 files`
pub(super) fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let end = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{end}")
}

/// The refusal for a file that does not exist.
pub(super) fn missing(path: &WorkspacePath) -> Refusal {
    refused(ChangeRefusal::NotFound { path: path.to_string() })
}

/// The refusal for a change that is not made.
pub(super) fn refused(refusal: ChangeRefusal) -> Refusal {
    match &refusal {
        ChangeRefusal::NotFound { .. } => {
            let text = format!("{refusal}: {} shows the files there are", ListFiles::NAME);
            failed(ToolErrorCode::NotFound, text)
        }
        full if full.is_full() => failed(ToolErrorCode::RateLimited, refusal.to_string()),
        _ => invalid(refusal),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn page(content: &str, line: usize, lines: u32) -> String {
        page_at(content, PageStart { line, at: 0 }, lines)
    }

    fn page_at(content: &str, start: PageStart, lines: u32) -> String {
        let call = ReadFile {
            path: WorkspacePath::file("a.md").unwrap(),
            offset: Some(start.line),
            at: Some(start.at),
            limit: Some(lines),
            numbered: None,
        };
        let file = WorkspaceFile {
            path: "a.md".to_owned(),
            content: content.to_owned(),
            version: FileVersion::of(content),
            untrusted: false,
            created_at: DateTime::UNIX_EPOCH.into(),
            updated_at: DateTime::UNIX_EPOCH.into(),
        };
        call.page(&file, 20)
    }

    #[test]
    fn page_says_what_the_file_is_and_where_to_read_on() {
        let about = format!("a.md: 3 lines, 6 bytes, sha {}", FileVersion::of("a\nb\nc\n"));
        assert_eq!(page("a\nb\nc\n", 1, 9), format!("{about}\n\na\nb\nc\n"));
        let first = page("a\nb\nc\n", 1, 2);
        assert_eq!(first, format!("{about}\n\na\nb\n\n[Lines 1 to 2 of 3: read on with offset 3.]"));
        assert_eq!(page("a\nb\nc\n", 3, 2), format!("{about}\n\nc\n"));
        assert_eq!(page("a\nb\nc\n", 4, 2), format!("{about}\n\n[The file ends with line 3.]"));
        assert!(page("", 1, 1).ends_with("[The file is empty.]"));
        let long = page(&"x".repeat(30), 1, 9_999);
        assert!(
            long.contains("`limit` was 9999, and 2000 is used")
                && long.contains("Line 1 of 1 is longer than a page: read on with offset 1 and at 20."),
            "{long}"
        );
        let rest = page_at(&"x".repeat(30), PageStart { line: 1, at: 20 }, 9);
        assert!(rest.ends_with(&format!("\n\n{}", "x".repeat(10))), "{rest}");
    }

    #[test]
    fn numbers_out_of_bounds_are_changed_and_said() {
        assert_eq!(clamped("limit", None, 10, 50), Clamped { value: 10, note: None });
        assert_eq!(clamped("limit", Some(50), 10, 50), Clamped { value: 50, note: None });
        for (given, value) in [(0, 1), (51, 50), (u32::MAX, 50)] {
            let clamped = clamped("limit", Some(given), 10, 50);
            assert_eq!(clamped.value, value);
            let note = format!("`limit` was {given}, and {value} is used: 1 to 50 are allowed.");
            assert_eq!(clamped.note, Some(note));
        }
    }

    #[test]
    fn notes_stand_apart_from_the_text() {
        let noted = |text: &str| with_notes(text.to_owned(), &["One.".to_owned(), "Two.".to_owned()]);
        assert_eq!(noted("a"), "a\n\n[One. Two.]");
        assert_eq!(noted("a\n"), "a\n\n[One. Two.]");
        assert_eq!(noted(""), "[One. Two.]");
        assert_eq!(with_notes("a".to_owned(), &[]), "a");
    }
}
