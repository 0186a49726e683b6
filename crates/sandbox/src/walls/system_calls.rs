//! The system calls a child may make, by name and number.

/// What a filter answers to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    /// `EACCES`: libraries try it and live without.
    Refuse,
    /// Allowed if the first argument is one of these descriptors: others may have been inherited.
    On(&'static [u64]),
    /// Allowed if the third argument does not ask for memory that can be executed.
    NotExecutable,
    /// Allowed for memory without a file, which cannot be executed: an inherited file could be mapped.
    Anonymous,
}

/// A system call: its name, its numbers on x86-64 and aarch64 (none: it has no such call), and the answer.
pub(super) type SystemCall = (&'static str, Option<i64>, Option<i64>, Answer);

const fn call(name: &'static str, x86_64: i64, aarch64: i64, answer: Answer) -> SystemCall {
    (name, Some(x86_64), Some(aarch64), answer)
}

/// A call of x86-64 only: the others have only its newer form.
const fn old(name: &'static str, x86_64: i64, answer: Answer) -> SystemCall {
    (name, Some(x86_64), None, answer)
}

/// All others end the process.
pub(super) const SYSTEM_CALLS: [SystemCall; 37] = [
    // Memory.
    call("brk", 12, 214, Answer::Allow),
    call("madvise", 28, 233, Answer::Allow),
    call("mmap", 9, 222, Answer::Anonymous),
    call("mprotect", 10, 226, Answer::NotExecutable),
    call("mremap", 25, 216, Answer::Allow),
    call("munmap", 11, 215, Answer::Allow),
    // The pipes of the protocol, and stderr, which leads nowhere.
    call("close", 3, 57, Answer::Allow),
    call("read", 0, 63, Answer::On(&[0])),
    call("readv", 19, 65, Answer::On(&[0])),
    call("write", 1, 64, Answer::On(&[1, 2])),
    call("writev", 20, 66, Answer::On(&[1, 2])),
    // Time and randomness.
    call("clock_gettime", 228, 113, Answer::Allow),
    call("getrandom", 318, 278, Answer::Allow),
    call("gettimeofday", 96, 169, Answer::Allow),
    // The process itself.
    call("exit", 60, 93, Answer::Allow),
    call("exit_group", 231, 94, Answer::Allow),
    call("futex", 202, 98, Answer::Allow),
    call("getpid", 39, 172, Answer::Allow),
    call("gettid", 186, 178, Answer::Allow),
    call("restart_syscall", 219, 128, Answer::Allow),
    call("rt_sigaction", 13, 134, Answer::Allow),
    call("rt_sigprocmask", 14, 135, Answer::Allow),
    call("rt_sigreturn", 15, 139, Answer::Allow),
    call("sched_yield", 24, 124, Answer::Allow),
    call("sigaltstack", 131, 132, Answer::Allow),
    // What the two C libraries and std try and live without.
    call("faccessat", 269, 48, Answer::Refuse),
    call("fstat", 5, 80, Answer::Refuse),
    call("ioctl", 16, 29, Answer::Refuse),
    call("newfstatat", 262, 79, Answer::Refuse),
    call("openat", 257, 56, Answer::Refuse),
    call("prlimit64", 302, 261, Answer::Refuse),
    call("readlinkat", 267, 78, Answer::Refuse),
    call("sched_getaffinity", 204, 123, Answer::Refuse),
    call("statx", 332, 291, Answer::Refuse),
    old("open", 2, Answer::Refuse),
    old("readlink", 89, Answer::Refuse),
    old("stat", 4, Answer::Refuse),
];
