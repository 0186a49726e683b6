//! [`Sandbox`]: starts a child for each run, and speaks the protocol with it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::outcome::{Error, Fault, Outcome, Run, hint};
use crate::process::{Allowance, Child, Death, Program, Read};
use crate::protocol::{Asked, CUT, Conversion, End, EndResult, Message, Task};
use crate::script::{Answer, Call, Host, Limits, MAX_CODE, Script};

/// CPU time of a converter, and how long it may take on a machine that does much else.
const CONVERSION_CPU: Duration = Duration::from_secs(2);
const CONVERSION_TIME: Duration = Duration::from_secs(10);
/// How long a child may take to build its walls.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// How much longer than its limit of CPU time a script may take on a machine that does much else: a child has a tenth of a
/// core beside a process that uses it up.
const BUSY: u32 = 6;
/// Time besides, for a script with a low limit: if it is killed and not stopped, what it has written is lost.
const SPARE_TIME: Duration = Duration::from_secs(5);
/// CPU time of a script beyond its limit: the kernel stops only what its parent does not.
const SPARE_CPU: Duration = Duration::from_secs(2);
/// JSON may write one byte as six.
const ESCAPED: usize = 6;
/// Bytes of a line beside what its limits count.
const FRAME: usize = 64 << 10;
/// Bytes of a line of the console beside what its limit counts: `warning: ` and the end.
const FRAME_OF_LINE: usize = 10;
/// Bytes of an error's message.
const MAX_MESSAGE: usize = 8000;
/// Bytes of the answers to one line of calls.
const MAX_ANSWERS: usize = 16 << 20;

/// Runs scripts and converts documents, each in a child of its own. Clones share the limit of children.
#[derive(Debug, Clone)]
pub struct Sandbox {
    program: Program,
    most: usize,
    children: Arc<Semaphore>,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Converted {
    Text {
        text: String,
        /// Whether there was more.
        cut: bool,
    },
    /// It cannot be converted, for this reason, in words for a model.
    Unreadable(String),
}

impl Sandbox {
    /// A sandbox that has at most `children` at once; further runs wait. A script's child has 5 to 75 MB of memory, a
    /// converter's up to 300 MB if its document is hostile. A script keeps its child while it waits for a tool: do not
    /// offer a tool that needs the same sandbox, but run the script in one [`Self::apart`].
    pub fn new(program: Program, children: usize) -> Self {
        let most = children.clamp(1, Semaphore::MAX_PERMITS);
        Self { program, most, children: Arc::new(Semaphore::new(most)) }
    }

    /// Another sandbox with as many children of its own: for scripts whose tools use this one.
    pub fn apart(&self) -> Self {
        Self { children: Arc::new(Semaphore::new(self.most)), ..self.clone() }
    }

    /// Whether this machine can build all walls: starts a child that does.
    ///
    /// # Errors
    ///
    /// [`Error::Incomplete`] with what is missing; [`Error::Start`] or [`Error::NotASandbox`] if the program is not what it
    /// should be.
    pub async fn check(&self) -> Result<(), Error> {
        let allowance = Allowance { cpu: CHECK_TIME, time: CHECK_TIME, output: 0, line: FRAME };
        let mut child = ready(Child::start(&self.program, Task::Check, allowance)?).await?;
        child.kill().await;
        Ok(())
    }

