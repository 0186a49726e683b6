//! [`Shown`]: what streams show of an answer whose addresses must lead nowhere.

use std::sync::Arc;

use houston_domain::event::Part;
use houston_domain::guard::{Layer, names_host};
use houston_domain::inert::{self, Inert};

/// The texts of an answer, piece by piece.
pub(crate) struct Shown {
    reasoning: Inert,
    message: Inert,
    guards: Arc<[Arc<Layer>]>,
}

impl Shown {
    pub(crate) fn new(guards: Arc<[Arc<Layer>]>) -> Self {
        Self { reasoning: Inert::default(), message: Inert::default(), guards }
    }

    /// What can be shown of a part after this piece.
    pub(crate) fn push(&mut self, part: Part, piece: &str) -> String {
        let guards = Arc::clone(&self.guards);
        self.part(part).push(piece, |host| names_host(&guards, host))
    }

    /// The rest of a part, which is over.
    pub(crate) fn finish(&mut self, part: Part) -> String {
        let guards = Arc::clone(&self.guards);
        self.part(part).finish(|host| names_host(&guards, host))
    }

    fn part(&mut self, part: Part) -> &mut Inert {
        match part {
            Part::Reasoning => &mut self.reasoning,
            Part::Message => &mut self.message,
        }
    }
}

/// A whole text as the user is shown it, with a note if something was changed.
pub(crate) fn shown(content: &str, guards: &[Arc<Layer>]) -> String {
    let (text, has_changed) = inert::inert(content, |host| names_host(guards, host));
    noted(text, has_changed)
}

/// The text that streams have shown, with the note if it is not what was written.
pub(crate) fn noted(text: String, has_changed: bool) -> String {
    if has_changed { format!("{}\n\n{}", text.trim_end(), inert::NOTE) } else { text }
}
