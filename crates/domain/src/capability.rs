//! Capabilities: what tools enable an agent to do, as its prompt describes it.

names! {
    /// What a tool enables an agent to do. A tool without a capability is listed by its name.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Capability {
        /// Talking with its user.
        Messages = "messages",
        /// Writing notes.
        Notes = "notes",
        /// Remembering what it learned about its goal.
        Learnings = "learnings",
        /// Remembering what it learned about its user, and reading their profile.
        Memory = "memory",
        /// Putting items into its user's feed.
        Feed = "feed",
        /// Searching earlier sessions.
        History = "history",
        /// Reading the other conversations of its user, and posting to them.
        Conversations = "conversations",
        /// Creating tasks for other agents.
        SubAgents = "sub_agents",
        /// Waking up at a time it chose.
        Scheduling = "scheduling",
        /// Reading and writing files.
        Files = "files",
        /// Fetching web pages.
        Web = "web",
        /// Running code.
        Code = "code",
        /// Keeping code for later.
        Snippets = "snippets",
        /// Calculating with numbers and units.
        Calculation = "calculation",
        /// Reading skills.
        Skills = "skills",
        /// Reading the current time.
        Time = "time",
        /// Keeping the todos of its user.
        Todos = "todos",
        /// Keeping records in tables of its user.
        Tables = "tables",
    }
}

impl Capability {
    /// The phrase in the prompt, after "you can".
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Messages => "send messages to your user",
            Self::Notes => "keep notes",
            Self::Learnings => "remember what you learn here",
            Self::Memory => "know and remember your user",
            Self::Feed => "put items into your user's feed",
            Self::History => "look into earlier sessions",
            Self::Conversations => {
                "look into your user's other conversations, begin new ones and post to their agents"
            }
            Self::SubAgents => "give tasks to agents of your own",
            Self::Scheduling => "wake up at times you choose",
            Self::Files => "read and write files of your workspace",
            Self::Web => "fetch from the web",
            Self::Code => "run code",
            Self::Snippets => "keep code for later and run it",
            Self::Calculation => "do arithmetic with units",
            Self::Skills => "follow skills, instructions for kinds of tasks",
            Self::Time => "tell the time",
            Self::Todos => "keep your user's todos",
            Self::Tables => "keep records in tables, search and add them up",
        }
    }
}
