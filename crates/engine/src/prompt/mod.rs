//! The system prompt: ten sections of XML, always in the same order.
//!
//! | | section | says | stable for |
//! |---|---|---|---|
//! | 1 | base | role and guidelines of the kind; the aim of the agentable | kind; agentable |
//! | 2 | profile | who the user is | agentable |
//! | 3 | custom instructions | rules of the user | agentable |
//! | 4 | tools | which tools there are, and how to use them | kind |
//! | 5 | automation | when the agentable wakes up by itself | agentable |
//! | 6 | workspace | where it works | kind |
//! | 7 | capabilities | what its tools enable it to do | kind |
//! | 8 | autonomy | how far it goes without asking | kind |
//! | 9 | time | today | a day |
//! | 10 | conversation | earlier sessions, learnings, memories, titles of notes | a run |
//!
//! # Order and caches
//! Providers cache a prefix, so what all agentables of a kind share comes first (role and guidelines: the first
//! part), then what one agentable keeps (the second part), then what changes (the third, which is not cached). The
//! order of the sections is made for that: the changing ones are its end. Of the stable ones, four are the kind's and
//! stand behind the user's; two users share some 300 tokens less for it, and one agentable loses nothing. Only the aim
//! is moved: it is part of the base, which is never left out, and stands last of what is stable, so that all goals of a
//! user share what is before it.
//!
//! Within a part, a text depends on nothing but what the table says. So two prompts of one kind, of one agentable, or
//! of one day are the same byte for byte up to the end of that part, whatever else changed.
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
pub(crate) mod xml;
