//! Where objects are, as the operator writes it.

use std::path::PathBuf;

use url::Url;

/// Where objects are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A bucket, and what precedes each key.
    S3 { bucket: String, prefix: String },
    /// A folder.
    Folder(PathBuf),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no address of an object store: write s3://bucket/prefix or file:///path");
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.port().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        match (url.scheme(), url.host_str()) {
            ("s3", Some(bucket)) if is_plain && !bucket.is_empty() => {
                Ok(Self::S3 { bucket: bucket.to_owned(), prefix: url.path().trim_matches('/').to_owned() })
            }
            ("file", None | Some("")) if is_plain && url.path().len() > 1 => {
                url.to_file_path().map(Self::Folder).map_err(|()| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_bucket_or_a_folder() {
        let s3 = |bucket: &str, prefix: &str| Address::S3 { bucket: bucket.into(), prefix: prefix.into() };
        assert_eq!(Address::parse("s3://files").unwrap(), s3("files", ""));
        assert_eq!(Address::parse("s3://files/a/b/").unwrap(), s3("files", "a/b"));
        assert_eq!(Address::parse("file:///srv/files").unwrap(), Address::Folder("/srv/files".into()));
        for wrong in [
            "",
            "files",
            "s3://",
            "s3://key:secret@files",
            "s3://files?region=x",
            "file://host/path",
            "file:///",
            "https://files.example.com",
        ] {
            let error = Address::parse(wrong).unwrap_err();
            assert!(error.contains("s3://bucket/prefix or file:///path"), "{wrong}: {error}");
        }
    }
}
