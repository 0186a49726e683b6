//! Workspaces as folders of one machine, where the operator wants that in the place of rows.
//!
//! ```text
//! <root>/houston-workspaces            the number of this folder, which the database knows, too
//! <root>/<tenant>/<agentable>/files/   what the agent and its commands see
//! <root>/<tenant>/<agentable>/lock     held while Houston changes the files
//! <root>/<tenant>/<agentable>/new      a file that is being written
//! <root>/removed/                      what is being deleted
//! ```
//!
//! `<tenant>` and `<agentable>` are ids. When a file is written, and what of it the database keeps, is decided in
//! `houston-store`; this crate carries that out, on files that others may change meanwhile.
//!
//! # Invariants
//! - After [`Root::open`] no path is joined and none is opened twice: each name is opened below the handle of its folder
//!   (`cap-std`). What is swapped in between is either opened or refused; nothing outside is.
//! - No link is followed, wherever it leads, so that a file has one spelling and guards judge the file that is opened.
//! - A file is asked what it is before it is opened and after: pipes, sockets and devices are refused and cannot block. A
//!   file with a second name (a hard link) is refused, too, since that may be outside.
//! - A file is replaced as a whole: a new one is written beside the files, and renamed.
//! - How much is looked at, hashed and waited for is bounded ([`MAX_SEEN`], [`MAX_LEVELS`], [`MAX_HASHED`]). A process does a
//!   few of these things at once, on threads that may block ([`Root::run`]).
//!
//! # Deliberately absent
//! Quotas, paths that guards forbid and what is untrusted: in `domain`, `tools` and `store`.
//!
//! # Recipe: something more to do with a file
//! A method of [`Folder`] for reading, of [`Locked`] for changes, that opens names with `enter` and `open_file` of `read.rs`; a
//! line for it in `tests/it/race.rs`, and cases in `tests/it/hostile.rs`.

mod error;
mod read;
mod remove;
mod root;
mod system;
mod walk;
mod write;

pub use error::{Error, Obstacle, Result, RootError};
pub use read::Content;
pub use root::{Folder, Root};
pub use walk::{Found, MAX_HASHED, MAX_LEVELS, MAX_SEEN, Walk};
pub use write::Locked;
