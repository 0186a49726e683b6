//! The child alone, without the rest of Houston: for the tests, and smaller and therefore faster to start than `houston`.

use std::process::ExitCode;

/// What tests ask for.
fn evaluate(request: &str) -> String {
    match request.trim() {
        "\"spin\"" => loop {
            std::hint::spin_loop();
        },
        "\"grow\"" => {
            let mut grown = vec![1_u8];
            loop {
                grown.extend_from_within(..);
            }
        }
        other => other.to_owned(),
    }
}

fn main() -> ExitCode {
    houston_sandbox::child::main(std::env::args_os().skip(1), evaluate)
}
