//! What a tool call may read of skills.

use houston_domain::skill::SkillSource;

use super::RecordTx;
use crate::error::Result;
use crate::skill::{self, SkillText};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement.
impl RecordTx<'_> {
    /// The text of a stored skill; `None`: it was deleted.
    pub async fn skill_text(&mut self, source: SkillSource, name: &str) -> Result<Option<SkillText>> {
        let owner = skill::owner_id(self.owner.tenant, self.owner.user, source);
        let tenant = self.owner.tenant;
        skill::text(self.tx.connection(), tenant, owner, name).await
    }

    /// The text of a file of a stored skill; `None`: there is none with this path.
    pub async fn skill_file(
        &mut self,
        source: SkillSource,
        name: &str,
        path: &str,
    ) -> Result<Option<String>> {
        let owner = skill::owner_id(self.owner.tenant, self.owner.user, source);
        let tenant = self.owner.tenant;
        skill::file(self.tx.connection(), (tenant, owner), name, path).await
    }
}
