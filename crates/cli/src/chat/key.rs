//! Finds the API key: --key, else HOUSTON_API_KEY, else the file that `houston dev` writes.

use std::fmt;
use std::path::Path;

use super::error::ChatError;

/// An API key, and the option, variable or file it was read from.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) secret: String,
    pub(crate) origin: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(from {})", self.origin)
    }
}

impl Key {
    /// The first key that is set.
    ///
    /// # Errors
    /// [`ChatError::NoKey`] when none is set.
    pub(crate) fn find(
        given: Option<String>,
        environment: impl Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<Self, ChatError> {
        let file = folder.join("key");
        let saved = || std::fs::read_to_string(&file).ok();
        given
            .map(|secret| (secret, "--key".to_owned()))
            .or_else(|| environment("HOUSTON_API_KEY").map(|secret| (secret, "HOUSTON_API_KEY".to_owned())))
            .or_else(|| saved().map(|secret| (secret, file.display().to_string())))
            .map(|(secret, origin)| Self { secret: secret.trim().to_owned(), origin })
            .filter(|key| !key.secret.is_empty())
            .ok_or(ChatError::NoKey { file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sources_are_tried_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = |_: &str| None;
        let find = |given: Option<&str>, environment: &dyn Fn(&str) -> Option<String>| {
            Key::find(given.map(str::to_owned), environment, folder.path())
                .map(|key| (key.secret, key.origin))
        };
        let error = find(None, &nowhere).unwrap_err();
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().contains(&folder.path().join("key").display().to_string()), "{error}");

        std::fs::write(folder.path().join("key"), "hou_file\n").unwrap();
        assert_eq!(find(None, &nowhere).unwrap().0, "hou_file");
        let environment = |name: &str| Some(format!("hou_{name}"));
        assert_eq!(
            find(None, &environment).unwrap(),
            ("hou_HOUSTON_API_KEY".to_owned(), "HOUSTON_API_KEY".to_owned())
        );
        assert_eq!(find(Some("hou_x"), &environment).unwrap(), ("hou_x".to_owned(), "--key".to_owned()));
    }
}
