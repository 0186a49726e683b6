//! One section: lists of items that can be left out from the end, one after the other.

use houston_domain::frame::element;

/// For whom, or how long, a section is the same byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// For all agentables of a kind.
    Kind,
    /// For one agentable, until somebody changes what its user said.
    Agentable,
    /// Until its session is closed, or it learns something.
    Session,
    /// From run to run it may be another.
    Changing,
}

impl Stability {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Agentable => "agentable",
            Self::Session => "session",
            Self::Changing => "changing",
        }
    }

    /// Where it is sent.
    #[must_use]
    pub fn place(self) -> Place {
        if self == Self::Changing { Place::SystemContext } else { Place::System }
    }
}

/// Where a section is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the system prompt, before the history.
    System,
    /// In the system context, after it: what changes there voids nothing that a provider has cached.
    SystemContext,
}

impl Place {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::SystemContext => SYSTEM_CONTEXT,
        }
    }
}

/// The element around what is sent after the history.
pub const SYSTEM_CONTEXT: &str = "system_context";

/// A section, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name in the table of [the module](super).
    pub name: &'static str,
    /// How long it is the same.
    pub stability: Stability,
    /// The element around its lists, if there is one.
    pub element: Option<String>,
    /// What it says, in order.
    pub lists: Vec<List>,
}

/// Lines in an element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// The element around them, if there is one.
    pub element: Option<&'static str>,
    /// What stands before the items. A list of a head alone is fixed: it goes with its section.
    pub head: String,
    /// What can be left out, from the end.
    pub items: Vec<String>,
    /// Whether there are more than stand here.
    pub more: bool,
    /// What is said then: how to get at the others.
    pub others: &'static str,
}

impl List {
    /// Text that stands as a whole or not at all.
    pub(crate) fn fixed(text: impl Into<String>) -> Self {
        Self { head: text.into(), ..Self::default() }
    }

    fn write(&self) -> String {
        let mut lines: Vec<&str> = Vec::with_capacity(self.items.len() + 2);
        lines.extend(Some(self.head.trim()).filter(|head| !head.is_empty()));
        lines.extend(self.items.iter().map(String::as_str));
        lines.extend(Some(self.others).filter(|others| self.more && !others.is_empty()));
        let text = lines.join("\n");
        match self.element {
            Some(name) => element(name, &text),
            None if text.is_empty() => text,
            None => text + "\n",
        }
    }
}

impl Section {
    /// A section of one list, or none.
    pub(crate) fn new(name: &'static str, stability: Stability, element: &str, lists: Vec<List>) -> Self {
        Self { name, stability, element: Some(element.to_owned()), lists }
    }

    /// The text; empty when there is nothing to say.
    #[must_use]
    pub fn write(&self) -> String {
        let text: String = self.lists.iter().map(List::write).collect();
        match &self.element {
            Some(name) => element(name, &text),
            None => text,
        }
    }

    /// Leaves out its last item, or, when it has none, all of it. Returns whether that was an item.
    pub(crate) fn shorten(&mut self) -> bool {
        let Some(at) = self.lists.iter().rposition(|list| !list.items.is_empty()) else {
            self.lists.clear();
            return false;
        };
        let list = &mut self.lists[at];
        list.items.pop();
        list.more = true;
        if list.items.is_empty() {
            self.lists.remove(at);
        }
        true
    }
}
