//! Tests of the sandbox with a real child behind real walls. They need Linux 6.12 or newer.

#![cfg(target_os = "linux")]

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod code_mode;
#[cfg(test)]
mod conversions;
#[cfg(test)]
mod evaluations;
#[cfg(test)]
mod hostile_child;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod language;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod system_calls;
#[cfg(test)]
mod tampering;
