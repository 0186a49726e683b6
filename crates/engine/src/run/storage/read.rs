//! What runs read of files and large results.

use houston_domain::id::{AgentableId, TenantId};
use houston_store::attachment::{PART_BYTES, StoredAttachment};
use houston_store::{Error, Result, RunStore};
use houston_tools::ask::{SourceText, TextSource};

/// The first bytes of a file, at least `most` if it has so many; `None`: it was deleted, or the object store cannot be used.
///
/// # Errors
/// As the methods of the store.
pub(super) async fn read_attachment(
    store: &RunStore,
    tenant: TenantId,
    file: &StoredAttachment,
    most: usize,
) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(file.bytes.min(most + PART_BYTES));
    for nth in 0..file.bytes.min(most).div_ceil(PART_BYTES) {
        match store.tenant(tenant).attachment_part(file, nth).await {
            Ok(part) => bytes.extend_from_slice(&part),
            Err(error @ (Error::NotFound { .. } | Error::Objects(_) | Error::NoObjects)) => {
                tracing::warn!(%error, id = %file.id, "a file cannot be read for a model");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// The text of a file or a large result that an agentable may read; `None`: there is none.
///
/// # Errors
/// As the methods of the store.
pub(super) async fn read_source(
    store: &RunStore,
    tenant: TenantId,
    agentable: AgentableId,
    source: &TextSource,
) -> Result<Option<SourceText>> {
    let read = match source {
        TextSource::Given(text) => Ok(SourceText::new(text.clone(), false)),
        TextSource::File(path) => {
            let file = store.tenant(tenant).file(agentable, path).await;
            file.map(|file| SourceText::new(file.content, file.untrusted))
        }
        TextSource::Result(id) => {
            let result = store.tenant(tenant).tool_result(agentable, *id).await;
            result.map(|result| SourceText::new(result.content, false))
        }
    };
    match read {
        Ok(text) => Ok(Some(text)),
        // A file that cannot be read is none that the agent may read.
        Err(Error::NotFound { .. } | Error::Folder(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
