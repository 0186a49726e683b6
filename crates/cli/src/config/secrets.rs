//! The keys with which secrets of tenants are sealed: `HOUSTON_SECRETS_KEY`, or a file that `houston dev` makes.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use houston_domain::id::Ids;
use houston_domain::sealed::{KEY_BYTES, SecretKeys};

use super::{ConfigError, Result};
use crate::environment::environment;

const VARIABLE: &str = "HOUSTON_SECRETS_KEY";
/// The file of `houston dev`, in its folder.
const FILE: &str = "secrets-key";

/// The keys of the environment; `None`: secrets of tenants can be neither stored nor used.
///
/// # Errors
/// [`ConfigError`] when one is no key.
pub(super) fn from_environment() -> Result<Option<SecretKeys>> {
    let keys = environment(VARIABLE).map(|text| SecretKeys::parse(&text)).transpose();
    keys.map_err(|error| ConfigError::setting(VARIABLE, "environment", error))
}

/// The key in the folder of `houston dev`, made if there is none. What was sealed with a key that is lost cannot be opened.
///
/// # Errors
/// When the file can be neither read nor written, or has no key.
pub(crate) fn of_folder(folder: &Path, ids: &Ids) -> anyhow::Result<SecretKeys> {
    let path = folder.join(FILE);
    if !path.exists() {
        let mut random = [0; KEY_BYTES];
        ids.fill(&mut random);
        std::fs::create_dir_all(folder)?;
        let file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        writeln!(file.with_context(|| path.display().to_string())?, "{}", SecretKeys::text_of(random))?;
    }
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    SecretKeys::parse(text.trim()).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use houston_domain::clock::SystemClock;
    use houston_domain::id::TenantId;
    use houston_domain::sealed::Purpose;

    use super::*;

    #[test]
    fn folder_keeps_the_key_that_was_made_in_it() {
        let (folder, ids) = (tempfile::tempdir().unwrap(), Ids::new(Arc::new(SystemClock)));
        let first = of_folder(folder.path(), &ids).unwrap();
        let of = Purpose { tenant: TenantId(uuid::Uuid::nil()), what: "test" };
        let sealed = first.seal(of, [1; 12], "secret").unwrap();
        assert!(of_folder(folder.path(), &ids).unwrap().open(of, &sealed).is_ok());
        std::fs::write(folder.path().join(FILE), "nonsense").unwrap();
        assert!(of_folder(folder.path(), &ids).unwrap_err().to_string().contains(FILE));
    }
}
