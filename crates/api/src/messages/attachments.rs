//! Files that a message names: they were posted before, and its text refers to them.

use std::collections::HashMap;
use std::sync::Arc;

use houston_domain::attachment::{reference, with_references};
use houston_domain::id::AttachmentId;

use super::post::check_content;
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::state::App;

/// The text of a message with references to its files. Without files nothing is done. If the message was posted before under
/// `key`, its text is returned: the files may not be there any more.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when the user has no such file, or there are too many, [`ApiError::NotFound`] when there is no
/// such agentable, [`ApiError::MessageTooLarge`].
pub(crate) async fn with_attachments(
    app: &Arc<App>,
    caller: Caller,
    path: &AgentablePath,
    (content, ids): (String, &[AttachmentId]),
    key: Option<&Key>,
) -> Result<String, ApiError> {
    if ids.is_empty() {
        return Ok(content);
    }
    let most = app.state.config.attachments.max_per_message;
    if ids.len() > most {
        let why = format!("has {} files; at most {most} are allowed in one message", ids.len());
        return Err(ApiError::field("/attachments", why));
    }
    if let Some(key) = key
        && let Some(text) = app.store(caller).text_posted_before(key.as_stored()).await?
    {
        return Ok(text);
    }
    app.confirm(caller, path).await?;
    let used = app.store(caller).use_attachments(path.id, ids).await?;
    let used: HashMap<AttachmentId, String> =
        used.into_iter().map(|file| (file.id, reference(file.id, &file.name, file.kind))).collect();
    let lines: Result<Vec<String>, ApiError> = ids
        .iter()
        .enumerate()
        .map(|(nth, id)| {
            let missing = || {
                let why = "the user has no such file; post it to /v1/users/{id}/attachments first";
                ApiError::field(&format!("/attachments/{nth}"), why)
            };
            used.get(id).cloned().ok_or_else(missing)
        })
        .collect();
    let content = with_references(&content, lines?);
    check_content("/content", &content, false)?;
    Ok(content)
}
