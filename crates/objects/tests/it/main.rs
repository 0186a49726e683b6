//! Objects in a folder, and in a real S3-compatible server if there is one: `HOUSTON_TEST_S3` has the address of its bucket,
//! the usual variables the rest. `cargo xtask` does not start one; see `crates/objects/tests/README.md`.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod stores;
