//! The environment, which only this program reads: libraries get what they need as arguments.

/// The folder with the data of embedded servers, unless --folder, HOUSTON_FOLDER or the program around Houston names another.
pub(crate) const DEFAULT_FOLDER: &str = ".houston";

/// An environment variable; `None` when it is not set or empty.
pub(crate) fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line is where the environment is read")]
    let value = std::env::var(name);
    value.ok().filter(|value| !value.is_empty())
}
