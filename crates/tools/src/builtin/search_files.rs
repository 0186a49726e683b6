//! `search_files`: finds lines in files of the workspace by a regular expression.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::guard::is_open;
use houston_domain::workspace::{
    FilePattern, MAX_LINE_BYTES, MAX_SEARCH_WORK, TextPattern, TextSearch, WorkspacePath,
};
use houston_store::workspace_file::FileEntry;

use super::files::{self, Clamped, ReadFile};
use super::prelude::*;

built_in! {
    SearchFiles: "search_files", Read, capability Files;
}

/// Matches if the call does not set `limit`.
const DEFAULT_MATCHES: u32 = 50;
/// Matches at most.
const MAX_MATCHES: u32 = 200;
/// Bytes of the files that are read at once.
const READ_BYTES: u64 = 256 * 1024;

/// Find lines in the files of your workspace: path, number and text of each. Files whose names suggest secrets are left
/// out.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFiles {
    /// A regular expression for one line.
    regex: String,
    /// Only files with such a path, as *.md.
    glob: Option<String>,
    /// Only files in this folder.
    path: Option<String>,
    ignore_case: Option<bool>,
    #[schemars(
        range(min = 1, max = MAX_MATCHES),
        description = format!("How many lines at most; {DEFAULT_MATCHES} when left out.")
    )]
    limit: Option<u32>,
    /// Only what comes after this path, or after this path:line.
    after: Option<String>,
}

impl BuiltIn for SearchFiles {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let text = TextPattern::new(&self.regex, self.ignore_case.unwrap_or(false))
            .map_err(|error| invalid(format!("`regex` {error}")))?;
        let call = Call {
            text,
            glob: self.glob.as_deref().map(files::pattern).transpose()?,
            folder: files::folder(self.path.as_deref())?,
            most: files::clamped("limit", self.limit, DEFAULT_MATCHES, MAX_MATCHES),
            after: self.after.as_deref().map(after_of).transpose()?,
        };
        Ok(Plan::record(call, context))
    }
}

#[derive(Debug)]
struct Call {
    text: TextPattern,
    glob: Option<FilePattern>,
    folder: Option<WorkspacePath>,
    most: Clamped,
    after: Option<After>,
}

/// Where a search goes on.
#[derive(Debug)]
struct After {
    path: WorkspacePath,
    /// The last line that was searched; `None`: the whole file was.
    line: Option<usize>,
}

/// What a search has found so far.
#[derive(Debug, Default)]
struct Found {
    lines: Vec<String>,
    /// Files that were searched to their end.
    searched: usize,
    /// If the search ended before all files did: the file, and the last line of it that was searched.
    stopped_at: Option<(String, usize)>,
    has_long_lines: bool,
    /// Files that are no texts. Only folders have them.
    unread: usize,
    /// The files with lines.
    files: BTreeSet<String>,
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

/// What the argument `after` says: `notes/plan.md`, or `notes/plan.md:120`.
fn after_of(text: &str) -> Result<After, Refusal> {
    let line = text.rsplit_once(':').and_then(|(path, line)| Some((path, line.parse().ok()?)));
    let (path, line) = line.map_or((text, None), |(path, line)| (path, Some(line)));
    let path = WorkspacePath::file(path);
    let path = path
        .map_err(|error| invalid(format!("`after`: {error}; a line may follow, as `notes/plan.md:120`")))?;
    Ok(After { path, line })
}

/// Searches files in their order until there are `most` lines. `first`: where the search goes on within a file, its path and
/// the last line that was searched.
fn search_all(
    search: &mut TextSearch,
    found: &mut Found,
    contents: &BTreeMap<String, String>,
    first: Option<(String, usize)>,
    most: usize,
) {
    for (path, content) in contents {
        let after = first.as_ref().filter(|(first, _)| first == path).map_or(0, |(_, line)| *line);
        let matches = search.matches(content, after, most.saturating_sub(found.lines.len()));
        if !matches.lines.is_empty() {
            found.files.insert(path.clone());
        }
        let lines = matches.lines.into_iter().map(|line| format!("{path}:{}: {}", line.line, line.text));
        found.lines.extend(lines);
        found.has_long_lines |= matches.has_long_lines;
        if let Some(line) = matches.stopped_after {
            found.stopped_at = Some((path.clone(), line));
            return;
        }
        found.searched += 1;
    }
}

impl Access for Call {
    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (entries, too_many) = files::entries(&mut tx, &context.guards).await?;
        let wanted: Vec<&FileEntry> = entries.iter().filter(|entry| self.wants(&entry.path)).collect();
        let (open, closed): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|entry| is_open(&context.guards, &entry.path));
        let mut found = Found::default();
        let mut search = self.text.search(MAX_SEARCH_WORK.saturating_sub(tx.work_done()));
        let before = search.left;
        let mut rest = &open[..];
        while !rest.is_empty() && found.stopped_at.is_none() {
            let (now, later) = rest.split_at(batch(rest));
            let paths: Vec<&str> = now.iter().map(|entry| entry.path.as_str()).collect();
            let contents = tx.file_contents(&paths).await?;
            found.unread += now.len() - contents.len();
            (search, found) = self.search_off_thread(search, found, contents).await?;
            rest = later;
        }
        tx.add_work(before - search.left);
        let mut notes: Vec<String> = [&self.most.note, &too_many].into_iter().flatten().cloned().collect();
        notes.extend(self.summary(&found, open.len(), closed.len()));
        let is_untrusted = open.iter().any(|entry| entry.untrusted && found.files.contains(&entry.path));
        let text = untrusted::stored(is_untrusted, "files", found.lines.join("\n"));
        Ok(files::with_notes(text, &notes))
    }
}

