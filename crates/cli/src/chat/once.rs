//! Messages of the command line, or of a pipe: each is answered before the next, and then it is over.

use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::Setting;
use super::command::Command;
use super::errand::{self, TRIES_OF_A_PROGRAM};
use super::error::ChatError;
use super::event::Event;
use super::follow::{Heard, follow};
use super::message::Accepted;
use super::screen::Screen;
use super::typing::{self, Typed};

/// How long a program waits for a server that has gone away.
const PATIENCE: Duration = Duration::from_secs(60);

/// What programs exit with that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// How a message fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fared {
    Answered,
    Failed,
    /// Cancelled from here.
    Interrupted,
}

/// Posts `message`, or else each line of stdin, and shows the answers. 0 when all were answered.
///
/// # Errors
/// When the server does not answer.
pub(super) async fn say(setting: Setting, message: Option<&str>) -> Result<ExitCode, ChatError> {
    let mut teller = Teller::new(setting)?;
    let mut worst = None;
    if let Some(message) = message {
        worst = Some(teller.exchange(message).await?);
    } else {
        let mut lines = typing::lines();
        while let Some(line) = teller.next_line(&mut lines).await {
            let fared = teller.exchange(&line).await?;
            worst = worst.filter(|_| fared == Fared::Answered).or(Some(fared));
            if fared == Fared::Interrupted {
                break;
            }
        }
    }
    if teller.left {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    match worst {
        Some(Fared::Answered) => Ok(ExitCode::SUCCESS),
        Some(Fared::Failed) => Ok(ExitCode::FAILURE),
        Some(Fared::Interrupted) => Ok(ExitCode::from(INTERRUPTED)),
        None => Err(ChatError::NothingSaid),
    }
}

struct Teller {
    setting: Setting,
    screen: Screen,
    tasks: TaskTracker,
    interrupts: Signal,
    /// Ctrl-C was pressed between messages.
    left: bool,
}

impl Teller {
    fn new(setting: Setting) -> Result<Self, ChatError> {
        let interrupts =
            signal(SignalKind::interrupt()).map_err(|error| ChatError::Signals(error.to_string()))?;
        let screen = Screen::new(setting.style);
        Ok(Self { setting, screen, tasks: TaskTracker::new(), interrupts, left: false })
    }

    /// The next line that says something; none after `/quit`.
    async fn next_line(&mut self, lines: &mut mpsc::Receiver<Typed>) -> Option<String> {
        loop {
            let line = tokio::select! {
                typed = lines.recv() => match typed {
                    Some(Typed::Line(line)) => line,
                    Some(Typed::Interrupted) | None => return None,
                },
                _ = self.interrupts.recv() => {
                    self.left = true;
                    return None;
                }
            };
            match Command::read(&line) {
                Command::Nothing => {}
                Command::Quit => return None,
                _ => return Some(line.trim().to_owned()),
            }
        }
    }

    /// Posts a message and shows what its run says, to its end.
    async fn exchange(&mut self, text: &str) -> Result<Fared, ChatError> {
        let Setting { server, ids, goal, .. } = &self.setting;
        let accepted = errand::post(server, ids, &goal.id, text, TRIES_OF_A_PROGRAM).await?;
        self.screen.posted(text);
        let mut stream = follow(server.clone(), accepted.events_url.clone(), &self.tasks);
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let (mut run, mut interrupted) = (String::new(), false);
        let mut patience = None;
        loop {
            let heard = tokio::select! {
                heard = stream.recv() => heard.unwrap_or(Heard::Over),
                _ = self.interrupts.recv() => {
                    if std::mem::replace(&mut interrupted, true) {
                        return Ok(Fared::Interrupted);
                    }
                    self.interrupt(&accepted).await?;
                    continue;
                }
                _ = seconds.tick(), if self.screen.is_counting() => {
                    let out = self.screen.tick(self.setting.now());
                    self.setting.show(out);
                    continue;
                }
                reason = lost_for_good(&mut patience) => {
                    return Err(ChatError::Unreachable { url: self.setting.server.url.clone(), reason });
                }
            };
            match heard {
                Heard::Event(event, json) => {
                    let out = self.screen.event(&event, self.setting.now());
                    self.setting.show_event(out, &json);
                    if let Event::RunStarted { run_id } = event.as_ref() {
                        run.clone_from(run_id);
                    }
                    if event.ends_run() && run == accepted.run_id {
                        return Ok(fared(&event, interrupted));
                    }
                }
                Heard::Lost(reason) => {
                    let out =
                        self.screen.complain(&format!("the connection is lost: {reason}; reconnecting…"));
                    self.setting.show(out);
                    patience = Some((tokio::time::Instant::now() + PATIENCE, reason));
                }
                Heard::Back => patience = None,
                Heard::Over => return self.fate(&accepted).await,
                Heard::Failed(error) => return Err(error),
            }
        }
    }

    async fn interrupt(&mut self, accepted: &Accepted) -> Result<(), ChatError> {
        self.screen.interrupted();
        let out = self.screen.tell("cancelling… (again to leave)");
        self.setting.show(out);
        self.setting.server.cancel(&accepted.run_id).await
    }

    /// What became of a message whose stream is over: another run may have answered it.
    async fn fate(&self, accepted: &Accepted) -> Result<Fared, ChatError> {
        let status = self.setting.server.status(&accepted.id).await?;
        Ok(if status.as_deref() == Some("answered") { Fared::Answered } else { Fared::Failed })
    }
}

fn fared(end: &Event, interrupted: bool) -> Fared {
    match end {
        Event::RunFinished { outcome, .. }
            if outcome.as_ref().is_none_or(|outcome| outcome.name != "cancelled") =>
        {
            Fared::Answered
        }
        _ if interrupted => Fared::Interrupted,
        _ => Fared::Failed,
    }
}

/// Ends with the reason when the connection was lost too long ago.
async fn lost_for_good(patience: &mut Option<(tokio::time::Instant, String)>) -> String {
    match patience {
        Some((until, reason)) => {
            tokio::time::sleep_until(*until).await;
            reason.clone()
        }
        None => std::future::pending().await,
    }
}
