//! Which files of a task that ended pass to the workspace of its creator.

use std::collections::BTreeMap;

use super::{FileLimits, MAX_DEPTH, MAX_PATH_BYTES};

/// A file that passes to another workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// Its path in the workspace of the task.
    pub from: String,
    /// Its path in the other one.
    pub to: String,
}

/// The files of a task that fit into `folder` of a workspace with the files `there`, in the order of their paths. Paths with
/// lengths in bytes. A file stays where it is if its path would be too long or too deep, if the path or a folder of it is
/// taken, or if the workspace would have more than the limits allow.
pub fn handed_over<'f>(
    folder: &str,
    files: impl IntoIterator<Item = (&'f str, u64)>,
    there: &BTreeMap<String, u64>,
    limits: &FileLimits,
) -> Vec<HandedOver> {
    let mut count = u64::try_from(there.len()).unwrap_or(u64::MAX);
    let mut bytes: u64 = there.values().sum();
    let mut handed = Vec::new();
    for (path, length) in files {
        let to = format!("{folder}/{path}");
        let is_path = to.len() <= MAX_PATH_BYTES && to.split('/').count() <= MAX_DEPTH;
        let is_full = count >= limits.max_files.into() || bytes.saturating_add(length) > limits.max_bytes;
        if !is_path || is_full || is_taken(&to, there) {
            continue;
        }
        count += 1;
        bytes += length;
        handed.push(HandedOver { from: path.to_owned(), to });
    }
    handed
}

/// Whether there is such a file or folder, or a file where the path needs a folder.
fn is_taken(path: &str, there: &BTreeMap<String, u64>) -> bool {
    let folder = format!("{path}/");
    let is_folder = there.range(folder.clone()..).next().is_some_and(|(other, _)| other.starts_with(&folder));
    is_folder
        || there.contains_key(path)
        || path.match_indices('/').any(|(at, _)| there.contains_key(&path[..at]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moved(files: &[&str], there: &[&str], limits: FileLimits) -> Vec<String> {
        let there = there.iter().map(|path| ((*path).to_owned(), 10)).collect();
        let files = files.iter().map(|path| (*path, 10));
        handed_over("task_1", files, &there, &limits).into_iter().map(|file| file.to).collect()
    }

    #[test]
    fn taken_and_too_long_paths_stay() {
        let limits = FileLimits::default();
        assert_eq!(moved(&["a", "b/c"], &["a"], limits), ["task_1/a", "task_1/b/c"]);
        assert_eq!(moved(&["a"], &["task_1"], limits), [""; 0], "the folder is a file");
        assert_eq!(moved(&["a", "b"], &["task_1/a"], limits), ["task_1/b"]);
        assert_eq!(moved(&["a", "b"], &["task_1/a/x"], limits), ["task_1/b"], "a folder there");
        assert_eq!(moved(&["a/x", "b"], &["task_1/a"], limits), ["task_1/b"], "a file there");
        let deep = vec!["d"; MAX_DEPTH].join("/");
        let long = "n".repeat(MAX_PATH_BYTES - 6);
        assert_eq!(moved(&[&deep, &long, &long[1..]], &[], limits), [format!("task_1/{}", &long[1..])]);
    }

    #[test]
    fn workspace_that_is_full_takes_no_more() {
        let files = ["a", "b", "c"];
        let two = FileLimits { max_files: 3, max_bytes: 1_000 };
        assert_eq!(moved(&files, &["x"], two), ["task_1/a", "task_1/b"]);
        let one = FileLimits { max_files: 9, max_bytes: 29 };
        assert_eq!(moved(&files, &["x"], one), ["task_1/a"]);
        assert_eq!(moved(&files, &["x"], FileLimits { max_files: 0, max_bytes: 0 }), [""; 0]);
    }

    proptest! {
        #[test]
        fn a_path_stays_a_file_or_a_folder(
            files in prop::collection::btree_set("[ab](/[ab]){0,3}", 0..6),
            there in prop::collection::btree_set("(t|t/[ab])(/[ab]){0,3}", 0..6),
            max in 0..9u32,
        ) {
            let is_tree = |paths: &std::collections::BTreeSet<String>| {
                paths.iter().all(|path| path.match_indices('/').all(|(at, _)| !paths.contains(&path[..at])))
            };
            prop_assume!(is_tree(&files) && is_tree(&there));
            let limits = FileLimits { max_files: max, max_bytes: 99 };
            let sizes = there.iter().map(|path| (path.clone(), 1)).collect();
            let moved = handed_over("t", files.iter().map(|path| (path.as_str(), 1)), &sizes, &limits);
            let mut all = there.clone();
            for file in &moved {
                prop_assert!(files.contains(&file.from));
                prop_assert!(all.insert(file.to.clone()), "{} was there", file.to);
            }
            prop_assert!(is_tree(&all), "{all:?}");
            prop_assert!(moved.is_empty() || all.len() <= max as usize);
        }
    }
}
