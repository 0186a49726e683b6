//! Tokens of providers' command lines, if the user is logged in there: of Microsoft Entra for Azure's models, and of GitHub.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_llm::{Secret, TokenSource};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::Mutex;

/// The scope of the tokens: all models of Azure OpenAI and AI Foundry.
const RESOURCE: &str = "https://cognitiveservices.azure.com";

/// The time limit of `az`, which starts slowly and calls a server.
const AZ_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest output that is read, in bytes.
const LONGEST_ANSWER: u64 = 64 << 10;

/// How long before its expiry a token is renewed.
const MARGIN: TimeDelta = TimeDelta::minutes(5);

/// The lifetime of a token whose expiry is unknown.
const SHORT_LIFE: TimeDelta = TimeDelta::minutes(10);

/// How long after a failure `az` is not run again.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// `gh` reads a file or the machine's key ring; if it asks for a password, it is not waited for.
const GH_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `az account get-access-token` once for all callers, and again 5 minutes before the token expires.
pub(crate) struct AzureTokens {
    program: OsString,
    timeout: Duration,
    last: Mutex<Last>,
}

/// The last result of `az`.
#[derive(Default)]
struct Last {
    /// The token and its expiry.
    token: Option<(Secret, DateTime<Utc>)>,
    /// When `az` may run again.
    next: Option<DateTime<Utc>>,
}

/// The output of `az`. Its `expiresOn` is not read: it is in local time, which is ambiguous twice a year.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "accessToken")]
    access_token: Secret,
    /// Seconds since 1970; missing before version 2.54 of `az`.
    expires_on: Option<i64>,
}

impl AzureTokens {
    /// Uses the `az` on the `PATH`.
    pub(crate) fn new() -> Self {
        Self::of("az".into(), AZ_TIMEOUT)
    }

    fn of(program: OsString, timeout: Duration) -> Self {
        Self { program, timeout, last: Mutex::default() }
    }

    async fn token_at(&self, now: DateTime<Utc>) -> Option<Secret> {
        let mut last = self.last.lock().await;
        if last.next.is_none_or(|next| next <= now) {
            match self.run().await {
                Some(answer) => {
                    let end = answer.expires_on.and_then(|end| DateTime::from_timestamp(end, 0));
                    let end = end.unwrap_or(now + SHORT_LIFE);
                    last.next = Some((end - MARGIN).max(now + PAUSE));
                    last.token = Some((answer.access_token, end));
                }
                None => last.next = Some(now + PAUSE),
            }
        }
        last.token.as_ref().filter(|(_, end)| now < *end).map(|(token, _)| token.clone())
    }

    /// `None` when there is no such program, no login, it takes too long, or its output cannot be parsed.
    async fn run(&self) -> Option<Answer> {
        let arguments = ["account", "get-access-token", "--output", "json", "--resource", RESOURCE];
        let bytes = output_of(&self.program, &arguments, self.timeout).await?;
        serde_json::from_slice::<Answer>(&bytes).ok().filter(|answer| !answer.access_token.is_empty())
    }
}

impl TokenSource for AzureTokens {
    fn token(&self) -> BoxFuture<'_, Option<Secret>> {
        Box::pin(self.token_at(SystemClock.now()))
    }
}

/// The output of `gh auth token`; `None` when there is no such program, no login, or it takes longer than 5 s.
pub(crate) async fn github_token() -> Option<Secret> {
    token_of(OsStr::new("gh"), GH_TIMEOUT).await
}

async fn token_of(program: &OsStr, timeout: Duration) -> Option<Secret> {
    let output = output_of(program, &["auth", "token", "--hostname", "github.com"], timeout).await?;
    let token = Secret::new(std::str::from_utf8(&output).ok()?);
    (!token.is_empty()).then_some(token)
}

