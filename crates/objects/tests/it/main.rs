//! Objects in a folder. Those in an S3-compatible server: `crates/cli/tests/clients/s3.rs`, which has one from PyPI.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod stores;
