//! Logs: text on a terminal, JSON lines otherwise, to stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// What is logged when nobody says otherwise. A pool whose Postgres is away warns once for each connection and each
/// caller that waits for one: whoever asked for it says what came of that.
const DEFAULT: &str = "info,sqlx=warn,sqlx::pool=error,sqlx_core::pool=error,hyper=warn,apalis=warn,\
                       tokio_cron_scheduler=warn";

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

#[cfg(test)]
mod tests {
    use tracing::level_filters::LevelFilter;

    use super::*;

    #[test]
    fn the_default_can_be_read_and_quietens_the_pool() {
        let filter: EnvFilter = DEFAULT.parse().unwrap();
        let shown = filter.to_string();
        assert!(shown.contains("sqlx_core::pool=error") && shown.contains("sqlx::pool=error"), "{shown}");
        assert_eq!(filter.max_level_hint(), Some(LevelFilter::INFO));
    }
}
