//! Fields of what users can change: their tables, and bodies that change them.

pub(crate) mod change;
pub(crate) mod get;

pub(crate) use change::Change;
