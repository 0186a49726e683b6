//! Runs JavaScript and TypeScript that a model wrote, and converts HTML and PDF, in a child process that can reach nothing.
//!
//! A parser or an interpreter that is given hostile input does not fail a call, it ends the process: a stack overflow is
//! an abort. So all of them run in a child. The child is this same program, started as `houston sandbox …`
//! ([`child::main`]), and takes every right from itself before it reads a byte.
//!
//! ```no_run
//! # async fn example() -> Result<(), houston_sandbox::Error> {
//! use houston_sandbox::{NoTools, Program, Sandbox, Script};
//!
//! let sandbox = Sandbox::new(Program::this(), 8);
//! let run = sandbox.run(&Script::new("return [1, 2, 3].map((n) => n * n)"), &mut NoTools).await?;
//! assert_eq!(run.outcome.text(), "[1,4,9]");
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - **Whole or not at all.** A child that cannot build all of its walls ends before it reads its input, and the caller
//!   gets [`Error::Incomplete`] with what the machine lacks. Nothing runs with fewer walls. [`Sandbox::check`] asks
//!   beforehand.
//! - **The parent trusts nothing the child writes.** Lines, values, numbers of calls and the whole output are bounded, a
//!   call of a tool that was not offered is refused, and a child that goes on after its limits is killed.
//! - **The same script, clock, seed and answers give the same calls in the same order**, so that a script can be run again
//!   after a crash with its recorded answers. The clock of a script moves only to timers that are due, random numbers come
//!   from the seed, answers are delivered in the order of the calls.
//! - **No `unsafe`.** The child restricts itself after `exec`, so nothing is done between `fork` and `exec`.
//!
//! # The walls
//!
//! | wall | against |
//! |---|---|
//! | empty environment but `TZ=UTC`, cwd `/`, own process group | inherited secrets, signals of the terminal |
//! | resource limits: CPU time, address space, no file, process or core dump | loops and bombs when the parent is dead |
//! | `no_new_privs`, not dumpable | set-user-ID programs, `ptrace` by others |
//! | Landlock, all rights handled and none given | files, TCP, signals, abstract sockets |
//! | seccomp: 25 system calls; `read` of descriptor 0 and `write` of 1 and 2 only; no executable memory | all others |
//! | QuickJS: 64 MiB, a time limit, no modules, no clock, no network | what a script can name |
//!
//! # Evaluations
//!
//! [`Evaluators`] are children that answer many requests, for engines of this program that are written without `unsafe` but
//! cannot be stopped: the program hands the function to [`child::main`]. They keep the walls, and need of them only the limits
//! of CPU time and memory.
//!
//! # Commands of the system
//!
//! [`Shell`] is another thing: it runs programs that are installed, under `bwrap` and not behind these walls, because those
//! programs need system calls and files of their own. They see `/usr`, read-only, and an empty folder or the one that the caller names, and no network;
//! their processes die with `bwrap`, and that with the thread that waits for it.
//!
//! # Deliberately absent
//!
//! - The tool `run_code`, its guards and its rows: in `tools` and `engine`. This crate knows no other crate of Houston.
//! - Python, packages, files that stay.
//! - Anything but Linux: elsewhere [`Sandbox::check`] says so and nothing runs.
//! - Type checking of TypeScript: types are removed.
//!
//! # Recipe: a system call more
//!
//! When a library needs another system call, its child is killed by signal 31. Find the call with `strace -f`, decide whether
//! it must work or may be refused, and add it to `walls/system_calls.rs` with both numbers. The tests in `walls/filter.rs`
//! list what each filter answers, for both architectures.
//!
//! # Recipe: something more for scripts
//!
//! Add it to `child/prelude.js`; if it needs Rust, to `child/host.rs`. Time and randomness come from the request.

pub mod child;
mod evaluators;
mod outcome;
mod process;
mod protocol;
mod sandbox;
mod script;
mod shell;
pub mod walls;

pub use evaluators::{Evaluators, NoAnswer};
pub use outcome::{Error, Fault, Outcome, Run};
pub use process::Program;
pub use protocol::Conversion;
pub use sandbox::{Converted, Sandbox};
pub use script::{Answer, Call, Host, Language, Limits, MAX_CODE, MAX_TIME, NoTools, Script};
pub use shell::{MAX_SHELL_OUTPUT, Shell, ShellEnd, ShellError, ShellRun};
