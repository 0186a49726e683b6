//! The tools that come with Houston, and the list of them. A file has one tool, or those that read better together.

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
use crate::typed::{BuiltIn, Needs, shared};

pub const CREATE_PLAN: &str = plans::CreatePlan::NAME;
pub const CREATE_TASK: &str = create_task::CreateTask::NAME;
pub const EXTRACT_DATA: &str = ask_model::ExtractData::NAME;
pub const LIST_CONVERSATIONS: &str = conversations::ListConversations::NAME;
pub const LIST_LEARNINGS: &str = knowledge::ListLearnings::NAME;
pub const LIST_NOTES: &str = knowledge::ListNotes::NAME;
pub const LIST_SKILLS: &str = skills::ListSkills::NAME;
pub const MANAGE_MEMORY: &str = about_user::ManageMemory::NAME;
pub const READ_CUSTOM_INSTRUCTIONS: &str = about_user::ReadCustomInstructions::NAME;
pub const READ_PROFILE: &str = about_user::ReadProfile::NAME;
pub const READ_RESULT: &str = read_result::ReadResult::NAME;
pub const SEARCH_AGENT_HISTORY: &str = search_agent_history::SearchAgentHistory::NAME;
pub const TRANSLATE: &str = ask_model::Translate::NAME;

/// Makes the functions that speak of all tools.
macro_rules! built_in {
    ($($tool:ty,)*) => {
        /// All built-in tools. Those that act outside Houston use `outside`.
        #[must_use]
        pub fn all(outside: &Outside) -> Vec<SharedTool> {
            vec![$(shared::<$tool, _>(outside.into()),)*]
        }

        /// What an agent must have to be offered the built-in tool with this name; `None`: nothing, or there is none.
        #[must_use]
        pub fn needs(name: &str) -> Option<Needs> {
            let all = [$((<$tool>::NAME, <$tool>::NEEDS),)*];
            all.into_iter().find(|(tool, _)| *tool == name)?.1
        }
    };
}

built_in! {
    conversations::SendMessage,
    knowledge::CreateNote,
    knowledge::ListNotes,
    knowledge::ManageLearning,
    knowledge::ReadNote,
    knowledge::UpdateNote,
    knowledge::DeleteNote,
    knowledge::ListLearnings,
    about_user::ManageMemory,
    about_user::ReadProfile,
    about_user::UpdateProfile,
    about_user::ReadCustomInstructions,
    knowledge::CreateFeedItem,
    knowledge::ListFeedItems,
    knowledge::ReadFeedItem,
    read_result::ReadResult,
    search_agent_history::SearchAgentHistory,
    create_task::CreateTask,
    plans::CreatePlan,
    plans::ReadPlan,
    plans::ChangePlan,
    conversations::ListConversations,
    conversations::ReadConversation,
    conversations::PostToConversation,
    goals::CreateGoal,
    goals::UpdateGoal,
    get_field_info::GetFieldInfo,
    check_ins::ScheduleCheckIn,
    check_ins::ManageCheckIns,
    compute::GetCurrentTime,
    compute::Calculate,
    web::FetchPage,
    web::SearchWeb,
    web::HttpRequest,
    run_code::RunCode,
    snippets::SaveSnippet,
    snippets::ListSnippets,
    snippets::ReadSnippet,
    snippets::RunSnippet,
    snippets::DeleteSnippet,
    snippets::CreateTool,
    run_shell::RunShell,
    skills::ListSkills,
    skills::UseSkill,
    skills::ReadSkillFile,
    files::ReadFile,
    files::ListFiles,
    files::FindFiles,
    search_files::SearchFiles,
    file_changes::WriteFile,
    file_changes::EditFile,
    file_changes::DeleteFile,
    todos::ManageTodos,
    todos::ListTodos,
    tables::CreateTable,
    tables::AddFields,
    tables::ListTables,
    records::AddRecords,
    records::SearchRecords,
    records::AggregateRecords,
    records::UpdateRecord,
    records::DeleteRecord,
    tables::DropTable,
    compute::DateMath,
    compute::TransformText,
    ask_model::ExtractData,
    ask_model::Translate,
    ask_model::AnalyzeImage,
}