    /// Runs a script, whose calls `host` answers. Dropping the future kills the child.
    ///
    /// # Errors
    ///
    /// Nothing was run, or `host` stopped it, or the child did what no script can make it do: see [`Error`]. What the script did
    /// wrong is in the outcome.
    pub async fn run(&self, script: &Script, host: &mut impl Host) -> Result<Run, Error> {
        let characters = script.code.chars().count();
        if characters > MAX_CODE {
            let reason = format!("The code has {characters} characters, and {MAX_CODE} are allowed.");
            let outcome = Outcome::Invalid(Fault::new(reason));
            return Ok(Run { outcome, console: String::new(), calls: 0 });
        }
        let _permit = self.children.acquire().await;
        let limits = script.limits.clamped();
        // A line has the result and the console, or the calls of one round.
        let line = ESCAPED * limits.console + limits.output.saturating_mul(4) + FRAME;
        let allowance = Allowance {
            cpu: limits.time + SPARE_CPU,
            time: limits.time * BUSY + SPARE_TIME,
            output: 0,
            line,
        };
        let mut child = Child::start(&self.program, Task::Script, allowance)?;
        let mut line = serde_json::to_vec(&Script { limits, ..script.clone() }).unwrap_or_default();
        line.push(b'\n');
        child.write(&line).await;
        let mut child = ready(child).await?;
        let mut session = Session { script, limits, calls: 0 };
        let ended = session.converse(&mut child, host).await;
        child.kill().await;
        let (outcome, console) = ended?;
        Ok(Run { outcome, console, calls: session.calls })
    }

    /// Converts a document to at most `output` bytes of text, within 2 s of CPU time.
    ///
    /// # Errors
    ///
    /// As for [`Self::run`].
    pub async fn convert(
        &self,
        conversion: Conversion,
        document: &[u8],
        output: usize,
    ) -> Result<Converted, Error> {
        let _permit = self.children.acquire().await;
        let line = output.saturating_mul(ESCAPED).saturating_add(FRAME);
        let allowance = Allowance { cpu: CONVERSION_CPU, time: CONVERSION_TIME, output, line };
        let task = Task::Convert(conversion);
        let mut child = ready(Child::start(&self.program, task, allowance)?).await?;
        child.write(document).await;
        child.close_input();
        let read = child.message().await?;
        child.kill().await;
        let noun = match conversion {
            Conversion::HtmlToMarkdown | Conversion::PdfToText => "document",
            Conversion::Calculation => "expression",
        };
        Ok(Converted::Unreadable(match read {
            Read::Message(Message::Text { text, .. }) if text.len() > output => {
                return Err(Error::Protocol("the text is longer than it may be".to_owned()));
            }
            Read::Message(Message::Text { text, cut }) => return Ok(Converted::Text { text, cut }),
            Read::Message(Message::Unreadable(reason)) => reason,
            Read::Message(_) => return Err(Error::Protocol("a converter sent another message".to_owned())),
            Read::TimedOut | Read::End(Death::OutOfTime) => format!("the {noun} takes too long"),
            Read::End(Death::Signal(_)) => format!("the {noun} is nested too deeply or is too large"),
            Read::End(Death::Code(_)) => format!("the {noun} is damaged"),
        }))
    }
}

/// Waits for the first message.
pub(crate) async fn ready(mut child: Child) -> Result<Child, Error> {
    match child.message().await? {
        Read::Message(Message::Ready) => {
            child.begin();
            Ok(child)
        }
        Read::Message(Message::Missing(missing)) => Err(Error::Incomplete(missing)),
        Read::Message(_) => Err(Error::Protocol("the first message is another".to_owned())),
        Read::TimedOut => Err(Error::NotASandbox("it says nothing".to_owned())),
        Read::End(death) => Err(Error::NotASandbox(match death {
            Death::OutOfTime => "it ran out of CPU time".to_owned(),
            Death::Signal(signal) => format!("it was ended by signal {signal}"),
            Death::Code(code) => format!("it ended with code {code}"),
        })),
    }
}

/// The conversation about one script.
struct Session<'a> {
    script: &'a Script,
    limits: Limits,
    calls: usize,
}

