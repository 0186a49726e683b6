//! Writing a file of settings.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// Puts `text` in place of the file. Another process reads the text before or this one, and so does everybody after a crash.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    // A link is followed, so that the file it leads to is replaced, not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().with_context(cannot)?.to_string_lossy();
    // Hidden, so that it is not taken for a misspelt file of settings.
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = std::fs::File::create(&temporary).with_context(cannot)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| std::fs::rename(&temporary, &path)).with_context(|| {
        let _ = std::fs::remove_file(&temporary);
        cannot()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
        replace(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn file_stays_as_it_was_if_it_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        // A folder cannot be replaced by a file.
        std::fs::create_dir(&path).unwrap();
        assert!(replace(&path, "new").unwrap_err().to_string().contains("cannot write"));
        assert!(path.is_dir() && std::fs::read_dir(folder.path()).unwrap().count() == 1);
    }
}
