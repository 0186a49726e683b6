//! One section: lists of items that can be left out from the end, one after the other.

use houston_domain::frame::element;

/// For which scope, or how long, a section stays the same byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// For all agentables of a kind.
    Kind,
    /// For one agentable, until its user's profile, rules or check-ins change.
    Agentable,
    /// Until the session is closed or the agent stores a learning.
    Session,
    /// May change from run to run.
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

    /// Where sections of this stability are sent.
    #[must_use]
    pub fn destination(self) -> Destination {
        if self == Self::Changing { Destination::SystemContext } else { Destination::System }
    }
}

/// Where a section is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// In the system prompt, before the history.
    System,
    /// In the system context, after the history: changes there do not invalidate the provider's cache.
    SystemContext,
}

impl Destination {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::SystemContext => SYSTEM_CONTEXT,
        }
    }
}

/// Name of the element around the part that is sent after the history.
pub const SYSTEM_CONTEXT: &str = "system_context";

/// A section before it is rendered as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name in the table of [the module](super).
    pub name: &'static str,
    /// How long the text stays the same.
    pub stability: Stability,
    /// The element around its lists, if there is one.
    pub element: Option<String>,
    /// Its content, in order.
    pub lists: Vec<List>,
}

/// Lines in an element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// The element around them, if there is one.
    pub element: Option<&'static str>,
    /// Text before the items. A list without items is fixed: it is left out only with its section.
    pub head: String,
    /// Items, which can be left out from the end.
    pub items: Vec<String>,
    /// Whether there are more items than these.
    pub more: bool,
    /// Text after the items if there are more: which tool reads them.
    pub others: String,
}

impl List {
    /// Text that is included as a whole or not at all.
    pub(crate) fn fixed(text: impl Into<String>) -> Self {
        Self { head: text.into(), ..Self::default() }
    }

    fn write(&self) -> String {
        let mut lines: Vec<&str> = Vec::with_capacity(self.items.len() + 2);
        lines.extend(Some(self.head.trim()).filter(|head| !head.is_empty()));
        lines.extend(self.items.iter().map(String::as_str));
        lines.extend(Some(self.others.as_str()).filter(|others| self.more && !others.is_empty()));
        let text = lines.join("\n");
        match self.element {
            Some(name) => element(name, &text),
            None if text.is_empty() => text,
            None => text + "\n",
        }
    }
}

impl Section {
    /// A section with an element around its lists.
    pub(crate) fn new(name: &'static str, stability: Stability, element: &str, lists: Vec<List>) -> Self {
        Self { name, stability, element: Some(element.to_owned()), lists }
    }

    /// The section as text; empty when its lists are empty.
    #[must_use]
    pub fn write(&self) -> String {
        let text: String = self.lists.iter().map(List::write).collect();
        match &self.element {
            Some(name) => element(name, &text),
            None => text,
        }
    }

    /// Leaves out the last item, or the whole section if it has no items. Returns whether it was an item.
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
