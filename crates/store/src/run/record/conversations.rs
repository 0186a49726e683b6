//! What a tool call may do with the other conversations of its user.

use houston_domain::id::AgentableId;
use houston_domain::reach::{MadeCounts, PostCounts};

use super::RecordTx;
use crate::error::Result;
use crate::reach::{
    self, Conversation, ConversationChange, ConversationQuery, Delivery, NewAgentMessage, NewConversation,
    ReadMessage, make,
};

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement. None of them sees a conversation of another user, or the one of the run itself.
impl RecordTx<'_> {
    /// Conversations of the user, newest first.
    pub async fn conversations(&mut self, query: &ConversationQuery<'_>) -> Result<Vec<Conversation>> {
        let owner = self.owner;
        reach::list(self.tx.connection(), owner, query).await
    }

    /// A conversation of the user; `None`: there is none with this id among these kinds.
    pub async fn conversation(&mut self, kinds: &[String], id: AgentableId) -> Result<Option<Conversation>> {
        let owner = self.owner;
        reach::find(self.tx.connection(), owner, kinds, id).await
    }

    /// What was said in a conversation that [`Self::conversation`] has returned, before a position, newest first: at most
    /// `limit` messages, each with its first `chars` characters.
    pub async fn thread(
        &mut self,
        of: AgentableId,
        before: Option<i64>,
        limit: i64,
        chars: i32,
    ) -> Result<Vec<ReadMessage>> {
        let owner = self.owner;
        reach::thread(self.tx.connection(), owner, of, (before, limit, chars)).await
    }

    /// The kind of the run's own agentable, and what counts against the limits of a message.
    pub async fn post_counts(&mut self) -> Result<(String, PostCounts)> {
        let (owner, most) = (self.owner, self.limits.reach.max_posts_per_hour);
        reach::counts(self.tx.connection(), owner, most).await
    }

    /// Posts a message to a conversation that [`Self::conversation`] has returned, with [`RecordIds::message`] as its id. Its
    /// agent is woken when the step is committed. `own_kind`: the kind of the run's own agentable.
    ///
    /// [`RecordIds::message`]: super::RecordIds::message
    pub async fn post_to(&mut self, own_kind: &str, message: NewAgentMessage<'_>) -> Result<Delivery> {
        let (owner, ids, fairness) = (self.owner, self.ids, self.tx.fairness);
        reach::post(self.tx.connection(), owner, ids, (own_kind, message), fairness).await
    }

    /// What counts against the limits of a conversation that the run makes.
    pub async fn made_counts(&mut self) -> Result<MadeCounts> {
        let (owner, most) = (self.owner, self.limits.reach.max_made_per_hour);
        make::counts(self.tx.connection(), owner, most).await
    }

    /// Makes a conversation of the user.
    pub async fn make_conversation(&mut self, new: &NewConversation<'_>) -> Result<()> {
        let owner = self.owner;
        make::insert(self.tx.connection(), owner, new).await
    }

    /// Changes a conversation that [`Self::conversation`] has returned.
    pub async fn change_conversation(&mut self, id: AgentableId, change: &ConversationChange) -> Result<()> {
        let owner = self.owner;
        make::change(self.tx.connection(), owner, id, change).await
    }
}