impl Call {
    fn wants(&self, path: &str) -> bool {
        let is_after =
            |after: &After| path > after.path.as_str() || after.line.is_some() && path == after.path.as_str();
        self.after.as_ref().is_none_or(is_after)
            && self.folder.as_ref().is_none_or(|folder| folder.contains(path))
            && self.glob.as_ref().is_none_or(|glob| glob.is_match(path))
    }

    /// Searches on a thread of its own: it may take a quarter of a second, for which other runs should not wait.
    async fn search_off_thread(
        &self,
        mut search: TextSearch,
        mut found: Found,
        contents: BTreeMap<String, String>,
    ) -> Result<(TextSearch, Found)> {
        let most = self.most.value;
        let first = self.after.as_ref().and_then(|after| Some((after.path.to_string(), after.line?)));
        let work = move || {
            search_all(&mut search, &mut found, &contents, first, most);
            (search, found)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// What was searched, and how to go on.
    fn summary(&self, found: &Found, open: usize, closed: usize) -> Vec<String> {
        let mut notes = Vec::new();
        let searched = files::counted(found.searched, "file");
        match &found.stopped_at {
            Some((path, line)) if found.lines.len() >= self.most.value => notes.push(format!(
                "There may be more lines: the search ended after {path}:{line}. Use a narrower `regex`, `glob` or `path`, \
                 or go on with `after` set to {path}:{line}."
            )),
            // The work is that of all searches of a turn.
            Some((path, line)) => notes.push(format!(
                "The searches of this turn have done as much as one turn may: {searched} of {open} were searched, then \
                 {path} up to line {line}. In your next turn, go on with `after` set to {path}:{line}; a simpler `regex`, \
                 or a `glob` or `path`, gets further."
            )),
            None if found.lines.is_empty() => notes.push(format!("No line of {searched} matches.")),
            None => {}
        }
        if found.has_long_lines {
            notes.push(format!(
                "Of lines longer than {MAX_LINE_BYTES} bytes only the beginning was searched."
            ));
        }
        if found.unread > 0 {
            let files = files::counted(found.unread, "file");
            notes.push(format!("{files} could not be searched: no text, or too long."));
        }
        if closed > 0 {
            notes.push(format!(
                "{} not searched, because the name may be that of secrets or of no allowed path: {} reads one by its path.",
                if closed == 1 { "1 file was".to_owned() } else { format!("{closed} files were") },
                ReadFile::NAME
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(regex: &str, most: u32, after: Option<&str>) -> Call {
        Call {
            text: TextPattern::new(regex, false).unwrap(),
            glob: None,
            folder: None,
            most: files::clamped("limit", Some(most), DEFAULT_MATCHES, MAX_MATCHES),
            after: after.map(|after| after_of(after).unwrap()),
        }
    }

    /// What a call says that may do so much work.
    fn said(call: &Call, work: u64, files: &[(&str, &str)]) -> String {
        let contents: BTreeMap<String, String> = files
            .iter()
            .filter(|(path, _)| call.wants(path))
            .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()))
            .collect();
        let mut found = Found::default();
        let first = call.after.as_ref().and_then(|after| Some((after.path.to_string(), after.line?)));
        search_all(&mut call.text.search(work), &mut found, &contents, first, call.most.value);
        let notes = call.summary(&found, contents.len(), 0);
        files::with_notes(found.lines.join("\n"), &notes)
    }

    #[test]
    fn search_says_where_lines_are_and_how_to_go_on() {
        let files = [("a.md", "one\ntwo\nto"), ("b/c.md", "two two\nthree"), ("d", "two")];
        let all = |regex, most, after| said(&call(regex, most, after), MAX_SEARCH_WORK, &files);
        assert_eq!(all("tw", 9, None), "a.md:2: two\nb/c.md:1: two two\nd:1: two");
        let full = all("o", 2, None);
        assert!(full.starts_with("a.md:1: one\na.md:2: two\n\n[There may be more lines"), "{full}");
        assert!(full.ends_with("`after` set to a.md:2.]"), "{full}");
        assert_eq!(all("o", 2, Some("a.md:2")).lines().next(), Some("a.md:3: to"), "the rest of the file");
        assert_eq!(all("o", 9, Some("a.md")), "b/c.md:1: two two\nd:1: two");
        assert_eq!(all("four", 9, None), "[No line of 3 files matches.]");
    }

    #[test]
    fn searches_of_one_turn_do_a_bounded_amount_of_work() {
        let content = "x\n".repeat(600);
        let files = [("a", content.as_str()), ("b", content.as_str())];
        let text = said(&call("y", 9, None), 600 * 17 + 170, &files);
        assert!(text.contains("1 file of 2 were searched, then b up to line 10."), "{text}");
        assert!(text.contains("`after` set to b:10;"), "{text}");
        let rest = said(&call("y", 9, Some("b:10")), 600 * 17, &files);
        assert_eq!(rest, "[No line of 1 file matches.]");
        let nothing_left = said(&call("y", 9, None), 0, &files);
        assert!(nothing_left.contains("0 files of 2 were searched, then a up to line 0."), "{nothing_left}");
    }

    #[test]
    fn positions_to_go_on_have_one_spelling() {
        let after = after_of("./u\u{308}//b:12").unwrap();
        assert_eq!((after.path.as_str(), after.line), ("\u{fc}/b", Some(12)));
        let Err(Refusal::Invalid(reason)) = after_of("a:b") else { panic!("it is no file") };
        assert!(reason.contains("as `notes/plan.md:120`"));
    }
}