impl Session<'_> {
    /// Answers calls until the child ends.
    async fn converse(
        &mut self,
        child: &mut Child,
        host: &mut impl Host,
    ) -> Result<(Outcome, String), Error> {
        let silent = |outcome| Ok((outcome, String::new()));
        loop {
            match child.message().await? {
                Read::Message(Message::Calls(asked)) => {
                    let calls = self.calls(asked)?;
                    let count = calls.len();
                    let answers = host.answer(calls).await.map_err(Error::Stopped)?;
                    if answers.len() != count {
                        let reason = format!("{count} calls were made and {} answered", answers.len());
                        return Err(Error::Stopped(reason));
                    }
                    child.write(&answered(&answers)?).await;
                }
                Read::Message(Message::End(end)) => return self.outcome(end),
                Read::Message(_) => return Err(Error::Protocol("a message out of turn".to_owned())),
                Read::TimedOut | Read::End(Death::OutOfTime) => {
                    return silent(Outcome::TimedOut(self.limits.time));
                }
                Read::End(Death::Signal(signal)) => return silent(Outcome::Died { signal: Some(signal) }),
                Read::End(Death::Code(_)) => return silent(Outcome::Died { signal: None }),
            }
        }
    }

    /// Checks the calls that a child asks for: its own checks may have been overcome.
    fn calls(&mut self, asked: Vec<Asked>) -> Result<Vec<Call>, Error> {
        if asked.is_empty() || self.calls + asked.len() > self.limits.calls {
            return Err(Error::Protocol("a number of calls that it may not make".to_owned()));
        }
        let mut calls = Vec::with_capacity(asked.len());
        for Asked { tool, input } in asked {
            self.calls += 1;
            if !self.script.tools.contains(&tool) || input.get().len() > self.limits.output {
                return Err(Error::Protocol("a call that was not offered".to_owned()));
            }
            let input = serde_json::from_str(input.get())
                .map_err(|error| Error::Protocol(format!("an input is no JSON: {error}")))?;
            calls.push(Call { number: self.calls, tool, input });
        }
        Ok(calls)
    }

    fn outcome(&self, end: End) -> Result<(Outcome, String), Error> {
        let limits = self.limits;
        let lines = end.console.matches('\n').count();
        // Each line costs at least a byte of the limit, so there are no more of them than that.
        if end.console.len() > limits.console + FRAME_OF_LINE * lines.min(limits.console) + CUT.len() {
            return Err(Error::Protocol("more console than it may have".to_owned()));
        }
        let outcome = match end.result {
            EndResult::Value(value) if value.get().len() > limits.output => {
                return Err(Error::Protocol("a result that is too large".to_owned()));
            }
            EndResult::Value(value) => Outcome::Value(
                serde_json::from_str::<Value>(value.get())
                    .map_err(|error| Error::Protocol(format!("the result is no JSON: {error}")))?,
            ),
            EndResult::Thrown(fault) => Outcome::Thrown(with_hint(fault)),
            EndResult::Invalid(fault) => Outcome::Invalid(with_hint(fault)),
            EndResult::TimedOut => Outcome::TimedOut(limits.time),
            EndResult::OutOfMemory => Outcome::OutOfMemory(limits.memory),
            EndResult::TooLarge(bytes) => Outcome::TooLarge { bytes, limit: limits.output },
            EndResult::Stuck => Outcome::Stuck,
        };
        Ok((outcome, end.console))
    }
}

/// The fault with our hint, and never with one that the child wrote.
fn with_hint(mut fault: Fault) -> Fault {
    fault.message.truncate(fault.message.floor_char_boundary(MAX_MESSAGE));
    Fault { hint: hint(&fault.message), ..fault }
}

/// The line with the answers.
fn answered(answers: &[Answer]) -> Result<Vec<u8>, Error> {
    let answers: Vec<_> =
        answers.iter().map(|answer| (answer.as_ref().ok(), answer.as_ref().err())).collect();
    let mut line = serde_json::to_vec(&answers).map_err(|error| Error::Stopped(error.to_string()))?;
    if line.len() > MAX_ANSWERS {
        return Err(Error::Stopped(format!("the answers have more than {MAX_ANSWERS} bytes")));
    }
    line.push(b'\n');
    Ok(line)
}
