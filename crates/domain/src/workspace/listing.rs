//! What a folder contains, down to a depth.

use std::collections::BTreeMap;

use super::WorkspacePath;

/// A line of a list: a file, or a folder with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path; that of a folder ends with `/`.
    pub path: String,
    /// The number of files; `None`: it is a file.
    pub files: Option<u64>,
    /// Bytes of the file, or of all files in the folder.
    pub bytes: u64,
}

/// What `folder` contains: the files at most `depth` levels below it, and the folders at that level. `files` are paths of the
/// workspace with their lengths; those outside of the folder are left out.
pub fn listing<'f>(
    folder: Option<&WorkspacePath>,
    depth: usize,
    files: impl IntoIterator<Item = (&'f str, u64)>,
) -> Vec<Listed> {
    let mut listed: BTreeMap<&str, Listed> = BTreeMap::new();
    for (path, bytes) in files {
        let inner = match folder {
            Some(folder) if !folder.contains(path) => continue,
            Some(folder) => folder.as_str().len() + 1,
            None => 0,
        };
        let cut = path[inner..].match_indices('/').nth(depth.saturating_sub(1)).map(|(at, _)| inner + at + 1);
        let key = &path[..cut.unwrap_or(path.len())];
        let line = listed.entry(key).or_insert_with(|| Listed {
            path: key.to_owned(),
            files: cut.map(|_| 0),
            bytes: 0,
        });
        line.bytes += bytes;
        if let Some(files) = &mut line.files {
            *files += 1;
        }
    }
    listed.into_values().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILES: [(&str, u64); 5] = [("a.md", 1), ("b/c", 2), ("b/d/e", 4), ("b/d/f", 8), ("b-x", 16)];

    fn lines(folder: &str, depth: usize) -> Vec<(String, Option<u64>, u64)> {
        let folder = WorkspacePath::folder(folder).unwrap();
        let listed = listing(folder.as_ref(), depth, FILES);
        listed.into_iter().map(|line| (line.path, line.files, line.bytes)).collect()
    }

    #[test]
    fn deeper_folders_are_one_line_with_their_sums() {
        let file = |path: &str, bytes| (path.to_owned(), None, bytes);
        let folder = |path: &str, files, bytes| (path.to_owned(), Some(files), bytes);
        assert_eq!(lines("", 1), [file("a.md", 1), file("b-x", 16), folder("b/", 3, 14)]);
        assert_eq!(lines("", 2), [file("a.md", 1), file("b-x", 16), file("b/c", 2), folder("b/d/", 2, 12)]);
        assert_eq!(lines("b", 1), [file("b/c", 2), folder("b/d/", 2, 12)]);
        assert_eq!(lines("b/d", 1), [file("b/d/e", 4), file("b/d/f", 8)]);
        assert_eq!(lines("nothing", 3), []);
    }

    proptest! {
        #[test]
        fn each_file_is_counted_once(paths in prop::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,4}", 0..12), depth in 1..6usize) {
            let listed = listing(None, depth, paths.iter().map(|path| (path.as_str(), 3)));
            let files: u64 = listed.iter().map(|line| line.files.unwrap_or(1)).sum();
            prop_assert_eq!(files, paths.len() as u64);
            prop_assert_eq!(listed.iter().map(|line| line.bytes).sum::<u64>(), 3 * files);
        }
    }
}
