//! Runs one script in QuickJS.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Object, Runtime, Value};

use super::host::{self, Collected, Shared};
use super::{Pipes, cpu_ms, source};
use crate::outcome::Fault;
use crate::protocol::{Asked, CUT, End, EndResult, Message};
use crate::script::{Language, Script};

const PRELUDE: &str = include_str!("prelude.js");
/// Bytes of stack for the interpreter; the process has more.
const STACK: usize = 2 << 20;
/// Bytes of a call in the protocol beside its name and input.
const CALL_FRAME: usize = 32;

/// How much processor time this process may have used when a script is stopped.
struct Deadline {
    cpu_ms: u64,
    passed: Cell<bool>,
}

impl Deadline {
    fn passed(&self) -> bool {
        if cpu_ms() >= self.cpu_ms {
            self.passed.set(true);
        }
        self.passed.get()
    }
}

/// What ends the loop besides the script itself.
enum Stop {
    /// QuickJS failed; an exception waits in the context.
    Failed(rquickjs::Error),
    /// The parent is gone.
    Abandoned(io::Error),
}

impl From<rquickjs::Error> for Stop {
    fn from(error: rquickjs::Error) -> Self {
        Self::Failed(error)
    }
}

/// Runs the script to its end.
///
/// # Errors
///
/// The parent is gone.
pub(super) fn run(script: &Script, pipes: &mut Pipes) -> io::Result<End> {
    let lines = match script.language {
        Language::JavaScript => u32::try_from(script.code.lines().count()).unwrap_or(u32::MAX),
        Language::TypeScript => 0,
    };
    let shared = Rc::new(RefCell::new(Collected {
        console: String::new(),
        console_left: script.limits.console,
        console_cut: false,
        asked: Vec::new(),
        calls_left: script.limits.calls,
        output: script.limits.output,
        lines,
        result: None,
        unhandled: 0,
    }));
    let result = match source::prepare(&script.code, script.language) {
        Err(fault) => EndResult::Invalid(fault),
        Ok(source) => interpret(script, source, &shared, pipes)?,
    };
    let mut collected = shared.borrow_mut();
    if matches!(result, EndResult::Value(_)) {
        collected.report_unhandled();
    }
    let mut console = std::mem::take(&mut collected.console);
    if collected.console_cut {
        console.push_str(CUT);
    }
    Ok(End { result, console })
}

fn interpret(script: &Script, source: String, shared: &Shared, pipes: &mut Pipes) -> io::Result<EndResult> {
    let time_ms = u64::try_from(script.limits.time.as_millis()).unwrap_or(u64::MAX);
    let deadline = Rc::new(Deadline { cpu_ms: cpu_ms().saturating_add(time_ms), passed: Cell::new(false) });
    let Ok((runtime, context)) = interpreter(script.limits.memory, &deadline) else {
        return Ok(EndResult::OutOfMemory);
    };
    let rejections = Rc::clone(shared);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, _, is_handled| {
        rejections.borrow_mut().rejected(is_handled);
    })));
    let result = context.with(|ctx| match drive(&ctx, script, source, shared, &deadline, pipes) {
        Ok(result) => Ok(result),
        Err(Stop::Abandoned(error)) => Err(error),
        Err(Stop::Failed(_)) if deadline.passed.get() => Ok(EndResult::TimedOut),
        Err(Stop::Failed(error)) => Ok(failure(&ctx, error, shared.borrow().lines)),
    });
    // The heap goes with the process.
    std::mem::forget(context);
    std::mem::forget(runtime);
    result
}

fn interpreter(memory: usize, deadline: &Rc<Deadline>) -> rquickjs::Result<(Runtime, Context)> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(memory);
    runtime.set_max_stack_size(STACK);
    let deadline = Rc::clone(deadline);
    runtime.set_interrupt_handler(Some(Box::new(move || deadline.passed())));
    // Without weak references, whose state depends on the garbage collector, and without the real clock of `Performance`.
    let context = Context::builder()
        .with::<intrinsic::Date>()
        .with::<intrinsic::Eval>()
        .with::<intrinsic::RegExpCompiler>()
        .with::<intrinsic::RegExp>()
        .with::<intrinsic::Json>()
        .with::<intrinsic::Proxy>()
        .with::<intrinsic::MapSet>()
        .with::<intrinsic::TypedArrays>()
        .with::<intrinsic::Promise>()
        .build(&runtime)?;
    Ok((runtime, context))
}

/// What the prelude returns.
struct Guest<'js> {
    run: Function<'js>,
    give: Function<'js>,
    tick: Function<'js>,
}

