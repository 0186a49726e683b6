//! Arguments and answers that the tools for files share. What a path, a change and a pattern are is decided in
//! [`houston_domain::workspace`].

use std::sync::Arc;

use houston_domain::guard::{Layer, is_listed};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_domain::workspace::{
    ChangeRefusal, Expected, FilePattern, FileVersion, MAX_FILE_BYTES, WorkspacePath,
};
use houston_store::record::RecordTx;
use houston_store::workspace_file::FileEntry;
use houston_store::{Error, FolderError};

use crate::builtin::LIST_FILES;
use crate::tool::InvalidInput;

/// Files whose names one call looks at: five times as many as a workspace may have by default.
const MAX_ENTRIES: u32 = 5_000;

/// The file that the argument `path` names.
pub(crate) fn file(tool: &str, path: &str) -> Result<WorkspacePath, InvalidInput> {
    WorkspacePath::file(path).map_err(|error| InvalidInput(format!("{tool}: `path`: {error}")))
}

/// The folder that the argument `path` names; `None`: the workspace.
pub(crate) fn folder(tool: &str, path: Option<&str>) -> Result<Option<WorkspacePath>, InvalidInput> {
    let folder = WorkspacePath::folder(path.unwrap_or_default());
    folder.map_err(|error| InvalidInput(format!("{tool}: `path`: {error}")))
}

/// The pattern of paths in the argument `glob`.
pub(crate) fn pattern(tool: &str, glob: &str) -> Result<FilePattern, InvalidInput> {
    FilePattern::new(glob).map_err(|error| InvalidInput(format!("{tool}: `glob` {error}")))
}

/// What the argument `expected_sha` expects.
pub(crate) fn expected(tool: &str, sha: Option<&str>) -> Result<Expected, InvalidInput> {
    let expected = sha.map_or(Ok(Expected::Any), Expected::parse);
    expected.map_err(|error| InvalidInput(format!("{tool}: `expected_sha` {error}")))
}

/// Checks the text of a file, or of a part of it.
pub(crate) fn text(tool: &str, field: &str, text: &str) -> Result<(), InvalidInput> {
    if text.len() > MAX_FILE_BYTES {
        let bytes = text.len();
        return Err(InvalidInput(format!(
            "{tool}: `{field}` has {bytes} bytes; at most {MAX_FILE_BYTES} are allowed: use several files"
        )));
    }
    if text.contains('\0') {
        return Err(InvalidInput(format!(
            "{tool}: `{field}` contains the character U+0000, which text files cannot have: leave it out"
        )));
    }
    Ok(())
}

/// A number within its bounds, and what the model reads if the one it gave was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clamped {
    pub(crate) value: usize,
    pub(crate) note: Option<String>,
}

/// The argument `field`, from 1 to `max`; `default` if it is absent. Others are changed to the nearest one.
pub(crate) fn clamped(field: &str, given: Option<u32>, default: u32, max: u32) -> Clamped {
    let given = given.unwrap_or(default);
    let value = given.clamp(1, max);
    let note = (value != given)
        .then(|| format!("`{field}` was {given}, and {value} is used: 1 to {max} are allowed."));
    Clamped { value: usize::try_from(value).unwrap_or(usize::MAX), note }
}

/// `text` with notes after it, in brackets.
pub(crate) fn with_notes(mut text: String, notes: &[String]) -> ToolResponse {
    if !notes.is_empty() {
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        text.push('[');
        text.push_str(&notes.join(" "));
        text.push(']');
    }
    ToolResponse::success(text)
}

/// The names of the files of the workspace that the guards let tools show, and a note if there are too many to look at all
/// of them.
pub(crate) async fn entries(
    tx: &mut RecordTx<'_>,
    guards: &[Arc<Layer>],
) -> houston_store::Result<(Vec<FileEntry>, Option<String>)> {
    let mut entries = tx.files(MAX_ENTRIES + 1).await?;
    let most = usize::try_from(MAX_ENTRIES).unwrap_or(usize::MAX);
    let note = (entries.len() > most)
        .then(|| format!("The workspace has more than {MAX_ENTRIES} files; the others were not looked at."));
    entries.truncate(most);
    entries.retain(|entry| is_listed(guards, &entry.path));
    Ok((entries, note))
}

/// The response of a call; a file that cannot be read or changed in the folder of the workspace is one for the model.
pub(crate) async fn answered(
    answer: impl Future<Output = houston_store::Result<ToolResponse>> + Send,
) -> houston_store::Result<ToolResponse> {
    let error = match answer.await {
        Err(Error::Folder(error)) => error,
        other => return other,
    };
    let code = match error {
        FolderError::Obstacle(_) => ToolErrorCode::ValidationError,
        FolderError::TooMany => ToolErrorCode::RateLimited,
        FolderError::Busy | FolderError::Io(_) => ToolErrorCode::IoError,
    };
    Ok(ToolResponse::failure(code, error.to_string()))
}

/// What a call would change; nothing to show if it will fail.
pub(crate) async fn previewed(
    preview: impl Future<Output = houston_store::Result<Option<String>>> + Send,
) -> houston_store::Result<Option<String>> {
    match preview.await {
        Err(Error::Folder(_)) => Ok(None),
        other => other,
    }
}

/// `120 bytes, sha 2cf24dba5fb0a30e`
pub(crate) fn described(bytes: usize, version: FileVersion) -> String {
    format!("{}, sha {version}", counted(bytes, "byte"))
}

/// `1 file`, `2 files`
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The response for a file that does not exist.
pub(crate) fn missing(path: &WorkspacePath) -> ToolResponse {
    refused(&ChangeRefusal::NotFound { path: path.to_string() })
}

/// The response for a change that is not made.
pub(crate) fn refused(refusal: &ChangeRefusal) -> ToolResponse {
    match refusal {
        ChangeRefusal::NotFound { .. } => {
            let text = format!("{refusal}: {LIST_FILES} shows the files there are");
            ToolResponse::failure(ToolErrorCode::NotFound, text)
        }
        full if full.is_full() => ToolResponse::failure(ToolErrorCode::RateLimited, refusal.to_string()),
        _ => ToolResponse::failure(ToolErrorCode::ValidationError, refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(noted("a").text(), "a\n\n[One. Two.]");
        assert_eq!(noted("a\n").text(), "a\n\n[One. Two.]");
        assert_eq!(noted("").text(), "[One. Two.]");
        assert_eq!(with_notes("a".to_owned(), &[]).text(), "a");
    }
}
