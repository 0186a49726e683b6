//! The child: `houston sandbox <task> …`.
//!
//! Its arguments come from the parent and are trusted; what it reads from its standard input is not.

mod calculation;
mod evaluation;
mod host;
mod html;
mod json;
mod pdf;
mod pipes;
mod script;
mod source;
mod stack;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use crate::protocol::{CPU_SECONDS, Message, OUTPUT, ScriptRequest, Task};
use crate::walls::{self, WallLimits};
use pipes::Pipes;

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
        let task = Task::ALL.into_iter().find(|task| task.name() == name)?;
        Some(Self { task, cpu_seconds: cpu_seconds.parse().ok()?, output: output.parse().ok()? })
    }
}

/// Bytes of stack: parsers recurse, and deep documents are not all hostile. An expression of a thousand characters needs 24 MiB
/// at most, without optimisation; one that calls itself without end shall reach the end of the stack before that of its CPU
/// time, also on a busy machine, so that the answer says what is wrong with it.
fn stack_of(task: Task) -> u64 {
    match task {
        Task::Calculation | Task::Evaluation => 32 << 20,
        Task::Check | Task::Script | Task::Html | Task::Pdf => 64 << 20,
    }
}

/// All of the child: builds the walls, does what the arguments say, and returns the exit code.
///
/// `arguments` are those after `houston sandbox`. Call it first in `main`: before a thread, a runtime or a log is started, and
/// before anything is read. `evaluate` answers a request of [`crate::Evaluators`]: a JSON value for a line.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>, evaluate: fn(&str) -> String) -> ExitCode {
    let Some(job) = Job::parse(arguments) else {
        let _ = std::io::stderr()
            .write_all(b"Houston starts its sandbox itself; there is nothing to do with it by hand\n");
        return ExitCode::from(USAGE);
    };
    let mut pipes = Pipes::open();
    // The first call looks for the clock by a system call that the walls forbid.
    evaluation::cpu_ms();
    let limits =
        WallLimits { cpu_seconds: job.cpu_seconds, address_space: ADDRESS_SPACE, stack: stack_of(job.task) };
    match walls::build(limits) {
        // What evaluates is code of this program that has no `unsafe`: it needs the limits alone, and goes on without those
        // that this machine does not have.
        Err(missing) if job.task != Task::Evaluation => {
            let _ = pipes.send(&Message::Missing(missing));
            return ExitCode::from(INCOMPLETE);
        }
        _ => {}
    }
    match run(&job, &mut pipes, evaluate) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(ABANDONED),
    }
}

fn run(job: &Job, pipes: &mut Pipes, evaluate: fn(&str) -> String) -> std::io::Result<()> {
    pipes.send(&Message::Ready)?;
    match job.task {
        Task::Check => Ok(()),
        Task::Evaluation => evaluation::answer_all(pipes, evaluate),
        Task::Script => {
            let Some(request) = pipes.value::<ScriptRequest>()? else { return Ok(()) };
            let end = script::run(&request, pipes)?;
            pipes.send(&Message::End(end))
        }
        Task::Html => {
            let converted = html::to_markdown(&pipes.rest()?);
            pipes.send(&answer(converted, job.output))
        }
        Task::Calculation => {
            let result = calculation::result(&pipes.rest()?);
            pipes.send(&answer(result, job.output))
        }
        Task::Pdf => {
            let converted = pdf::to_text(&pipes.rest()?, job.output);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<Job> {
        Job::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_all_or_nothing() {
        let job = parse(&["html", "--cpu-seconds", "6", "--output", "7"]).unwrap();
        assert_eq!((job.task, job.cpu_seconds, job.output), (Task::Html, 6, 7));
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
