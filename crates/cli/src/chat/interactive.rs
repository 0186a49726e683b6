//! A conversation at a terminal: lines, events and signals, each as it comes.

use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::Setting;
use super::command::{Command, HELP};
use super::editor::Editor;
use super::errand::{self, Done, Errand};
use super::error::ChatError;
use super::event::Event;
use super::follow::{Heard, follow};
use super::screen::Screen;
use super::server::path_of;
use super::typing::{self, Typed};

/// How long what was typed last may take to be sent when the person leaves.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// See [`talk`].
struct Conversation {
    setting: Setting,
    tasks: TaskTracker,
    screen: Screen,
    stream: Option<mpsc::Receiver<Heard>>,
    errands: mpsc::UnboundedSender<Errand>,
    /// The run that is open, or was last.
    run: Option<String>,
    cancelling: bool,
}

/// What to do after something happened.
enum Next {
    GoOn,
    Leave,
}

/// Talks until the person leaves.
///
/// # Errors
/// When the stream cannot go on.
pub(super) async fn talk(setting: Setting) -> Result<ExitCode, ChatError> {
    let tasks = TaskTracker::new();
    let (errands, mut done) = errand::runner(setting.server.clone(), setting.ids.clone(), &tasks);
    let mut interrupts =
        signal(SignalKind::interrupt()).map_err(|error| ChatError::Signals(error.to_string()))?;
    let mut terminated =
        signal(SignalKind::terminate()).map_err(|error| ChatError::Signals(error.to_string()))?;
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let screen = Screen::new(setting.style);
    let mut talk =
        Conversation { setting, tasks, screen, stream: None, errands, run: None, cancelling: false };
    talk.begin().await;
    let mut typed = talk.read_lines();
    talk.ask();
    loop {
        let next = tokio::select! {
            line = typed.recv() => match line {
                Some(Typed::Line(line)) => talk.typed(&line).await,
                Some(Typed::Interrupted) => talk.interrupted_line(),
                None => Next::Leave,
            },
            heard = next_of(&mut talk.stream) => match talk.heard(heard) {
                Ok(next) => next,
                Err(error) => {
                    talk.setting.terminal.leave();
                    return Err(error);
                }
            },
            Some(done) = done.recv() => talk.done(done),
            _ = interrupts.recv() => talk.interrupted(),
            _ = terminated.recv() => Next::Leave,
            _ = seconds.tick(), if talk.screen.is_counting() => {
                let out = talk.screen.tick(talk.setting.now());
                talk.setting.show(out);
                Next::GoOn
            }
        };
        if matches!(next, Next::Leave) {
            break;
        }
    }
    talk.leave().await;
    Ok(ExitCode::SUCCESS)
}

async fn next_of(stream: &mut Option<mpsc::Receiver<Heard>>) -> Heard {
    match stream {
        Some(stream) => stream.recv().await.unwrap_or(Heard::Over),
        None => std::future::pending().await,
    }
}

impl Conversation {
    /// Greets, and shows the answer that is being given, if one is.
    async fn begin(&mut self) {
        let goal = &self.setting.goal;
        let greeting = format!("{} · {} at {} · /help", goal.title, goal.id, self.setting.server.url);
        self.tell(&greeting);
        if let Some(run) = self.setting.goal.run_id.clone()
            && self.setting.server.run(&run).await.is_ok_and(|run| run.is_open())
        {
            let path = path_of(&self.setting.goal.id).unwrap_or_default();
            self.follow(format!("{path}/events?follow=true"));
        }
    }

    /// Lines from an editor, where there can be one.
    fn read_lines(&mut self) -> mpsc::Receiver<Typed> {
        if self.setting.style.edited
            && let Ok((editor, typed)) = Editor::start(&self.setting.folder.join("chat_history"))
        {
            self.setting.terminal.edited_by(editor);
            return typed;
        }
        typing::lines()
    }

    async fn typed(&mut self, line: &str) -> Next {
        self.setting.terminal.entered(line);
        let out = self.screen.entered(line);
        self.setting.show(out);
        let next = self.obey(line).await;
        if matches!(next, Next::GoOn) {
            self.setting.terminal.go_on();
        }
        next
    }

    async fn obey(&mut self, line: &str) -> Next {
        let goal = self.setting.goal.id.clone();
        match Command::read(line) {
            Command::Say(text) => {
                self.screen.posted(&text);
                self.send(Errand::Say { goal, text });
            }
            Command::Nothing => {}
            Command::Help => self.tell(HELP),
            Command::History(limit) => self.send(Errand::History { goal, limit }),
            Command::Cancel if self.screen.is_busy() => self.cancel(),
            Command::Cancel => self.tell("nothing is going on"),
            Command::New => self.begin_anew().await,
            Command::Quit => return Next::Leave,
            Command::Unknown(word) => {
                self.tell(&format!("{word} is no command: /help lists them; begin with a space to send it"));
            }
        }
        self.ask();
        Next::GoOn
    }

