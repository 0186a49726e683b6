//! The tools that come with Houston, one file each.

mod add_fields;
mod add_records;
mod aggregate_records;
mod analyze_image;
mod calculate;
mod change_plan;
mod create_feed_item;
mod create_goal;
mod create_note;
mod create_plan;
mod create_table;
mod create_task;
mod create_tool;
mod date_math;
mod delete_file;
mod delete_note;
mod delete_record;
mod delete_snippet;
mod drop_table;
mod edit_file;
mod extract_data;
mod fetch_page;
mod find_files;
mod get_current_time;
mod get_field_info;
mod get_tool_help;
mod http_request;
mod list_conversations;
mod list_feed_items;
mod list_files;
mod list_learnings;
mod list_notes;
mod list_skills;
mod list_snippets;
mod list_tables;
mod list_todos;
mod manage_check_ins;
mod manage_learning;
mod manage_memory;
mod manage_todos;
mod post_to_conversation;
mod read_conversation;
mod read_custom_instructions;
mod read_feed_item;
mod read_file;
mod read_note;
mod read_plan;
mod read_profile;
mod read_result;
mod read_skill_file;
mod read_snippet;
mod run_code;
mod run_shell;
mod run_snippet;
mod save_snippet;
mod schedule_check_in;
mod search_agent_history;
mod search_files;
mod search_records;
mod search_tools;
mod search_web;
mod send_message;
mod transform_text;
mod translate;
mod update_goal;
mod update_note;
mod update_profile;
mod update_record;
mod use_skill;
mod use_tool;
mod write_file;

use std::sync::Arc;

pub use create_plan::NAME as CREATE_PLAN;
pub use create_task::NAME as CREATE_TASK;
pub use extract_data::NAME as EXTRACT_DATA;
pub use list_conversations::NAME as LIST_CONVERSATIONS;
pub(crate) use list_files::NAME as LIST_FILES;
pub use list_learnings::NAME as LIST_LEARNINGS;
pub use list_notes::NAME as LIST_NOTES;
pub use list_skills::NAME as LIST_SKILLS;
pub(crate) use list_tables::NAME as LIST_TABLES;
pub use manage_memory::NAME as MANAGE_MEMORY;
pub use read_custom_instructions::NAME as READ_CUSTOM_INSTRUCTIONS;
pub use read_profile::NAME as READ_PROFILE;
pub use read_result::{NAME as READ_RESULT, preview};
pub(crate) use read_snippet::NAME as READ_SNIPPET;
pub use search_agent_history::NAME as SEARCH_AGENT_HISTORY;
pub use search_tools::NAME as SEARCH_TOOLS;
pub use translate::NAME as TRANSLATE;

use houston_domain::inner_call::USE_TOOL;

use crate::many::Catalogue;
use crate::offer::FINDING_TOOLS;
use crate::outside::Outside;
use crate::tool::SharedTool;

/// The tools for other conversations of the user: they need a kind that reaches some.
pub const REACHING: [&str; 5] = [
    list_conversations::NAME,
    read_conversation::NAME,
    post_to_conversation::NAME,
    create_goal::NAME,
    update_goal::NAME,
];

/// The tools for plans: they need a kind that creates some.
pub const PLANNING: [&str; 3] = [create_plan::NAME, read_plan::NAME, change_plan::NAME];

