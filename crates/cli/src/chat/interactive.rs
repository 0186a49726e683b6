//! `houston chat` at a terminal: handles lines, events and signals as they arrive.

use std::process::ExitCode;
use std::time::Duration;

use houston_domain::id::RunId;
use houston_domain::image::with_references;
use houston_protocol::agui::Event;
use houston_protocol::problem::ProblemCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::approvals::{Approvals, Typed, asked};
use super::command::{Command, HELP};
use super::editor::{Editor, Input};
use super::error::{ChatError, Result};
use super::follow::{StreamEvent, follow};
use super::request::{self, Request, Response};
use super::screen::Screen;
use super::server::path_of;
use super::{ChatContext, command, editor};

/// How long the last requests may take when the user leaves.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of [`run`].
struct InteractiveChat {
    context: ChatContext,
    tasks: TaskTracker,
    screen: Screen,
    stream: Option<mpsc::Receiver<StreamEvent>>,
    requests: mpsc::UnboundedSender<Request>,
    /// The open run, or the latest one.
    run: Option<RunId>,
    cancelling: bool,
    approvals: Approvals,
}

/// What the loop does after an event.
enum Next {
    Continue,
    Exit,
}

/// Runs the chat until the user leaves.
///
/// # Errors
/// The [`ChatError`] with which the stream ended.
pub(super) async fn run(context: ChatContext) -> Result<ExitCode> {
    let tasks = TaskTracker::new();
    let (requests, mut responses) = request::start(context.server.clone(), context.ids.clone(), &tasks);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(ChatError::signals)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(ChatError::signals)?;
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let screen = Screen::new(context.style);
    let mut chat = InteractiveChat {
        context,
        tasks,
        screen,
        stream: None,
        requests,
        run: None,
        cancelling: false,
        approvals: Approvals::default(),
    };
    chat.greet().await;
    let mut lines = chat.read_lines();
    chat.prompt();
    loop {
        let next = tokio::select! {
            typed = lines.recv() => match typed {
                Some(typed) => chat.on_typed(typed).await,
                None => Next::Exit,
            },
            event = next_event(&mut chat.stream) => match chat.on_stream_event(event) {
                Ok(next) => next,
                Err(error) => {
                    chat.context.terminal.leave();
                    return Err(error);
                }
            },
            Some(response) = responses.recv() => chat.on_response(response),
            _ = interrupts.recv() => chat.on_interrupt(),
            _ = terminated.recv() => Next::Exit,
            _ = seconds.tick(), if chat.screen.is_counting() => {
                chat.context.show(chat.screen.tick(chat.context.now()));
                Next::Continue
            }
        };
        if matches!(next, Next::Exit) {
            break;
        }
    }
    chat.leave().await;
    Ok(ExitCode::SUCCESS)
}

async fn next_event(stream: &mut Option<mpsc::Receiver<StreamEvent>>) -> StreamEvent {
    match stream {
        Some(stream) => stream.recv().await.unwrap_or(StreamEvent::Ended),
        None => std::future::pending().await,
    }
}

impl InteractiveChat {
    /// Greets the user, and follows the open run if there is one.
    async fn greet(&mut self) {
        let goal = &self.context.goal;
        let greeting = format!("{} · {} at {} · /help", goal.title, goal.id, self.context.server.url);
        self.info(&greeting);
        if let Some(run) = self.context.goal.run_id
            && self.context.server.run(run).await.is_ok_and(|run| !run.status.is_terminal())
        {
            let path = path_of(&self.context.goal.id).unwrap_or_default();
            self.follow(format!("{path}/events?follow=true"));
        }
    }

    /// Reads lines with an editor, or from stdin where no editor can run.
    fn read_lines(&mut self) -> mpsc::Receiver<Input> {
        if self.context.style.edited
            && let Ok((editor, typed)) = Editor::start(&self.context.folder.join("chat_history"))
        {
            self.context.terminal.editor = Some(editor);
            return typed;
        }
        editor::input_lines()
    }

    /// The terminal's editor goes on with the next line afterwards.
    async fn on_typed(&mut self, typed: Input) -> Next {
        let next = match typed {
            Input::Line(line) => {
                self.context.terminal.entered(&line);
                self.context.show(self.screen.entered(&line));
                self.execute(&line).await
            }
            Input::Interrupted => {
                self.context.terminal.entered("");
                self.on_interrupt()
            }
        };
        if matches!(next, Next::Continue) {
            self.context.terminal.resume();
        }
        next
    }

    async fn execute(&mut self, line: &str) -> Next {
        let goal = self.context.goal.id.clone();
        match self.approvals.read(line) {
            Typed::Decision(question, answer) => self.send(Request::Answer(question, answer)),
            Typed::Wrong(why) => self.info(&why),
            Typed::Other => match Command::read(line) {
                Command::Post(text) => {
                    self.screen.posted(&text);
                    self.send(Request::Post { goal, text, images: Vec::new() });
                }
                Command::Image { path, text } => self.post_image(goal, &path, text),
                Command::Empty => {}
                Command::Help => self.info(HELP),
                Command::History(limit) => self.send(Request::History { goal, limit }),
                Command::Cancel if self.screen.is_busy() => self.cancel(),
                Command::Cancel => self.info("no run is open"),
                Command::New => self.start_new_goal().await,
                Command::Quit => return Next::Exit,
                Command::Unknown(word) => {
                    self.info(&format!(
                        "there is no command {word}: /help lists them; begin with a space to send it"
                    ));
                }
            },
        }
        self.prompt();
        Next::Continue
    }

