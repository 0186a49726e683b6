//! Bytes that are stored beside Postgres, where the operator wants that: in an S3-compatible object store, or in a folder.
//!
//! | address | where |
//! |---|---|
//! | `s3://bucket/prefix` | a bucket; endpoint, region and credentials are the usual variables (`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, …) |
//! | `file:///path` | a folder that exists; all processes must see it |
//!
//! # Invariants
//! - This crate knows keys and bytes. Which objects there are, whose they are and which must be deleted is in Postgres
//!   (`houston_store::attachment`): nothing is ever listed here.
//! - An object is written as a whole, by one request: a broken one leaves nothing.
//! - Every request has a time limit, and few repetitions: callers decide whether to try again.
//! - Deleting what is not there succeeds.
//!
//! # Deliberately absent
//! Lists, copies, multipart uploads (an abandoned one stays in the bucket, and costs), signed addresses (they would go
//! around what a key may do).
//!
//! # Recipe: another kind of store
//! A scheme in [`Objects::open`] and a line in the table above.

mod address;
mod client;
mod error;
mod objects;

pub use error::Error;
pub use objects::Objects;
