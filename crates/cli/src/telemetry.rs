//! Logs, on stderr: text at a terminal, JSON lines otherwise.

use std::fmt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::config::LogFormat;
use crate::output::{LogWriter, Stream, is_terminal};

/// The default filter.
const DEFAULT: &str = "info,sqlx=warn,hyper=warn,apalis=warn,tokio_cron_scheduler=warn";
/// The default filter at a terminal: info lines would hide warnings.
const AT_TERMINAL: &str = "warn";
/// The default filter of commands other than services.
const ERRORS: &str = "error";

/// While Postgres is unreachable, sqlx's pool warns for each connection and each waiting caller. The callers log the
/// failure themselves. For each connection to a standby or a former primary, which is refused, it even logs an error.
const QUIET: &str = "sqlx::pool=error,sqlx_core::pool=off";

/// The default filter of a command, when HOUSTON_LOG is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors only: the command prints its own messages.
    Errors,
    /// The log of a service; at a terminal only warnings and errors.
    Service,
    /// The log of a service and of each request, at a terminal too.
    Verbose,
}

/// Starts logging. A filter that cannot be parsed is reported, and the default is used.
pub(crate) fn start(filter: Option<&str>, format: Option<LogFormat>, verbosity: Verbosity) {
    let terminal = is_terminal(Stream::Err);
    let default = match verbosity {
        Verbosity::Errors => ERRORS,
        Verbosity::Service if terminal => AT_TERMINAL,
        Verbosity::Service | Verbosity::Verbose => DEFAULT,
    };
    let filter = match read(filter.unwrap_or(default)) {
        Ok(filter) => filter,
        Err(error) => {
            crate::output::print_stderr(&format!(
                "HOUSTON_LOG is invalid: {error}; logging `{default}` instead"
            ));
            EnvFilter::new(format!("{QUIET},{default}"))
        }
    };
    let json = format.map_or(!terminal, |format| format == LogFormat::Json);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| LogWriter);
    // Fails only when logging was started before, as in tests; then the first subscriber stays.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else if terminal {
        builder.with_ansi(true).with_target(false).with_timer(Clock).compact().try_init()
    } else {
        builder.with_ansi(false).with_target(false).try_init()
    };
}

/// Writes the local time of day.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        use houston_domain::clock::{Clock as _, SystemClock};
        write!(writer, "{}", SystemClock.now().with_timezone(&chrono::Local).format("%H:%M:%S"))
    }
}

/// Parses a filter; the pool is quiet unless the filter names sqlx.
fn read(given: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let is_asked = ![DEFAULT, AT_TERMINAL].contains(&given) && given.contains("sqlx");
    EnvFilter::try_new(if is_asked { given.to_owned() } else { format!("{QUIET},{given}") })
}

#[cfg(test)]
mod tests {
    use tracing::level_filters::LevelFilter;

    use super::*;

    #[test]
    fn pool_is_quiet_unless_the_filter_names_sqlx() {
        for given in [DEFAULT, AT_TERMINAL, "info", "warn,houston_worker=debug"] {
            let shown = read(given).unwrap().to_string();
            assert!(shown.contains("sqlx_core::pool=off") && shown.contains("sqlx::pool=error"), "{shown}");
        }
        assert_eq!(read(DEFAULT).unwrap().max_level_hint(), Some(LevelFilter::INFO));
        assert!(!read("info,sqlx=debug").unwrap().to_string().contains("pool"));
        assert!(read("info,=").is_err());
    }
}
