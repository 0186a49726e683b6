//! The tools that come with Houston. A file has one tool, or those that read better together, and the list of them.

/// The tools of a file: the type of the arguments, the name, what may be repeated after a crash, and the facts of
/// [`About`] that are not the usual ones.
macro_rules! built_in {
    ($($tool:ident: $name:expr, $effect:ident $(, $fact:ident $value:tt)*;)+) => {
        $(impl crate::typed::About for $tool {
            const NAME: &'static str = $name;
            const EFFECT: EffectClass = EffectClass::$effect;
            $(fact!($fact $value);)*
        })+

        pub(super) const BUILT_IN: &[crate::builtin::Listed] = &[$(crate::builtin::Listed {
            name: <$tool>::NAME,
            needs: <$tool>::NEEDS,
            make: |outside| crate::typed::shared::<$tool, _>(outside.into()),
        }),+];
    };
}

macro_rules! fact {
    (capability $value:ident) => {
        const CAPABILITY: Option<Capability> = Some(Capability::$value);
    };
    (needs $value:ident) => {
        const NEEDS: Option<Needs> = Some(Needs::$value);
    };
    (changes $value:ident) => {
        const CHANGES: Option<Entity> = Some(Entity::$value);
    };
    (seconds $value:literal) => {
        const TIMEOUT: Duration = Duration::from_secs($value);
    };
    (facts $value:ident) => {
        fn facts() -> houston_domain::guard::ToolFacts {
            $value()
        }
    };
    (for_code $value:literal) => {
        const IS_FOR_CODE: bool = $value;
    };
    (expressions $value:literal) => {
        const TAKES_EXPRESSIONS: bool = $value;
    };
}

mod about_user;
mod ask_model;
mod check_ins;
mod compute;
mod conversations;
mod create_task;
mod file_changes;
mod files;
mod get_field_info;
mod goals;
mod knowledge;
mod plans;
mod prelude;
mod read_result;
mod records;
mod run_code;
mod run_shell;
mod search_agent_history;
mod search_files;
mod skills;
mod snippets;
mod tables;
mod todos;
mod web;

pub use self::read_result::preview;
pub use crate::many::SEARCH_TOOLS;

use crate::outside::Outside;
use crate::tool::SharedTool;
use crate::typed::{About, Needs};

pub const CREATE_PLAN: &str = plans::CreatePlan::NAME;
pub const CREATE_TASK: &str = create_task::CreateTask::NAME;
pub const LIST_CONVERSATIONS: &str = conversations::ListConversations::NAME;
pub const LIST_LEARNINGS: &str = knowledge::ListLearnings::NAME;
pub const LIST_NOTES: &str = knowledge::ListNotes::NAME;
pub const LIST_SKILLS: &str = skills::ListSkills::NAME;
pub const MANAGE_MEMORY: &str = about_user::ManageMemory::NAME;
pub const READ_CUSTOM_INSTRUCTIONS: &str = about_user::ReadCustomInstructions::NAME;
pub const READ_PROFILE: &str = about_user::ReadProfile::NAME;
pub const READ_RESULT: &str = read_result::ReadResult::NAME;
pub const SEARCH_AGENT_HISTORY: &str = search_agent_history::SearchAgentHistory::NAME;

/// A tool in the list of its file.
struct Listed {
    name: &'static str,
    needs: Option<Needs>,
    make: fn(&Outside) -> SharedTool,
}

/// The lists of all files.
const FILES: &[&[Listed]] = &[
    about_user::BUILT_IN,
    ask_model::BUILT_IN,
    check_ins::BUILT_IN,
    compute::BUILT_IN,
    conversations::BUILT_IN,
    create_task::BUILT_IN,
    file_changes::BUILT_IN,
    files::BUILT_IN,
    get_field_info::BUILT_IN,
    goals::BUILT_IN,
    knowledge::BUILT_IN,
    plans::BUILT_IN,
    read_result::BUILT_IN,
    records::BUILT_IN,
    run_code::BUILT_IN,
    run_shell::BUILT_IN,
    search_agent_history::BUILT_IN,
    search_files::BUILT_IN,
    skills::BUILT_IN,
    snippets::BUILT_IN,
    tables::BUILT_IN,
    todos::BUILT_IN,
    web::BUILT_IN,
];

/// All built-in tools. Those that act outside Houston use `outside`.
pub fn all(outside: &Outside) -> Vec<SharedTool> {
    FILES.iter().copied().flatten().map(|tool| (tool.make)(outside)).collect()
}

/// What an agent must have to be offered the built-in tool with this name; `None`: nothing, or there is none.
pub fn needs(name: &str) -> Option<Needs> {
    FILES.iter().copied().flatten().find(|tool| tool.name == name)?.needs
}
