//! The bodies of POST and PATCH, and their checks.

use houston_domain::knowledge::{KnowledgeForm, MAX_TITLE_CHARS};
use houston_protocol::knowledge::{CreateDocument, Sentence, UpdateFeedItem, UpdateNote};
use houston_store::knowledge_item::KnowledgeChange;

use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;

/// Body of a POST.
pub(crate) trait NewItem {
    /// The title, if items of this kind have one, and the text.
    fn texts(self) -> (Option<String>, String);
}

impl NewItem for CreateDocument {
    fn texts(self) -> (Option<String>, String) {
        (Some(self.title), self.content)
    }
}

impl NewItem for Sentence {
    fn texts(self) -> (Option<String>, String) {
        (None, self.content)
    }
}

/// Body of a PATCH.
pub(crate) trait ItemChange {
    /// The fields, for the error when none is given.
    const FIELDS: &'static str;

    fn change(&self) -> KnowledgeChange<'_>;
}

impl ItemChange for UpdateNote {
    const FIELDS: &'static str = "`title`, `content`";

    fn change(&self) -> KnowledgeChange<'_> {
        KnowledgeChange {
            title: self.title.as_deref(),
            content: self.content.as_deref(),
            ..KnowledgeChange::default()
        }
    }
}

impl ItemChange for UpdateFeedItem {
    const FIELDS: &'static str = "`title`, `content`, `read`";

    fn change(&self) -> KnowledgeChange<'_> {
        let Self { title, content, read } = self;
        KnowledgeChange {
            title: title.as_deref(),
            content: content.as_deref(),
            read: *read,
            ..KnowledgeChange::default()
        }
    }
}

impl ItemChange for Sentence {
    const FIELDS: &'static str = "`content`";

    fn change(&self) -> KnowledgeChange<'_> {
        KnowledgeChange { content: Some(&self.content), ..KnowledgeChange::default() }
    }
}

/// Checks the given texts.
///
/// # Errors
/// [`ApiError::InvalidRequest`] with the invalid field.
pub(super) fn check(form: KnowledgeForm, title: Option<&str>, content: Option<&str>) -> Result<(), ApiError> {
    if let Some(title) = title {
        check_line("/title", title, MAX_TITLE_CHARS)?;
        if title.contains(['\n', '\r']) {
            return Err(ApiError::field("/title", "must be one line"));
        }
    }
    let Some(content) = content else { return Ok(()) };
    check_text("/content", content)?;
    if content.trim().is_empty() {
        return Err(ApiError::field("/content", "must not be empty"));
    }
    check_size("/content", content.len(), form.max_bytes())
}
