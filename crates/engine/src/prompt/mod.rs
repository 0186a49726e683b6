//! The prompt: ten sections of XML, always in the same order; those that change often are sent after the history.
//!
//! | | section | says | stable for |
//! |---|---|---|---|
//! | 1 | base | role and guidelines of the kind; the aim of the agentable; the mark of frames | kind; agentable; session |
//! | 2 | profile | who the user is | agentable |
//! | 3 | custom instructions | rules of the user | agentable |
//! | 4 | tools | which tools there are, and how to use them | kind |
//! | 5 | automation | when the agentable wakes up by itself | agentable |
//! | 6 | workspace | where it works | kind |
//! | 7 | capabilities | what its tools enable it to do | kind |
//! | 8 | autonomy | how far it goes without asking | kind |
//! | 9 | time | today | a day |
//! | 10 | conversation | summaries of sessions, learnings; memories, titles of notes | session; a run |
//!
//! # Order and caches
//! Providers cache a prefix, and the history stands behind the system prompt: one byte that changes before it, and all of
//! it is paid for anew. So the sections are sent in two places. What is stable is the *system prompt*: first what all
//! agentables of a kind share (role and guidelines: the first part), then what one agentable keeps (the second), then what
//! is the same until its session ends (the third). What changes from run to run is the *system context*: one element at
//! the very end, behind the last thing that was said and behind the last mark of the cache. It is no part of the history,
//! so the next request begins with the same bytes as this one, up to there. The base says what it is.
//!
//! The context is not cached, so each call pays for it in full, where the stable part costs a tenth. Therefore it has
//! what is short or changes often: the day, 10 memories of 200 characters (all agents of the user write them), 20 titles
//! of notes. Learnings and summaries of sessions are up to 15,000 characters and seldom change: a learning that is saved
//! costs one new reading of the history, less than twenty calls with all of them. A summary is new when the history
//! is, in the first minute of a session.
//!
//! The order of the sections is made for that: the changing ones are its end. Of the stable ones, four are the kind's and
//! stand behind the user's; two users share some 300 tokens less for it, and one agentable loses nothing. Only the aim
//! is moved: it is part of the base, which is never left out, and stands last of what is the agentable's, so that all
//! goals of a user share what is before it.
//!
//! Within a part, a text depends on nothing but what the table says. So two prompts of one kind, of one agentable, or
//! of one session are the same byte for byte up to the end of that part, whatever else changed.
//!
//! # The cap
//! All sections together have `context.prompt_chars` characters at most (`jobs/orchestrator.toml`). What is more is left
//! out from the end: of the last section that has items the last item, and so on; a section without items goes whole.
//! The base is never left out: one that is longer by itself stands alone. What was left out is told by
//! `houston prompt show`.
//!
//! # Add a section
//! A file in [`sections`] with a function that makes its [`section::Section`], and its line in
//! [`compose::Composing::sections`], at its place in the table above.

pub mod compose;
pub mod preview;
pub mod section;
pub mod sections;
