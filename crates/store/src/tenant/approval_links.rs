//! Links with which people decide questions without an API key. Only the SHA-256 of a link's token is stored.

use houston_domain::id::{QuestionId, TenantId};

use crate::api_key::hash;
use crate::error::{Error, Result};
use crate::handle::{ApiStore, TenantStore};
use crate::statement::Statement as _;

/// Maximum number of links of a question.
pub const MAX_LINKS: i64 = 20;

/// Who opens a link.
#[derive(Debug)]
pub struct LinkHolder<'s> {
    /// What belongs to the tenant of the question.
    pub store: TenantStore<'s>,
    /// Whom the link was made for.
    pub answered_by: Option<String>,
}

impl TenantStore<'_> {
    /// Stores a link to a question of the tenant. `answered_by`: whom it is made for.
    ///
    /// # Errors
    /// [`Error::Full`] when the question has [`MAX_LINKS`], or is not the tenant's.
    pub async fn create_approval_link(
        self,
        question: QuestionId,
        token: &str,
        answered_by: Option<&str>,
    ) -> Result<()> {
        sqlx::query!(
            "-- store::approval_links::create
            insert into houston.approval_links (question_id, token_sha256, agentable_id, tenant_id, answered_by)
            select q.id, $3, q.agentable_id, q.tenant_id, $4 from houston.questions q
             where q.tenant_id = $1 and q.id = $2
               and $5 > (select count(*) from houston.approval_links l where l.question_id = q.id)",
            self.tenant.0,
            question.0,
            &hash(token),
            answered_by,
            MAX_LINKS
        )
        .run_or(&self.pool, Error::Full { what: "links of a question", limit: MAX_LINKS })
        .await
    }
}

impl ApiStore {
    /// Who opens the link to a question with this token; `None`: there is no such link.
    pub async fn approval_link(&self, question: QuestionId, token: &str) -> Result<Option<LinkHolder<'_>>> {
        let link = sqlx::query!(
            "-- store::approval_links::opened
            select tenant_id, answered_by from houston.approval_links where question_id = $1 and token_sha256 = $2",
            question.0,
            &hash(token)
        )
        .map(|link| LinkHolder {
            store: self.shared.tenant(TenantId(link.tenant_id)),
            answered_by: link.answered_by,
        });
        Ok(link.fetch_optional(&self.pool).await?)
    }
}
