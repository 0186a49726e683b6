//! The child alone, without the rest of Houston: for the tests, and smaller and therefore faster to start than `houston`.

use std::process::ExitCode;

fn main() -> ExitCode {
    houston_sandbox::child::main(std::env::args_os().skip(1))
}
