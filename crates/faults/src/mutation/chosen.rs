//! The mutation of this process, set once at its start; always `None` in a build without crash points.

use super::Mutation;

#[cfg(debug_assertions)]
mod this_process {
    use std::sync::OnceLock;

    use super::Mutation;

    #[cfg(not(debug_assertions))]
    compile_error!("a release has no mutations");

    static CHOSEN: OnceLock<Mutation> = OnceLock::new();

    pub(super) fn set(mutation: Mutation) -> bool {
        CHOSEN.set(mutation).is_ok()
    }

    pub(super) fn get() -> Option<Mutation> {
        CHOSEN.get().copied()
    }
}

#[cfg(not(debug_assertions))]
mod this_process {
    use super::Mutation;

    #[inline(always)]
    pub(super) fn set(_: Mutation) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn get() -> Option<Mutation> {
        None
    }
}

/// Sets the mutation of this process. Returns whether it was set: only the first call sets it, and none does in a build
/// without crash points.
#[inline(always)]
pub fn choose(mutation: Mutation) -> bool {
    this_process::set(mutation)
}

#[inline(always)]
pub(crate) fn chosen() -> Option<Mutation> {
    this_process::get()
}
