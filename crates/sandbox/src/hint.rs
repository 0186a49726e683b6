//! Hints for code that expects another environment. They explain an error; nothing is refused because of them.

const NO_MODULES: &str =
    "There are no modules: no require, import or export. Everything must be in this code.";

/// Names that code expects to exist, and what to do instead.
const HINTS: [(&[&str], &str); 8] = [
    (&["require", "module", "exports"], NO_MODULES),
    (&["process"], "There is no `process`. End with `return`; there are no arguments and no environment."),
    (
        &["fetch", "XMLHttpRequest", "WebSocket", "axios", "navigator"],
        "There is no network. Call a tool that reaches it, if one is offered in `tools`.",
    ),
    (&["fs", "path", "os", "Deno", "Bun"], "There are no files and no system."),
    (&["document", "window", "localStorage", "alert", "prompt"], "There is no browser. Use `return`."),
    (&["Buffer"], "There is no Buffer. Use Uint8Array, TextEncoder, TextDecoder, atob and btoa."),
    (&["Intl"], "There is no Intl. Format dates and numbers by hand."),
    (
        &["WebAssembly", "Worker", "SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry"],
        "There are no threads, no WebAssembly and no weak references.",
    ),
];

/// The hint for a script that failed with `message`.
pub(crate) fn hint(message: &str) -> Option<String> {
    let is_syntax = message.starts_with("SyntaxError");
    if message.contains("could not load module")
        || is_syntax && (message.contains("import") || message.contains("export"))
    {
        return Some(NO_MODULES.to_owned());
    }
    let (before, _) = message.split_once(" is not defined")?;
    let name = before.rsplit(' ').next()?.trim_matches(['\'', '"', '`']);
    HINTS.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| (*hint).to_owned())
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn missing_environment_is_explained() {
        let of = |message| hint(message).unwrap_or_default();
        assert!(of("ReferenceError: require is not defined").contains("no modules"));
        assert!(of("ReferenceError: 'process' is not defined").contains("`return`"));
        assert!(of("ReferenceError: fetch is not defined").contains("no network"));
        assert!(of("ReferenceError: could not load module 'os'").contains("no modules"));
    }

    #[test]
    fn unrelated_errors_get_no_hint() {
        assert_eq!(hint("TypeError: cannot read property 'x' of null"), None);
        assert_eq!(hint("ReferenceError: total is not defined"), None);
        assert_eq!(hint("ToolError: the import failed"), None);
    }
}
