//! Logs: text on a terminal, JSON lines otherwise, to stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// What is logged when nobody says otherwise.
const DEFAULT: &str = "info,sqlx=warn,hyper=warn,apalis=warn,tokio_cron_scheduler=warn";

/// A pool whose Postgres is away warns once for each connection and each caller that waits for one: whoever asked
/// for it says what came of that.
const QUIET: &str = "sqlx::pool=error,sqlx_core::pool=error";

/// Starts logging. A filter that cannot be read is told of, and the default is used.
pub(crate) fn start(filter: Option<&str>, format: Option<LogFormat>) {
    let filter = match read(filter.unwrap_or(DEFAULT)) {
        Ok(filter) => filter,
        Err(error) => {
            crate::output::tell(&format!("HOUSTON_LOG: {error}; logging `{DEFAULT}`"));
            EnvFilter::new(format!("{QUIET},{DEFAULT}"))
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

/// The filter as it was given, with the pool quiet unless it says something of sqlx itself.
fn read(given: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let is_asked = given != DEFAULT && given.contains("sqlx");
    EnvFilter::try_new(if is_asked { given.to_owned() } else { format!("{QUIET},{given}") })
}

#[cfg(test)]
mod tests {
    use tracing::level_filters::LevelFilter;

    use super::*;

    #[test]
    fn the_pool_is_quiet_unless_somebody_asks_for_it() {
        for given in [DEFAULT, "info", "warn,houston_worker=debug"] {
            let shown = read(given).unwrap().to_string();
            assert!(shown.contains("sqlx_core::pool=error") && shown.contains("sqlx::pool=error"), "{shown}");
        }
        assert_eq!(read(DEFAULT).unwrap().max_level_hint(), Some(LevelFilter::INFO));
        assert!(!read("info,sqlx=debug").unwrap().to_string().contains("pool"));
        assert!(read("info,=").is_err());
    }
}