    fn on_stream_event(&mut self, event: StreamEvent) -> Result<Next> {
        match event {
            StreamEvent::Event(event, json) => {
                if let Event::RunStarted { run_id, .. } = event.as_ref() {
                    self.run = Some(*run_id);
                }
                if let Event::Custom { fact, .. } = event.as_ref() {
                    self.approvals.on_fact(fact);
                }
                self.context.show_event(self.screen.event(&event, self.context.now()), &json);
                for plan in self.screen.take_asking() {
                    self.send(Request::Questions(plan));
                }
                if event.ends_run() {
                    self.cancelling = false;
                } else if self.cancelling && matches!(event.as_ref(), Event::RunStarted { .. }) {
                    self.cancel();
                }
                self.prompt();
            }
            StreamEvent::Disconnected(reason) => {
                self.error(&format!("connection lost: {reason}; reconnecting…"));
                self.prompt();
            }
            StreamEvent::Reconnected => {
                self.info("reconnected");
                self.prompt();
            }
            // The next message opens another stream.
            StreamEvent::Ended => self.stream = None,
            StreamEvent::Failed(error) => {
                self.context.show(self.screen.leave());
                return Err(error);
            }
        }
        Ok(Next::Continue)
    }

    fn on_response(&mut self, response: Response) -> Next {
        match response {
            Response::Posted { goal, accepted } if goal == self.context.goal.id => {
                if self.run.is_none() {
                    self.run = accepted.message.run_id;
                }
                if self.stream.is_none() {
                    self.follow(format!("{}&follow=true", accepted.events_url));
                }
            }
            // The user has switched to another goal.
            Response::Posted { .. } | Response::Done => {}
            Response::PostFailed { text, error } => {
                self.screen.refused(&text);
                self.error(&format!("not sent: {error}"));
            }
            Response::AnswerFailed { question, error } => {
                // A question that is closed is not asked again; the stream says what closed it.
                if !matches!(error, ChatError::Refused { code: ProblemCode::QuestionClosed, .. }) {
                    self.approvals.refused(question);
                }
                self.error(&error.to_string());
            }
            Response::Questions(questions) => {
                for fact in questions.iter().map(asked) {
                    self.approvals.on_fact(&fact);
                    self.context.show(
                        self.screen.event(&Event::Custom { timestamp: None, fact }, self.context.now()),
                    );
                }
            }
            Response::History(messages) => self.context.show(self.screen.thread(&messages)),
            Response::Failed(error) => self.error(&error.to_string()),
        }
        self.prompt();
        Next::Continue
    }

    fn post_image(&mut self, goal: String, path: &str, text: String) {
        match command::read_image(path.as_ref(), self.context.goal.user_id) {
            Ok((posted, id)) => {
                self.screen.posted(&with_references(&text, [id]));
                self.send(Request::Post { goal, text, images: vec![posted] });
            }
            Err(error) => self.error(&error.to_string()),
        }
    }

    /// The first Ctrl-C cancels the open run; at the prompt, or pressed again, Ctrl-C leaves.
    fn on_interrupt(&mut self) -> Next {
        self.screen.interrupted();
        if !self.screen.is_busy() || self.cancelling {
            return Next::Exit;
        }
        self.info("cancelling… (again to leave)");
        self.cancel();
        Next::Continue
    }

    /// Cancels the open run. If its id has not arrived yet, cancels the run when it starts.
    fn cancel(&mut self) {
        self.cancelling = true;
        if let Some(run) = self.run {
            self.send(Request::Cancel(run));
        }
    }

    async fn start_new_goal(&mut self) {
        match self.context.server.create_goal(self.context.goal.user_id, super::TITLE).await {
            Ok(goal) => {
                self.context.goal = goal;
                self.context.save_goal();
                self.stream = None;
                self.run = None;
                self.cancelling = false;
                self.approvals = Approvals::default();
                self.screen = Screen::new(self.context.style);
                let id = self.context.goal.id.clone();
                self.info(&format!("new conversation: {id}"));
            }
            Err(error) => self.error(&format!("no new conversation was created: {error}")),
        }
    }

    fn follow(&mut self, path: String) {
        self.stream = Some(follow(self.context.server.clone(), path, &self.tasks));
    }

    fn send(&self, request: Request) {
        // The receiver lives as long as this.
        let _ = self.requests.send(request);
    }

    fn prompt(&mut self) {
        self.context.show(self.screen.prompt());
    }

    fn info(&mut self, text: &str) {
        self.context.show(self.screen.info(text));
    }

    fn error(&mut self, text: &str) {
        self.context.show(self.screen.error(text));
    }

    /// Ends the line and waits for the last requests. The open run goes on without the chat.
    async fn leave(mut self) {
        self.context.show(self.screen.leave());
        self.context.terminal.leave();
        if self.screen.is_busy() {
            self.info("the answer goes on; `houston chat` shows it");
        }
        drop((self.stream, self.requests));
        self.tasks.close();
        let _ = tokio::time::timeout(EXIT_TIMEOUT, self.tasks.wait()).await;
    }
}
