//! [`list`]: all tools of a server, page by page.

use std::sync::Arc;

use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};

use super::MAX_ERROR;
use crate::listed::Listed;
use crate::text::cleaned;

/// The most tools of one server.
const MAX_TOOLS: usize = 500;
/// The most pages of a list. A page may be empty, so the tools alone would not limit them.
const MAX_PAGES: usize = 100;

/// Why a server's tools could not be listed.
pub(super) struct ListError {
    pub(super) reason: String,
    /// Whether the connection ended.
    pub(super) is_closed: bool,
}

impl From<ServiceError> for ListError {
    fn from(error: ServiceError) -> Self {
        let is_closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        Self { reason: cleaned(&error.to_string(), MAX_ERROR), is_closed }
    }
}

/// Lists the tools of a server.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Arc<[Listed]>, ListError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await?;
        if tools.len() + page.tools.len() > MAX_TOOLS {
            return Err(refused(format!(
                "it has more than {MAX_TOOLS} tools, which is the most of one server"
            )));
        }
        tools.extend(page.tools.iter().map(Listed::of));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(tools.into()),
        }
    }
    Err(refused(format!(
        "its list of tools goes on after {MAX_PAGES} pages, which is the most of one server"
    )))
}

fn refused(reason: String) -> ListError {
    ListError { reason, is_closed: false }
}
