//! `houston chat` with a message, or with lines from a pipe: each message is answered before the next is posted.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use houston_domain::image::with_references;
use houston_domain::message::{Message, MessageStatus};
use houston_protocol::agui::{self, Event, Fact};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::approvals::Approvals;
use super::command::Command;
use super::editor::Input;
use super::error::{ChatError, Result};
use super::follow::{StreamEvent, follow};
use super::request::{self, SCRIPT_ATTEMPTS};
use super::screen::Screen;
use super::{ChatContext, command, editor};

/// How long to wait for a server that has gone away.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How a message ended, and the exit code for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered = 0,
    Failed = 1,
    /// The run waits until a person decides a tool call.
    Waits = 3,
    /// Cancelled with Ctrl-C (128 + SIGINT).
    Interrupted = 130,
}

/// Posts `message` with `images`, or else each line of stdin, and prints the answers. Exit code 0 when all were answered, 3 when a run
/// waits until a person decides a tool call.
///
/// # Errors
/// [`ChatError`] when a request fails, or when there is no message.
pub(super) async fn run(context: ChatContext, message: Option<&str>, images: &[PathBuf]) -> Result<ExitCode> {
    let mut chat = ScriptedChat::new(context)?;
    let mut worst = None;
    if message.is_some() || !images.is_empty() {
        worst = Some(chat.exchange(message.unwrap_or_default(), images).await?);
    } else {
        let mut lines = editor::input_lines();
        while let Some(line) = chat.next_line(&mut lines).await {
            let outcome = chat.exchange(&line, &[]).await?;
            worst = worst.filter(|_| outcome == Outcome::Answered).or(Some(outcome));
            // A further message would take the place of the decision.
            if matches!(outcome, Outcome::Interrupted | Outcome::Waits) {
                break;
            }
        }
    }
    if chat.interrupted {
        worst = Some(Outcome::Interrupted);
    }
    match worst {
        Some(outcome) => Ok(ExitCode::from(outcome as u8)),
        None => Err(ChatError::usage("no message: give one as an argument, or lines on stdin")),
    }
}

struct ScriptedChat {
    context: ChatContext,
    screen: Screen,
    tasks: TaskTracker,
    interrupts: Signal,
    /// Ctrl-C was pressed between two messages.
    interrupted: bool,
}

impl ScriptedChat {
    fn new(context: ChatContext) -> Result<Self> {
        let interrupts = signal(SignalKind::interrupt()).map_err(ChatError::signals)?;
        let screen = Screen::new(context.style);
        Ok(Self { context, screen, tasks: TaskTracker::new(), interrupts, interrupted: false })
    }

    /// The next line that is not empty; `None` after `/quit` and at the end.
    async fn next_line(&mut self, lines: &mut mpsc::Receiver<Input>) -> Option<String> {
        loop {
            let line = tokio::select! {
                typed = lines.recv() => match typed {
                    Some(Input::Line(line)) => line,
                    Some(Input::Interrupted) | None => return None,
                },
                _ = self.interrupts.recv() => {
                    self.interrupted = true;
                    return None;
                }
            };
            match Command::read(&line) {
                Command::Empty => {}
                Command::Quit => return None,
                _ => return Some(line.trim().to_owned()),
            }
        }
    }

    /// Posts a message with images and prints the events of its run to their end.
    async fn exchange(&mut self, text: &str, images: &[PathBuf]) -> Result<Outcome> {
        let ChatContext { server, ids, goal, .. } = &self.context;
        let read = images.iter().map(|path| command::read_image(path, goal.user_id));
        let (images, image_ids): (Vec<_>, Vec<_>) = read.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let accepted = request::post(server, ids, &goal.id, (text, &images), SCRIPT_ATTEMPTS).await?;
        self.screen.posted(&with_references(text, image_ids));
        let mut stream = follow(server.clone(), accepted.events_url.clone(), &self.tasks);
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let (mut run, mut interrupted, mut approvals) = (None, false, Approvals::default());
        // Until when it may be reconnected, and why it must be.
        let mut lost: Option<(Instant, String)> = None;
        loop {
            let deadline = lost.as_ref().map_or_else(Instant::now, |(deadline, _)| *deadline);
            let event = tokio::select! {
                event = stream.recv() => event.unwrap_or(StreamEvent::Ended),
                _ = self.interrupts.recv() => {
                    if std::mem::replace(&mut interrupted, true) {
                        return Ok(Outcome::Interrupted);
                    }
                    self.interrupt(&accepted.message).await?;
                    continue;
                }
                _ = seconds.tick(), if self.screen.is_counting() => {
                    self.context.show(self.screen.tick(self.context.now()));
                    continue;
                }
                () = sleep_until(deadline), if lost.is_some() => {
                    let reason = lost.map(|(_, reason)| reason).unwrap_or_default();
                    return Err(ChatError::Unreachable { url: self.context.server.url.clone(), reason });
                }
            };
            match event {
                StreamEvent::Event(event, json) => {
                    self.context.show_event(self.screen.event(&event, self.context.now()), &json);
                    if let Event::RunStarted { run_id, .. } = event.as_ref() {
                        run = Some(*run_id);
                    }
                    if let Event::Custom { fact, .. } = event.as_ref() {
                        approvals.on_fact(fact);
                        let is_waiting = matches!(fact, Fact::RunWaiting { .. });
                        if is_waiting && approvals.is_open() && run == accepted.message.run_id {
                            return Ok(Outcome::Waits);
                        }
                    }
                    if event.ends_run() && run == accepted.message.run_id {
                        return Ok(match *event {
                            Event::RunFinished { outcome: agui::Outcome::Success, .. } => Outcome::Answered,
                            _ if interrupted => Outcome::Interrupted,
                            _ => Outcome::Failed,
                        });
                    }
                }
                StreamEvent::Disconnected(reason) => {
                    self.context
                        .show(self.screen.error(&format!("connection lost: {reason}; reconnecting…")));
                    lost = Some((Instant::now() + RECONNECT_TIMEOUT, reason));
                }
                StreamEvent::Reconnected => lost = None,
                // The stream has ended without the end of the run: another run may have answered the message.
                StreamEvent::Ended => {
                    let status = self.context.server.status(accepted.message.id).await?;
                    let is_answered = status == Some(MessageStatus::Answered);
                    return Ok(if is_answered { Outcome::Answered } else { Outcome::Failed });
                }
                StreamEvent::Failed(error) => return Err(error),
            }
        }
    }

    async fn interrupt(&mut self, message: &Message) -> Result<()> {
        self.screen.interrupted();
        self.context.show(self.screen.info("cancelling… (again to leave)"));
        match message.run_id {
            Some(run) => self.context.server.cancel(run).await,
            None => Ok(()),
        }
    }
}
