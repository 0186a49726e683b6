//! The child: `houston sandbox <task> …`.
//!
//! Its arguments come from the parent and are trusted; what it reads from its standard input is not.

mod calculation;
mod host;
mod html;
mod json;
mod pdf;
mod script;
mod source;

use std::ffi::OsString;
use std::io::{self, BufRead, Read, StdinLock, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;

use crate::protocol::{CPU_SECONDS, Conversion, Message, OUTPUT, TASKS, Task};
use crate::script::Script;
use crate::walls::{self, WallLimits};

/// Exit codes: wrong arguments, a wall that is missing, a parent that is gone.
const USAGE: u8 = 2;
const INCOMPLETE: u8 = 3;
const ABANDONED: u8 = 4;

/// Bytes of address space beside an interpreter's heap: the program, its libraries and the copies of texts.
const ADDRESS_SPACE: u64 = 320 << 20;

/// What the arguments say.
struct Job {
    task: Task,
    cpu_seconds: u64,
    /// Bytes of text that a converter may answer with.
    output: usize,
}

impl Job {
    /// Reads `<task> --cpu-seconds <seconds> --output <bytes>`.
    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let words: Vec<String> =
            arguments.into_iter().map(OsString::into_string).collect::<Result<_, _>>().ok()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [name, CPU_SECONDS, cpu_seconds, OUTPUT, output] = words[..] else { return None };
        let (_, task) = TASKS.into_iter().find(|(known, _)| *known == name)?;
        Some(Self { task, cpu_seconds: cpu_seconds.parse().ok()?, output: output.parse().ok()? })
    }
}

/// Bytes of stack: parsers recurse, and deep documents are not all hostile. An expression of a thousand characters needs 24 MiB
/// at most, without optimisation; one that calls itself without end shall reach the end of the stack before that of its CPU
/// time, also on a busy machine, so that the answer says what is wrong with it.
fn stack_of(task: Task) -> u64 {
    match task {
        Task::Convert(Conversion::Calculation) | Task::Evaluation => 32 << 20,
        Task::Check | Task::Script | Task::Convert(_) => 64 << 20,
    }
}

/// All of the child: builds the walls, does what the arguments say, and returns the exit code.
///
/// `arguments` are those after `houston sandbox`. Call it first in `main`: before a thread, a runtime or a log is started, and
/// before anything is read. `evaluate` answers a request of [`crate::Evaluators`]: a JSON value for a line.
pub fn main(arguments: impl IntoIterator<Item = OsString>, evaluate: fn(&str) -> String) -> ExitCode {
    let Some(job) = Job::parse(arguments) else {
        let _ = io::stderr()
            .write_all(b"Houston starts its sandbox itself; there is nothing to do with it by hand\n");
        return ExitCode::from(USAGE);
    };
    let mut pipes = Pipes::open();
    // The first call looks for the clock by a system call that the walls forbid.
    cpu_ms();
    let limits =
        WallLimits { cpu_seconds: job.cpu_seconds, address_space: ADDRESS_SPACE, stack: stack_of(job.task) };
    // What evaluates is code of this program that has no `unsafe`: it needs the limits alone, and goes on without those that
    // this machine does not have.
    if let Err(missing) = walls::build(limits)
        && job.task != Task::Evaluation
    {
        let _ = pipes.send(&Message::Missing(missing));
        return ExitCode::from(INCOMPLETE);
    }
    match run(&job, &mut pipes, evaluate) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(ABANDONED),
    }
}

fn run(job: &Job, pipes: &mut Pipes, evaluate: fn(&str) -> String) -> io::Result<()> {
    pipes.send(&Message::Ready)?;
    match job.task {
        Task::Check => Ok(()),
        Task::Evaluation => answer_all(pipes, evaluate),
        Task::Script => {
            let Some(line) = pipes.line()? else { return Ok(()) };
            let script: Script = serde_json::from_str(&line)?;
            let end = script::run(&script, pipes)?;
            pipes.send(&Message::End(end))
        }
        Task::Convert(conversion) => {
            let document = pipes.rest()?;
            let converted = match conversion {
                Conversion::HtmlToMarkdown => html::to_markdown(&document),
                Conversion::PdfToText => pdf::to_text(&document, job.output),
                Conversion::Calculation => calculation::result(&document),
            };
            pipes.send(&answer(converted, job.output))
        }
    }
}

fn answer(converted: Result<String, String>, output: usize) -> Message {
    match converted {
        Ok(mut text) => {
            let cut = text.len() > output;
            text.truncate(text.floor_char_boundary(output));
            Message::Text { text, cut }
        }
        Err(error) => Message::Unreadable(error),
    }
}

/// Standard input and output of a child, the pipes to its parent: one JSON value per line.
struct Pipes {
    input: StdinLock<'static>,
}

impl Pipes {
    /// Opens the pipes. Nothing is read.
    fn open() -> Self {
        Self { input: io::stdin().lock() }
    }

    /// Writes a message.
    ///
    /// # Errors
    ///
    /// The parent is gone.
    fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut output = io::stdout().lock();
        output.write_all(&line)?;
        output.flush()
    }

    /// Reads one line; `None` when the parent has closed the pipe.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok((self.input.read_line(&mut line)? > 0).then_some(line))
    }

    /// Reads to the end.
    fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.input.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Answers evaluations: requests of one line each, until the parent closes the pipe.
fn answer_all(pipes: &mut Pipes, evaluate: fn(&str) -> String) -> io::Result<()> {
    while let Some(request) = pipes.line()? {
        let answer = RawValue::from_string(evaluate(&request))?;
        pipes.send(&Message::Evaluated { answer, cpu_ms: cpu_ms() })?;
    }
    Ok(())
}

/// Milliseconds of CPU time that this process has used.
#[cfg(target_os = "linux")]
fn cpu_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let used: std::time::Duration = clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default();
    u64::try_from(used.as_millis()).unwrap_or(u64::MAX)
}

/// Elsewhere each child answers once.
#[cfg(not(target_os = "linux"))]
fn cpu_ms() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<Job> {
        Job::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_all_or_nothing() {
        let job = parse(&["html", "--cpu-seconds", "6", "--output", "7"]).unwrap();
        assert_eq!(
            (job.task, job.cpu_seconds, job.output),
            (Task::Convert(Conversion::HtmlToMarkdown), 6, 7)
        );
        for wrong in [
            &[][..],
            &["script"],
            &["shell", "--cpu-seconds", "6", "--output", "7"],
            &["html", "6", "7"],
            &["html", "--cpu-seconds", "x", "--output", "7"],
            &["html", "--cpu-seconds", "6", "--output"],
            &["html", "--cpu-seconds", "6", "--output", "7", "8"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
