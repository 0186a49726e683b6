//! Modes: what started a run that no message started.

names! {
    /// What started a run instead of a message. Such a run expects no reply: it ends when the model asks for no more tools,
    /// and text without `send_message` counts as thinking.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// The user's feed is due: the agent writes feed items about what happened in all agentables of the user.
        FeedGeneration = "feed_generation",
        /// A check-in is due: a time that the agent chose itself.
        AgentCheckIn = "agent_check_in",
        /// A trigger has fired: a time, a word or an event that was chosen before.
        Trigger = "trigger",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_one_name() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_name(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert_eq!(Mode::from_name("message"), None);
    }
}
