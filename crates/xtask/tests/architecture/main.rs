//! Architecture tests: allowed dependencies between crates and between modules, length of files, names, documentation.
//!
//! # Recipe: change a rule
//!
//! Change the map in `crates/README.md` first, then the table here. An exception is a line in a list of the test, with
//! its reason; these lists may only shrink. Which crate may use which third-party crate is in `.cargo/deny.toml`; rules for
//! SQL are tests of the store (`crates/store/tests/it/rules`).
#![cfg(test)]

mod circles;
mod dependencies;
mod documents;
mod engines;
mod faults;
mod files;
mod handles;
mod manifests;
mod names;
mod terminal;
mod tools;
mod workspace;
