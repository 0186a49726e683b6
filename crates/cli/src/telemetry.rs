//! Logs: text on a terminal, JSON lines otherwise, to stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// What is logged when nobody says otherwise.
const DEFAULT: &str = "info,sqlx=warn,hyper=warn,apalis=warn,tokio_cron_scheduler=warn";

/// Starts logging. A filter that cannot be read is told of, and the default is used.
pub(crate) fn start(filter: Option<&str>, format: Option<LogFormat>) {
    let filter = match EnvFilter::try_new(filter.unwrap_or(DEFAULT)) {
        Ok(filter) => filter,
        Err(error) => {
            crate::output::tell(&format!("HOUSTON_LOG: {error}; logging `{DEFAULT}`"));
            EnvFilter::new(DEFAULT)
        }
    };
    let terminal = std::io::stderr().is_terminal();
    let json = format.map_or(!terminal, |format| format == LogFormat::Json);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Set twice only in tests, where the first one stays.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(terminal).with_target(false).try_init()
    };
}
