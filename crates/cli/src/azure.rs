//! Tokens of Microsoft Entra for Azure's models, from Azure's command line, for whoever is logged in there.

use std::ffi::OsString;
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

/// What tokens are for: all models of Azure OpenAI and AI Foundry.
const RESOURCE: &str = "https://cognitiveservices.azure.com";

/// How long `az` may take: it asks a server of Microsoft's, and begins slowly.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most that is read of its answer, in bytes.
const LONGEST_ANSWER: u64 = 64 << 10;

/// How long before its end a token is fetched anew.
const MARGIN: TimeDelta = TimeDelta::minutes(5);

/// How long a token without an end is used.
const SHORT_LIFE: TimeDelta = TimeDelta::minutes(10);

/// How long a failure is remembered.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// Runs `az account get-access-token` once for everybody who needs a token, and again shortly before the token ends.
pub(crate) struct AzureTokens {
    program: OsString,
    patience: Duration,
    last: Mutex<Last>,
}

/// What `az` answered last.
#[derive(Default)]
struct Last {
    /// The token and its end.
    token: Option<(Secret, DateTime<Utc>)>,
    /// When it is run again.
    next: Option<DateTime<Utc>>,
}

/// What `az` prints. `expiresOn` beside it is in local time, which is ambiguous twice a year.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "accessToken")]
    access_token: Secret,
    /// Seconds since 1970; missing before version 2.54 of `az`.
    expires_on: Option<i64>,
}

impl AzureTokens {
    /// Asks the `az` on the `PATH`.
    pub(crate) fn new() -> Self {
        Self::of("az".into(), PATIENCE)
    }

    fn of(program: OsString, patience: Duration) -> Self {
        Self { program, patience, last: Mutex::default() }
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

    /// `None` when there is no such program, nobody is logged in, it takes too long, or it says something else.
    async fn run(&self) -> Option<Answer> {
        let mut command = Command::new(&self.program);
        command.args(["account", "get-access-token", "--output", "json", "--resource", RESOURCE]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        // Starting a process blocks for as long as the system takes.
        let mut child = tokio::task::spawn_blocking(move || command.spawn()).await.ok()?.ok()?;
        let mut stdout = child.stdout.take()?.take(LONGEST_ANSWER);
        let read = async {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).await.ok()?;
            drop(stdout);
            child.wait().await.ok().filter(std::process::ExitStatus::success)?;
            Some(bytes)
        };
        let bytes = tokio::time::timeout(self.patience, read).await.ok()??;
        serde_json::from_slice::<Answer>(&bytes).ok().filter(|answer| !answer.access_token.is_empty())
    }
}

impl TokenSource for AzureTokens {
    fn token(&self) -> BoxFuture<'_, Option<Secret>> {
        Box::pin(self.token_at(SystemClock.now()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program in `folder` that counts its runs and does what `script` says.
    fn tokens(folder: &tempfile::TempDir, script: &str) -> AzureTokens {
        let path = folder.path().join("az");
        let runs = folder.path().join("runs");
        std::fs::write(&path, format!("#!/bin/sh\necho run >> '{}'\n{script}\n", runs.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        AzureTokens::of(path.into(), PATIENCE)
    }

    fn runs(folder: &tempfile::TempDir) -> usize {
        std::fs::read_to_string(folder.path().join("runs")).unwrap().lines().count()
    }

    #[tokio::test]
    async fn az_runs_once_for_all_and_again_before_the_end() {
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
    async fn an_az_that_fails_gives_no_token_and_is_left_alone_for_a_while() {
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
        let hangs = AzureTokens { patience: Duration::from_millis(200), ..hangs };
        assert_eq!(hangs.token_at(DateTime::UNIX_EPOCH).await, None);
        let missing = AzureTokens::of(folder.path().join("none").into(), PATIENCE);
        assert_eq!(missing.token_at(DateTime::UNIX_EPOCH).await, None);
    }
}
