//! End-to-end tests of Houston: real processes, real servers, injected faults.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod agents;
#[cfg(test)]
mod approvals_killed;
#[cfg(test)]
mod ask;
#[cfg(test)]
mod asking;
#[cfg(test)]
mod attachments;
#[cfg(test)]
mod audited;
#[cfg(test)]
mod backups;
#[cfg(test)]
mod bounded_expressions;
mod cancel;
#[cfg(test)]
mod cell_moves;
#[cfg(test)]
mod cells;
#[cfg(test)]
mod code_mode;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod drains;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod fallbacks;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod goal_tools;
#[cfg(test)]
mod images;
#[cfg(test)]
mod imported_sessions;
#[cfg(test)]
mod injections;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod large_results;
#[cfg(test)]
mod load;
#[cfg(test)]
mod long_conversation;
#[cfg(test)]
mod mcp_logins;
#[cfg(test)]
mod mcp_servers;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod models;
#[cfg(test)]
mod monitor;
#[cfg(test)]
mod obedient;
#[cfg(test)]
mod operator;
#[cfg(test)]
#[path = "../../../spans/tests/it/otlp.rs"]
mod otlp;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod papers;
#[cfg(test)]
mod people;
#[cfg(test)]
mod plan_documents;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod recorded_commands;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod shards;
#[cfg(test)]
mod sigterm;
#[cfg(test)]
mod site;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod snippets;
#[cfg(test)]
mod spans;
#[cfg(test)]
mod strangers;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod systemd;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod task_cancel;
#[cfg(test)]
mod task_limits;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod teams;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod test_houston;
#[cfg(test)]
mod titles;
#[cfg(test)]
mod traces_of_runs;
#[cfg(test)]
mod trials;
#[cfg(test)]
mod triggers;
#[cfg(test)]
mod upgrades;
