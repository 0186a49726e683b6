//! Where files are: those of agents (`jobs/workspaces.toml`), and those that users post for their messages
//! (`jobs/attachments.toml`).

use std::path::Path;
use std::sync::Arc;

use houston_domain::setting::WrongSetting;
use houston_folder::{Root, RootError};
use houston_objects::Objects;
use serde::{Deserialize, Serialize};

/// `jobs/attachments.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachmentSettings {
    url: String,
}

impl AttachmentSettings {
    /// The object store; `None`: they are rows. Nothing is asked of it.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub(crate) fn open(&self) -> Result<Option<Objects>, String> {
        (!self.url.is_empty()).then(|| Objects::open(&self.url)).transpose()
    }
}

/// `jobs/workspaces.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceSettings {
    root: String,
}

impl WorkspaceSettings {
    /// Whether files are in a folder.
    pub(crate) fn is_set(&self) -> bool {
        !self.root.is_empty()
    }

    /// The folder, opened; `None`: files are rows.
    ///
    /// # Errors
    /// [`RootError`] says what is wrong with it.
    pub(crate) fn open(&self) -> Result<Option<Arc<Root>>, RootError> {
        self.is_set().then(|| Root::open(Path::new(&self.root)).map(Arc::new)).transpose()
    }

    /// Checks the path. Whether the folder is there is looked at by the commands that use it.
    ///
    /// # Errors
    /// [`WrongSetting`] when it is relative.
    pub(super) fn check(&self) -> Result<(), WrongSetting> {
        if self.is_set() && Path::new(&self.root).is_relative() {
            let reason = "must be an absolute path, such as /var/lib/houston/workspaces, or empty";
            return Err(WrongSetting::new("/root", reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    #[test]
    fn address_is_a_bucket_or_a_folder() {
        let (settings, root) = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()].into();
        let open = |url: &str| {
            std::fs::write(settings.path().join("attachments.toml"), format!("url = '{url}'")).unwrap();
            load(Some(settings.path()), &tools()).unwrap().settings.attachments.open()
        };
        assert!(open("").unwrap().is_none());
        assert!(open(&format!("file://{}", root.path().display())).unwrap().is_some());
        let error = open("https://files.example.com").unwrap_err().to_string();
        assert!(error.contains("s3://bucket/prefix or file:///path"), "{error}");
    }

    #[test]
    fn relative_folder_is_refused_and_an_absolute_one_opened() {
        let (settings, root) = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()].into();
        let write = |root: &str| {
            let text = format!("root = '{root}'");
            std::fs::write(settings.path().join("workspaces.toml"), text).unwrap();
            load(Some(settings.path()), &tools())
        };
        let error = write("workspaces").unwrap_err().to_string();
        assert!(error.contains("workspaces.root") && error.contains("an absolute path"), "{error}");
        let opened = write(root.path().to_str().unwrap()).unwrap().settings.workspaces.open();
        assert_eq!(opened.unwrap().unwrap().path, root.path().canonicalize().unwrap());
        assert!(write("").unwrap().settings.workspaces.open().unwrap().is_none());
        let error = write("/usr").unwrap().settings.workspaces.open().unwrap_err().to_string();
        assert!(error.contains("a folder of the system"), "{error}");
    }
}
