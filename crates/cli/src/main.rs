//! `houston`: see `houston --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    houston_cli::App::default().main()
}
