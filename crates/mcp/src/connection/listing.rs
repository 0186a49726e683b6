//! [`list`]: all tools of a server, page by page.

use std::sync::Arc;

use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};

use crate::listed::{Listed, listed_of};

/// The most tools of one server.
const MAX_TOOLS: usize = 500;
/// The most pages of a list. A page may be empty, so the tools alone would not limit them.
const MAX_PAGES: usize = 100;

/// Why a server's tools could not be listed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("{0}")]
    Refused(String),
}

/// Lists the tools of a server.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Arc<[Listed]>, ListError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await?;
        if tools.len() + page.tools.len() > MAX_TOOLS {
            return Err(ListError::Refused(format!(
                "it has more than {MAX_TOOLS} tools, which is the most of one server"
            )));
        }
        tools.extend(page.tools.iter().map(listed_of));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(tools.into()),
        }
    }
    Err(ListError::Refused(format!(
        "its list of tools goes on after {MAX_PAGES} pages, which is the most of one server"
    )))
}
