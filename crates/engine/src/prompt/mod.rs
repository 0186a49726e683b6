//! The prompt: ten sections of XML, always in the same order; those that change often are sent after the history.
//!
//! | | section | content | stable for |
//! |---|---|---|---|
//! | 1 | base | role and guidelines of the kind; the aim of the agentable; the mark of frames | kind; agentable; session |
//! | 2 | profile | who the user is | agentable |
//! | 3 | custom instructions | rules of the user | agentable |
//! | 4 | tools | which tools there are, and how to use them | kind |
//! | 5 | automation | when the agentable wakes up by itself | agentable |
//! | 6 | workspace | where it works | kind |
//! | 7 | capabilities | what its tools enable it to do; which skills there are | kind; agentable |
//! | 8 | autonomy | how far it goes without asking | kind |
//! | 9 | time | today | a day |
//! | 10 | conversation | summaries of sessions, learnings; memories, titles of notes, other conversations | session; a run |
//!
//! # Order and caches
//! Providers cache a prefix of the request, and the history follows the system prompt: if one byte before it changes, the
//! whole history is paid for again. So the sections are sent in two parts. The stable ones are the *system prompt*: first
//! what all agentables of a kind share (role and guidelines), then what is stable for one agentable, then what is stable
//! until its session ends. The sections that change from run to run are the *system context*: one element at the very end,
//! after the last message and after the last cache mark. It is not part of the history, so the next request begins with the
//! same bytes up to there. The base explains it to the model.
//!
//! The system context is not cached, so each call pays for it in full, while the stable part costs a tenth. So it has only
//! what is short or changes often: the day, 10 memories of 200 characters (all agents of the user write them), 20 note
//! titles. Learnings and session summaries have up to 15,000 characters and rarely change: a new learning costs one
//! uncached reading of the history, which is less than twenty calls with all learnings uncached. A summary changes only in
//! the first minute of a session, when the history is new as well.
//!
//! The order of the sections follows from that: the changing ones come last. Four stable sections of the kind come after
//! those of the user; this makes two users share some 300 tokens less, and one agentable loses nothing. Only the aim is
//! moved: it belongs to the base, which is never left out, but comes last of the agentable's sections, so that all goals of
//! a user share everything before it.
//!
//! The text of a part depends only on what the table says. So two prompts of one kind, one agentable or one session are
//! equal byte for byte up to the end of that part, whatever else changed.
//!
//! # The limit
//! All sections together may have `context.prompt_chars` characters (`jobs/orchestrator.toml`). A longer prompt loses items
//! from its end: first the last item of the last section that has items, and so on. A section without items is left out as
//! a whole. The base is never left out, even if it alone is longer. `houston prompt` lists what was left out.
//!
//! # Sections of hooks
//! A [hook](crate::hook) may add sections to the prompt of a run. They follow section 9 and are sent after the history, because they
//! may differ from run to run.
//!
//! # The focus
//! What the message of a run is about (`focus`), and that it is about something else than before, is sent the same way: only runs
//! whose message says so have it.
//!
//! # Add a section
//! Add a function to [`sections`] that returns a [`sections::Section`], and a line to
//! [`compose::PromptInput::sections`], in the order of the table above.

pub(crate) mod analysis;
pub mod compose;
pub(crate) mod focus;
pub mod preview;
pub mod sections;
