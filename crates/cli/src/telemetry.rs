//! Logs, on stderr: for people at a terminal, JSON lines otherwise.

use std::fmt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::config::LogFormat;
use crate::output::{LogWriter, Stream, is_terminal};

/// What is logged when nobody says otherwise.
const DEFAULT: &str = "info,sqlx=warn,hyper=warn,apalis=warn,tokio_cron_scheduler=warn";
/// The same at a terminal, where whatever goes as it should would hide what matters.
const AT_TERMINAL: &str = "warn";
/// Of a command whose output is what somebody asked for.
const ERRORS: &str = "error";

/// A pool whose Postgres is away warns once for each connection and each caller that waits for one: whoever asked
/// for it says what came of that.
const QUIET: &str = "sqlx::pool=error,sqlx_core::pool=error";

/// How much a command logs when HOUSTON_LOG does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors: the command says itself what it does.
    Errors,
    /// What a service does; at a terminal only what goes wrong.
    Service,
    /// What a service does and each request, at a terminal too.
    Verbose,
}

/// Starts logging. A filter that cannot be read is told of, and the default is used.
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
            crate::output::tell(&format!("HOUSTON_LOG: {error}; logging `{default}`"));
            EnvFilter::new(format!("{QUIET},{default}"))
        }
    };
    let json = format.map_or(!terminal, |format| format == LogFormat::Json);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| LogWriter);
    // Set twice only in tests, where the first one stays.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else if terminal {
        builder.with_ansi(true).with_target(false).with_timer(Clock).compact().try_init()
    } else {
        builder.with_ansi(false).with_target(false).try_init()
    };
}

/// The time of day here.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        use houston_domain::clock::{Clock as _, SystemClock};
        write!(writer, "{}", SystemClock.now().with_timezone(&chrono::Local).format("%H:%M:%S"))
    }
}

/// The filter as it was given, with the pool quiet unless it says something of sqlx itself.
fn read(given: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let is_asked = ![DEFAULT, AT_TERMINAL].contains(&given) && given.contains("sqlx");
    EnvFilter::try_new(if is_asked { given.to_owned() } else { format!("{QUIET},{given}") })
}

#[cfg(test)]
mod tests {
    use tracing::level_filters::LevelFilter;

    use super::*;

    #[test]
    fn the_pool_is_quiet_unless_somebody_asks_for_it() {
        for given in [DEFAULT, AT_TERMINAL, "info", "warn,houston_worker=debug"] {
            let shown = read(given).unwrap().to_string();
            assert!(shown.contains("sqlx_core::pool=error") && shown.contains("sqlx::pool=error"), "{shown}");
        }
        assert_eq!(read(DEFAULT).unwrap().max_level_hint(), Some(LevelFilter::INFO));
        assert!(!read("info,sqlx=debug").unwrap().to_string().contains("pool"));
        assert!(read("info,=").is_err());
    }
}