/// What a program prints; `None` when there is none, it fails, or it takes too long.
async fn output_of(program: &OsStr, arguments: &[&str], timeout: Duration) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    // Spawning a process blocks.
    let mut child = tokio::task::spawn_blocking(move || command.spawn()).await.ok()?.ok()?;
    let mut stdout = child.stdout.take()?.take(LONGEST_ANSWER);
    let read = async {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).await.ok()?;
        drop(stdout);
        child.wait().await.ok().filter(std::process::ExitStatus::success)?;
        Some(bytes)
    };
    tokio::time::timeout(timeout, read).await.ok()?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program in `folder` that executes `script`.
    fn program(folder: &tempfile::TempDir, name: &str, script: &str) -> OsString {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path.into()
    }

    /// Of an `az` in `folder` that counts its runs and executes `script`.
    fn tokens(folder: &tempfile::TempDir, script: &str) -> AzureTokens {
        let script = format!("echo run >> '{}'\n{script}", folder.path().join("runs").display());
        AzureTokens::of(program(folder, "az", &script), AZ_TIMEOUT)
    }

    fn runs(folder: &tempfile::TempDir) -> usize {
        std::fs::read_to_string(folder.path().join("runs")).unwrap().lines().count()
    }

    #[tokio::test]
    async fn az_runs_once_for_all_callers_and_renews_before_expiry() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "[ \"$1 $2\" = 'account get-access-token' ] && case \"$*\" in *{RESOURCE}*) \
             echo '{{\"accessToken\":\"eyJ.a.b\",\"expires_on\":4000}}';; esac"
        );
        let tokens = tokens(&folder, &script);
        let at = |seconds| tokens.token_at(DateTime::from_timestamp(seconds, 0).unwrap());
        let (one, two, three) = tokio::join!(at(0), at(0), at(3_699));
        let token = Some(Secret::new("eyJ.a.b"));
        assert_eq!([one, two, three], [token.clone(), token.clone(), token]);
        assert_eq!(runs(&folder), 1);
        assert!(at(3_700).await.is_some());
        assert_eq!(runs(&folder), 2, "5 minutes before its end it is fetched anew");
        assert_eq!(at(4_000).await, None, "this one has ended");
    }

    #[tokio::test]
    async fn failing_az_gives_no_token_and_is_not_rerun_for_30_s() {
        for script in ["exit 1", "echo 'Please run az login'", "echo '{\"accessToken\":7}'", "exec yes"] {
            let folder = tempfile::tempdir().unwrap();
            let tokens = tokens(&folder, script);
            let at = |seconds| tokens.token_at(DateTime::from_timestamp(seconds, 0).unwrap());
            assert_eq!((at(0).await, at(29).await), (None, None), "{script}");
            assert_eq!(runs(&folder), 1, "{script}");
            assert_eq!(at(30).await, None);
            assert_eq!(runs(&folder), 2, "{script}");
        }
        let folder = tempfile::tempdir().unwrap();
        let hangs = tokens(&folder, "exec sleep 600");
        let hangs = AzureTokens { timeout: Duration::from_millis(200), ..hangs };
        assert_eq!(hangs.token_at(DateTime::UNIX_EPOCH).await, None);
        let missing = AzureTokens::of(folder.path().join("none").into(), AZ_TIMEOUT);
        assert_eq!(missing.token_at(DateTime::UNIX_EPOCH).await, None);
    }

    #[tokio::test]
    async fn token_is_read_only_from_a_successful_login() {
        let folder = tempfile::tempdir().unwrap();
        let says = program(&folder, "says", "[ \"$1 $2\" = 'auth token' ] && echo gho_0123456789");
        assert_eq!(token_of(&says, GH_TIMEOUT).await, Some(Secret::new("gho_0123456789")));
        let refuses = program(&folder, "refuses", "echo no; exit 1");
        assert_eq!(token_of(&refuses, GH_TIMEOUT).await, None);
        let waits = program(&folder, "waits", "exec sleep 60");
        assert_eq!(token_of(&waits, Duration::from_millis(100)).await, None);
        assert_eq!(token_of(folder.path().join("none").as_os_str(), GH_TIMEOUT).await, None);
    }
}