impl<'js> Guest<'js> {
    fn new(ctx: &Ctx<'js>, script: &Script, shared: &Shared) -> rquickjs::Result<Self> {
        let prelude: Function = eval(ctx, PRELUDE, "prelude.js")?;
        let host = host::functions(ctx, shared)?;
        let seed = script.seed.to_le_bytes();
        let word = |at: usize| i32::from_le_bytes([seed[at], seed[at + 1], seed[at + 2], seed[at + 3]]);
        let now = script.now_ms as f64;
        let arguments =
            (host, script.tools.clone(), now, word(0), word(4), script.limits.console.max(1) as u32);
        let guest: Object = prelude.call(arguments)?;
        Ok(Self { run: guest.get("run")?, give: guest.get("give")?, tick: guest.get("tick")? })
    }
}

fn eval<'js, V: rquickjs::FromJs<'js>>(
    ctx: &Ctx<'js>,
    source: impl Into<Vec<u8>>,
    name: &str,
) -> rquickjs::Result<V> {
    let mut options = EvalOptions::default();
    options.strict = true;
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}

/// Runs jobs, asks for calls and fires timers until the script has ended and nothing it began is left.
fn drive<'js>(
    ctx: &Ctx<'js>,
    script: &Script,
    source: String,
    shared: &Shared,
    deadline: &Deadline,
    pipes: &mut Pipes,
) -> Result<EndResult, Stop> {
    let guest = Guest::new(ctx, script, shared)?;
    let promise: Value = match eval(ctx, source, FILE) {
        Ok(promise) => promise,
        Err(_) if deadline.passed.get() => return Ok(EndResult::TimedOut),
        // The function around the code runs nothing: what is thrown here is about its syntax.
        Err(error) => {
            return Ok(match failure(ctx, error, shared.borrow().lines) {
                EndResult::Thrown(fault) => EndResult::Invalid(fault),
                other => other,
            });
        }
    };
    guest.run.call::<_, ()>((promise,))?;
    loop {
        while !deadline.passed() && ctx.execute_pending_job() {}
        if deadline.passed() {
            return Ok(EndResult::TimedOut);
        }
        let asked = next_calls(shared);
        if !asked.is_empty() {
            pipes.send(&Message::Calls(asked)).map_err(Stop::Abandoned)?;
            let answers = pipes.line().map_err(Stop::Abandoned)?;
            let answers = answers.ok_or_else(|| Stop::Abandoned(io::ErrorKind::UnexpectedEof.into()))?;
            guest.give.call::<_, ()>((answers,))?;
            continue;
        }
        // Calls that the script did not wait for have been made by now.
        if let Some(result) = shared.borrow_mut().result.take() {
            return Ok(result);
        }
        if !guest.tick.call::<_, bool>(())? {
            return Ok(EndResult::Stuck);
        }
    }
}

/// The next calls that fit into one line; the others follow after their answers.
fn next_calls(shared: &Shared) -> Vec<Asked> {
    let mut collected = shared.borrow_mut();
    let (most, mut bytes) = (2 * collected.output, 0);
    let fits = |call: &&Asked| {
        bytes += call.tool.len() + call.input.get().len() + CALL_FRAME;
        bytes <= most
    };
    let count = collected.asked.iter().take_while(fits).count().max(1).min(collected.asked.len());
    collected.asked.drain(..count).collect()
}

/// The result for an error of QuickJS.
fn failure(ctx: &Ctx<'_>, error: rquickjs::Error, lines: u32) -> EndResult {
    match Err::<(), _>(error).catch(ctx) {
        Err(CaughtError::Exception(exception)) => {
            let name = exception.as_object().get::<_, String>("name").unwrap_or_default();
            let message = exception.message().unwrap_or_default();
            let stack = exception.stack().unwrap_or_default();
            host::fault(&name, &message, &stack, lines)
        }
        // `null` when not even an error fits into the memory.
        Err(CaughtError::Value(_)) => EndResult::OutOfMemory,
        Err(CaughtError::Error(error)) => EndResult::Thrown(Fault::new(error.to_string())),
        Ok(()) => EndResult::OutOfMemory,
    }
}

/// The name of the script in stacks.
pub(super) const FILE: &str = "code.js";

/// Line and column of the innermost place of a stack in a script of so many lines, counted from 1 in the code as it was given.
pub(super) fn position(stack: &str, lines: u32) -> Option<(u32, u32)> {
    stack.lines().find_map(|line| {
        let (_, position) = line.split_once(FILE)?;
        let mut numbers = position.split(|letter: char| !letter.is_ascii_digit()).filter(|n| !n.is_empty());
        let (line, column): (u32, u32) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        // Around the code is a function, whose head is one line.
        let line = line.checked_sub(1)?;
        (1..=lines).contains(&line).then_some((line, column))
    })
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn position_is_that_of_the_given_code() {
        let position = |stack| position(stack, 5);
        assert_eq!(position("    at f (native)\n    at g (code.js:4:7)\n    at code.js:2:1\n"), Some((3, 7)));
        assert_eq!(position("    at code.js:2:13\n"), Some((1, 13)));
        assert_eq!(position("    at prelude.js:2:13\n"), None);
        assert_eq!(position("    at code.js:7:1\n    at code.js:1:1\n"), None, "that is around the code");
    }
}
