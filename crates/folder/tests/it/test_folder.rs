//! A folder of workspaces, and a folder beside it that nothing may read or change.

use std::path::{Path, PathBuf};

use houston_domain::workspace::WorkspacePath;
use houston_folder::{Error, Folder, Obstacle, Root};
use tempfile::TempDir;
use uuid::Uuid;

/// What is in the files outside.
pub(crate) const CANARY: &str = "CANARY";

pub(crate) struct TestFolder {
    base: TempDir,
    pub(crate) root: Root,
    pub(crate) folder: Folder,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["root", "outside"] {
            std::fs::create_dir(base.path().join(name)).unwrap();
        }
        std::fs::write(base.path().join("outside/secret"), CANARY).unwrap();
        let root = Root::open(&base.path().join("root")).unwrap();
        let folder = root.make(Uuid::from_u128(1), Uuid::from_u128(2)).unwrap();
        Self { base, root, folder }
    }

    /// A file or folder that the agent must not reach.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.base.path().join("outside").join(name)
    }

    /// What is in the folder outside.
    pub(crate) fn names_outside(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.outside("")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        self.base.path()
    }

    /// The path of something in the workspace, for what others than Houston do there.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.folder.path_of_files().unwrap().join(name)
    }

    pub(crate) fn read(&self, path: &str) -> Result<Option<String>, Error> {
        self.folder.read(&at(path)).map(|content| content.map(|content| content.text))
    }

    pub(crate) fn write(&self, path: &str, content: &str) -> Result<(), Error> {
        self.folder.lock()?.write(&at(path), content)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<(), Error> {
        self.folder.lock()?.delete(&at(path))
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.folder.walk().unwrap().files.into_keys().collect()
    }
}

pub(crate) fn at(path: &str) -> WorkspacePath {
    WorkspacePath::file(path).unwrap()
}

/// The obstacle that a call met.
pub(crate) fn obstacle<T: std::fmt::Debug>(met: Result<T, Error>) -> Obstacle {
    match met {
        Err(Error::Obstacle(obstacle)) => obstacle,
        other => panic!("{other:?}"),
    }
}