    fn heard(&mut self, heard: Heard) -> Result<Next, ChatError> {
        match heard {
            Heard::Event(event, json) => {
                if let Event::RunStarted { run_id } = event.as_ref() {
                    self.run = Some(run_id.clone());
                }
                let out = self.screen.event(&event, self.setting.now());
                self.setting.show_event(out, &json);
                if event.ends_run() {
                    self.cancelling = false;
                } else if self.cancelling && matches!(event.as_ref(), Event::RunStarted { .. }) {
                    self.cancel();
                }
                self.ask();
            }
            Heard::Lost(reason) => {
                self.complain(&format!("the connection is lost: {reason}; reconnecting…"));
                self.ask();
            }
            Heard::Back => {
                self.tell("connected again");
                self.ask();
            }
            // The next message opens another one.
            Heard::Over => self.stream = None,
            Heard::Failed(error) => {
                let out = self.screen.leave();
                self.setting.show(out);
                return Err(error);
            }
        }
        Ok(Next::GoOn)
    }

    fn done(&mut self, done: Done) -> Next {
        match done {
            Done::Said { goal, accepted } if goal == self.setting.goal.id => {
                if self.run.is_none() {
                    self.run = Some(accepted.run_id);
                }
                if self.stream.is_none() {
                    self.follow(format!("{}&follow=true", accepted.events_url));
                }
            }
            // The person has gone on to another goal.
            Done::Said { .. } | Done::Cancelled => {}
            Done::NotSaid { text, error } => {
                self.screen.refused(&text);
                self.complain(&format!("not sent: {error}"));
            }
            Done::History(messages) => {
                let out = self.screen.thread(&messages);
                self.setting.show(out);
            }
            Done::Failed(error) => self.complain(&error.to_string()),
        }
        self.ask();
        Next::GoOn
    }

    /// Ctrl-C while a line was edited, which is gone.
    fn interrupted_line(&mut self) -> Next {
        self.setting.terminal.entered("");
        let next = self.interrupted();
        if matches!(next, Next::GoOn) {
            self.setting.terminal.go_on();
        }
        next
    }

    /// The first Ctrl-C cancels what is going on; at the prompt, or pressed again, it leaves.
    fn interrupted(&mut self) -> Next {
        self.screen.interrupted();
        if !self.screen.is_busy() || self.cancelling {
            return Next::Leave;
        }
        self.tell("cancelling… (again to leave)");
        self.cancel();
        Next::GoOn
    }

    /// Cancels the run; one that has not been told of yet is cancelled as soon as it is.
    fn cancel(&mut self) {
        self.cancelling = true;
        if let Some(run) = self.run.clone() {
            self.send(Errand::Cancel { run });
        }
    }

    async fn begin_anew(&mut self) {
        match self.setting.server.create_goal(&self.setting.goal.user_id, super::TITLE).await {
            Ok(goal) => {
                self.setting.move_to(goal);
                self.stream = None;
                self.run = None;
                self.cancelling = false;
                self.screen = Screen::new(self.setting.style);
                let id = self.setting.goal.id.clone();
                self.tell(&format!("a new conversation: {id}"));
            }
            Err(error) => self.complain(&format!("no new conversation: {error}")),
        }
    }

    fn follow(&mut self, path: String) {
        self.stream = Some(follow(self.setting.server.clone(), path, &self.tasks));
    }

    fn send(&self, errand: Errand) {
        // Whoever does them lives as long as this.
        let _ = self.errands.send(errand);
    }

    fn ask(&mut self) {
        let out = self.screen.ask();
        self.setting.show(out);
    }

    fn tell(&mut self, text: &str) {
        let out = self.screen.tell(text);
        self.setting.show(out);
    }

    fn complain(&mut self, text: &str) {
        let out = self.screen.complain(text);
        self.setting.show(out);
    }

    /// Ends the line and sends what was typed last. What goes on goes on without its reader.
    async fn leave(mut self) {
        let out = self.screen.leave();
        self.setting.show(out);
        self.setting.terminal.leave();
        if self.screen.is_busy() {
            self.tell("the answer goes on; `houston chat` shows it");
        }
        drop((self.stream, self.errands));
        self.tasks.close();
        let _ = tokio::time::timeout(LAST_WORDS, self.tasks.wait()).await;
    }
}