/// All built-in tools. Those that act outside Houston use `outside`.
#[must_use]
pub fn all(outside: &Outside) -> Vec<SharedTool> {
    vec![
        Arc::new(send_message::SendMessage::default()),
        Arc::new(create_note::CreateNote::default()),
        Arc::new(list_notes::ListNotes::default()),
        Arc::new(manage_learning::ManageLearning::default()),
        Arc::new(read_note::ReadNote::default()),
        Arc::new(update_note::UpdateNote::default()),
        Arc::new(delete_note::DeleteNote::default()),
        Arc::new(list_learnings::ListLearnings::default()),
        Arc::new(manage_memory::ManageMemory::default()),
        Arc::new(read_profile::ReadProfile::default()),
        Arc::new(update_profile::UpdateProfile::default()),
        Arc::new(read_custom_instructions::ReadCustomInstructions::default()),
        Arc::new(create_feed_item::CreateFeedItem::default()),
        Arc::new(list_feed_items::ListFeedItems::default()),
        Arc::new(read_feed_item::ReadFeedItem::default()),
        Arc::new(read_result::ReadResult::default()),
        Arc::new(search_agent_history::SearchAgentHistory::default()),
        Arc::new(create_task::CreateTask::default()),
        Arc::new(create_plan::CreatePlan::new(outside)),
        Arc::new(read_plan::ReadPlan::default()),
        Arc::new(change_plan::ChangePlan::default()),
        Arc::new(list_conversations::ListConversations::default()),
        Arc::new(read_conversation::ReadConversation::default()),
        Arc::new(post_to_conversation::PostToConversation::default()),
        Arc::new(create_goal::CreateGoal::default()),
        Arc::new(update_goal::UpdateGoal::default()),
        Arc::new(get_field_info::GetFieldInfo::default()),
        Arc::new(schedule_check_in::ScheduleCheckIn::default()),
        Arc::new(manage_check_ins::ManageCheckIns::default()),
        Arc::new(get_current_time::GetCurrentTime::default()),
        Arc::new(calculate::Calculate::new(outside)),
        Arc::new(fetch_page::FetchPage::new(outside)),
        Arc::new(search_web::SearchWeb::new(outside)),
        Arc::new(http_request::HttpRequest::new(outside)),
        Arc::new(run_code::RunCode::new(outside)),
        Arc::new(save_snippet::SaveSnippet::new(outside)),
        Arc::new(list_snippets::ListSnippets::default()),
        Arc::new(read_snippet::ReadSnippet::default()),
        Arc::new(run_snippet::RunSnippet::new(outside)),
        Arc::new(delete_snippet::DeleteSnippet::default()),
        Arc::new(create_tool::CreateTool::new(outside)),
        Arc::new(run_shell::RunShell::new(outside)),
        Arc::new(list_skills::ListSkills::default()),
        Arc::new(use_skill::UseSkill::default()),
        Arc::new(read_skill_file::ReadSkillFile::default()),
        Arc::new(read_file::ReadFile::default()),
        Arc::new(list_files::ListFiles::default()),
        Arc::new(find_files::FindFiles::default()),
        Arc::new(search_files::SearchFiles::default()),
        Arc::new(write_file::WriteFile::default()),
        Arc::new(edit_file::EditFile::default()),
        Arc::new(delete_file::DeleteFile::default()),
        Arc::new(manage_todos::ManageTodos::default()),
        Arc::new(list_todos::ListTodos::default()),
        Arc::new(create_table::CreateTable::default()),
        Arc::new(add_fields::AddFields::default()),
        Arc::new(list_tables::ListTables::default()),
        Arc::new(add_records::AddRecords::default()),
        Arc::new(search_records::SearchRecords::default()),
        Arc::new(aggregate_records::AggregateRecords::default()),
        Arc::new(update_record::UpdateRecord::default()),
        Arc::new(delete_record::DeleteRecord::default()),
        Arc::new(drop_table::DropTable::default()),
        Arc::new(date_math::DateMath::default()),
        Arc::new(transform_text::TransformText::default()),
        Arc::new(extract_data::ExtractData::default()),
        Arc::new(translate::Translate::default()),
        Arc::new(analyze_image::AnalyzeImage::new(outside)),
    ]
}

/// The tools that find, describe and call the tools of a catalogue. They belong to an offer, not to the registry: which
/// tools they find depends on it.
pub(crate) fn finding(catalogue: &Arc<Catalogue>) -> [SharedTool; FINDING_TOOLS] {
    [
        Arc::new(search_tools::SearchTools::new(Arc::clone(catalogue))),
        Arc::new(get_tool_help::GetToolHelp::new(Arc::clone(catalogue))),
        Arc::new(use_tool::UseTool::new()),
    ]
}

/// Whether it is the name of one of [`finding`]: no other tool may have it.
pub(crate) fn is_reserved(name: &str) -> bool {
    [search_tools::NAME, get_tool_help::NAME, USE_TOOL].contains(&name)
}
