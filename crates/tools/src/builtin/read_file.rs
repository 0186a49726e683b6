//! `read_file`: reads lines of a file of the workspace.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_domain::workspace::{MAX_LINE_BYTES, PageStart, WorkspacePath, lines_page};
use houston_store::record::RecordTx;
use houston_store::workspace_file::WorkspaceFile;
use serde::Deserialize;
use serde_json::{Value, json};

use super::search_files;
use crate::files::{self, Clamped};
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(super) const NAME: &str = "read_file";
/// Lines of a page. Usually its bytes are the limit.
const MAX_LINES: u32 = 2_000;

/// Reads a page of a file.
#[derive(Debug)]
pub(super) struct ReadFile(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    offset: Option<usize>,
    at: Option<usize>,
    limit: Option<u32>,
    numbered: Option<bool>,
}

impl Default for ReadFile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read a text file of your workspace, page by page. The first line of the result has its \
                          length and its sha, which a change may name as expected_sha."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path below the workspace, as notes/plan.md."},
                    "offset": {"type": "integer", "minimum": 1, "description": "First line; 1 when left out."},
                    "at": {"type": "integer", "minimum": 0, "description":
                        "First byte of that line, for a line longer than a page; 0 when left out."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES,
                              "description": "How many lines at most."},
                    "numbered": {"type": "boolean", "description": "Whether lines begin with their numbers."},
                },
                "required": ["path"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadFile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Files)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { path, offset, at, limit, numbered } = input::read(NAME, input)?;
        Ok(Plan::record(Call {
            path: files::file(NAME, &path)?,
            start: PageStart { line: offset.unwrap_or(1).max(1), at: at.unwrap_or(0) },
            lines: files::clamped("limit", limit, MAX_LINES, MAX_LINES),
            numbered: numbered.unwrap_or(false),
        }))
    }
}

#[derive(Debug)]
struct Call {
    path: WorkspacePath,
    start: PageStart,
    lines: Clamped,
    numbered: bool,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(files::answered(async move {
            Ok(match tx.file(&self.path).await? {
                Some(file) => self.page(&file, tx.limits().page_bytes),
                None => files::missing(&self.path),
            })
        }))
    }
}

impl Call {
    /// The lines of the page, after a line about the file, and how to read on.
    fn page(&self, file: &WorkspaceFile, max_bytes: usize) -> ToolResponse {
        let page = lines_page(&file.content, self.start, self.lines.value, max_bytes, self.numbered);
        let mut notes: Vec<String> = self.lines.note.clone().into_iter().collect();
        match page.lines {
            None if page.total == 0 => notes.push("The file is empty.".to_owned()),
            None => notes.push(format!("The file ends with line {}.", page.total)),
            Some((first, last)) => {
                if let Some(at) = page.cut_at {
                    notes.push(format!(
                        "Line {last} of {} is longer than a page: read on with offset {last} and at {at}. {} looks at \
                         the first {MAX_LINE_BYTES} bytes of a line.",
                        page.total,
                        search_files::NAME
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
        let about = files::described(file.content.len(), file.version);
        let lines = files::counted(page.total, "line");
        let text = untrusted::stored(file.untrusted && !page.text.is_empty(), &file.path, page.text);
        let gap = if text.is_empty() { "" } else { "\n\n" };
        files::with_notes(format!("{}: {lines}, {about}{gap}{text}", self.path), &notes)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::workspace::FileVersion;

    use super::*;

    fn page(content: &str, line: usize, lines: u32) -> String {
        page_at(content, PageStart { line, at: 0 }, lines)
    }

    fn page_at(content: &str, start: PageStart, lines: u32) -> String {
        let call = Call {
            path: WorkspacePath::file("a.md").unwrap(),
            start,
            lines: files::clamped("limit", Some(lines), MAX_LINES, MAX_LINES),
            numbered: false,
        };
        let file = WorkspaceFile {
            path: "a.md".to_owned(),
            content: content.to_owned(),
            version: FileVersion::of(content),
            untrusted: false,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        };
        call.page(&file, 20).text().to_owned()
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
}
