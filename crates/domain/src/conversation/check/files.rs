//! Checks of a document's files.

use std::collections::BTreeSet;

use super::{Checked, Conversation, check_count, invalid, text, time};
use crate::workspace::{FileLimits, MAX_FILE_BYTES, WorkspacePath};

impl Conversation {
    /// Checks that the files can be those of one workspace.
    pub(super) fn check_files(&self) -> Checked {
        let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
        let mut paths = Vec::with_capacity(self.files.len());
        for (index, file) in self.files.iter().enumerate() {
            let at = |field: &str| format!("/files/{index}{field}");
            let path = match WorkspacePath::file(&file.path) {
                Ok(path) => path,
                Err(error) => return invalid(at("/path"), error.to_string()),
            };
            if path.as_str() != file.path {
                return invalid(at("/path"), format!("must be written `{path}`"));
            }
            if !files.insert(file.path.as_str()) {
                return invalid(at("/path"), "is the path of an earlier file, too");
            }
            text(&at("/content"), &file.content, MAX_FILE_BYTES)?;
            time(&at("/created_at"), file.created_at)?;
            time(&at("/updated_at"), file.updated_at)?;
            paths.push(path);
        }
        for path in &paths {
            folders.extend(path.folders());
        }
        match self.files.iter().position(|file| folders.contains(file.path.as_str())) {
            Some(index) => invalid(format!("/files/{index}/path"), "is a folder of another file"),
            None => Ok(()),
        }
    }

    /// Checks that a workspace may hold this much.
    pub(super) fn check_file_counts(&self, limits: &FileLimits) -> Checked {
        check_count("/files", self.files.len(), limits.max_files)?;
        let bytes: u64 =
            self.files.iter().map(|file| u64::try_from(file.content.len()).unwrap_or(u64::MAX)).sum();
        if bytes > limits.max_bytes {
            let detail = format!("have {bytes} bytes; at most {} are allowed", limits.max_bytes);
            return invalid("/files", detail);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::ExportedFile;
    use crate::conversation::check::tests::exported;

    fn with(files: &[(&str, &str)]) -> Conversation {
        let mut document = exported();
        let at = document.notes[0].created_at;
        let file = |(path, content): &(&str, &str)| ExportedFile {
            path: (*path).to_owned(),
            content: (*content).to_owned(),
            created_at: at,
            updated_at: at,
        };
        document.files = files.iter().map(file).collect();
        document
    }

    #[test]
    fn files_of_one_workspace_are_accepted() {
        let document = with(&[("a", ""), ("b/c", "x"), ("b/d", "y"), ("b-e", "z")]);
        assert_eq!(document.check(), Ok(()));
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Conversation>(&text).unwrap(), document);
        assert!(!serde_json::to_string(&with(&[])).unwrap().contains("files"), "others stay as they were");
    }

    #[test]
    fn files_that_no_workspace_can_have_are_named() {
        let long = "x".repeat(MAX_FILE_BYTES + 1);
        for (files, pointer, reason) in [
            (vec![("a", ""), ("../b", "")], "/files/1/path", "`..`"),
            (vec![("/a", "")], "/files/0/path", "absolute"),
            (vec![("./a", "")], "/files/0/path", "must be written `a`"),
            (vec![("a", ""), ("a", "")], "/files/1/path", "earlier file"),
            (vec![("a/b", ""), ("a", "")], "/files/1/path", "is a folder"),
            (vec![("a", "x\0y")], "/files/0/content", "U+0000"),
            (vec![("a", long.as_str())], "/files/0/content", "at most 1048576"),
        ] {
            let error = with(&files).check().unwrap_err();
            assert!(error.pointer == pointer && error.detail.contains(reason), "{error}");
        }
        let limits = FileLimits { max_files: 1, max_bytes: 3 };
        for (files, reason) in [(vec![("a", ""), ("b", "")], "2 items"), (vec![("a", "1234")], "4 bytes")] {
            let error = with(&files).check_file_counts(&limits).unwrap_err();
            assert!(error.pointer == "/files" && error.detail.contains(reason), "{error}");
        }
    }
}
