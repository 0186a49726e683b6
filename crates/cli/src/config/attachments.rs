//! `jobs/attachments.toml`: where the bytes of files are that users post for their messages.

use houston_objects::{AddressError, Objects};
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
    /// [`AddressError`] says what is wrong with the address.
    pub(crate) fn open(&self) -> Result<Option<Objects>, AddressError> {
        (!self.url.is_empty()).then(|| Objects::open(&self.url)).transpose()
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
}
