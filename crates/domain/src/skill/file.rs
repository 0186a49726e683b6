//! Files beside a SKILL.md: texts, one level below one of three folders.

use std::collections::BTreeMap;

/// The folders that files may lie in.
pub const FOLDERS: [&str; 3] = ["scripts", "references", "assets"];
/// Files of a skill.
pub const MAX_FILES: usize = 50;
/// Bytes of one file.
pub const MAX_FILE_BYTES: usize = 128 * 1024;
/// Bytes of all files of a skill together.
pub const MAX_FILES_BYTES: usize = 512 * 1024;
/// Bytes of the name of a file.
const MAX_NAME_BYTES: usize = 100;

/// Whether a file may have this path.
pub fn is_path(path: &str) -> bool {
    let Some((folder, name)) = path.split_once('/') else { return false };
    FOLDERS.contains(&folder)
        && !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Checks the files of a skill. The error is about the first that is not allowed.
pub fn check(files: &BTreeMap<String, String>) -> Result<(), String> {
    ensure!(files.len() <= MAX_FILES, "a skill has at most {MAX_FILES} files, but there are {}", files.len());
    for (path, text) in files {
        ensure!(
            is_path(path),
            "`{path:.200}` is no path of a file of a skill: files lie directly in scripts/, references/ or assets/, and their \
             names have letters, digits, `-`, `_` and `.`, as in references/api.md"
        );
        if text.len() > MAX_FILE_BYTES {
            return Err(format!("{path} has {} bytes; a file has at most {MAX_FILE_BYTES}", text.len()));
        }
        ensure!(!text.contains('\0'), "{path} is not text: only files in UTF-8 without U+0000 are allowed");
    }
    let bytes: usize = files.values().map(String::len).sum();
    ensure!(
        bytes <= MAX_FILES_BYTES,
        "the files of a skill have at most {MAX_FILES_BYTES} bytes together, but these have {bytes}"
    );
    Ok(())
}
