//! The token of GitHub's command line, if the user is logged in there.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use houston_llm::Secret;
use tokio::process::Command;

/// `gh` reads a file or the machine's key ring; if it asks for a password, it is not waited for.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The output of `gh auth token`; `None` when there is no such program, no login, or it takes longer than 5 s.
pub(crate) async fn token() -> Option<Secret> {
    token_of(OsStr::new("gh"), TIMEOUT).await
}

async fn token_of(program: &OsStr, timeout: Duration) -> Option<Secret> {
    let mut command = Command::new(program);
    command.args(["auth", "token", "--hostname", "github.com"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(timeout, command.output()).await.ok()?.ok()?;
    let token = Secret::new(std::str::from_utf8(&output.stdout).ok().filter(|_| output.status.success())?);
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn token_is_read_only_from_a_successful_login() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, script: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
            path
        };
        let says = program("says", "[ \"$1 $2\" = 'auth token' ] && echo gho_0123456789");
        assert_eq!(token_of(says.as_os_str(), TIMEOUT).await, Some(Secret::new("gho_0123456789")));
        let refuses = program("refuses", "echo no; exit 1");
        assert_eq!(token_of(refuses.as_os_str(), TIMEOUT).await, None);
        let waits = program("waits", "exec sleep 60");
        assert_eq!(token_of(waits.as_os_str(), Duration::from_millis(100)).await, None);
        assert_eq!(token_of(folder.path().join("none").as_os_str(), TIMEOUT).await, None);
    }
}
