//! The address of an endpoint: a base URL and a path with `{parameters}`.

use url::Url;

/// The URL of an endpoint, with parameters in its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Scheme, host and port, without a slash at the end.
    origin: String,
    /// The segments of the path between slashes; each is text and parameters in turn.
    segments: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Percent-encoded.
    Text(String),
    Parameter(String),
}

impl Template {
    /// Joins a base, like `https://api.example.com/v2`, and a path, like `/orders/{id}`.
    ///
    /// # Errors
    /// A text that says what is wrong: the base is no http or https URL or has a user, query or fragment; braces that do
    /// not match; a segment that is `.` or `..`.
    pub fn new(base: &str, path: &str) -> Result<Self, String> {
        // Not quoted: it may contain a password.
        let url = Url::parse(base).map_err(|error| {
            format!("the base is not a URL ({error}): write it like `https://api.example.com/v2`")
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "the base has the scheme `{}`: only http and https are allowed",
                url.scheme()
            ));
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || url.query().is_some() || url.fragment().is_some() {
            return Err(
                "the base has a user, a query or a fragment: only scheme, host, port and path are allowed"
                    .to_owned(),
            );
        }
        if path.contains(['?', '#']) {
            return Err(format!(
                "the path `{path}` has a query or a fragment: describe query parameters as parameters"
            ));
        }
        let base_path = url.path().trim_matches('/');
        let path = path.strip_prefix('/').unwrap_or(path);
        let mut segments = Vec::new();
        for segment in base_path.split('/').filter(|segment| !segment.is_empty()) {
            // `url` has encoded it; braces in the base are not parameters.
            segments.push(vec![Piece::Text(segment.to_owned())]);
        }
        for segment in path.split('/') {
            segments.push(pieces(segment)?);
        }
        Ok(Self { origin: url.origin().ascii_serialization(), segments })
    }

    /// The names of the parameters, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().flatten().filter_map(|piece| match piece {
            Piece::Parameter(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The URL with values, which `value` gives.
    ///
    /// # Errors
    /// Those of `value`, and a text if values change the structure of the path.
    pub(super) fn filled<E: From<String>>(
        &self,
        mut value: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Url, E> {
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            for piece in segment {
                match piece {
                    Piece::Text(text) => path.push_str(text),
                    Piece::Parameter(name) => path.push_str(&encoded(&value(name)?)),
                }
            }
        }
        let whole = format!("{}{path}", self.origin);
        let url = Url::parse(&whole).map_err(|error| E::from(error.to_string()))?;
        // What is sent is what was put together: no segment was dropped, moved or read as `..`.
        if url.path() != path || url.origin().ascii_serialization() != self.origin {
            return Err(E::from(
                "the values change the structure of the path, which is not allowed".to_owned(),
            ));
        }
        Ok(url)
    }
}

fn pieces(segment: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = segment;
    while let Some((text, parameter)) = rest.split_once('{') {
        let Some((name, after)) = parameter.split_once('}') else {
            return Err(format!("`{segment}` has a `{{` without a `}}`"));
        };
        if name.is_empty() || name.contains('{') {
            return Err(format!("`{segment}` has a parameter without a name"));
        }
        pieces.extend(text_piece(text)?);
        pieces.push(Piece::Parameter(name.to_owned()));
        rest = after;
    }
    pieces.extend(text_piece(rest)?);
    if let [Piece::Text(text)] = pieces.as_slice()
        && is_dots(text)
    {
        return Err(format!("the path has the segment `{segment}`: write the path without it"));
    }
    Ok(pieces)
}

/// A literal part of a path. What is percent-encoded already stays so.
fn text_piece(text: &str) -> Result<Option<Piece>, String> {
    if text.contains(['}', '\\']) || text.chars().any(char::is_control) {
        return Err(format!("`{text}` has a character that a path cannot have"));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte);
    let encoded: String = text
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { hex(byte) })
        .collect();
    Ok((!encoded.is_empty()).then_some(Piece::Text(encoded)))
}

/// Whether a URL parser reads a segment as `.` or `..`; it decodes dots first.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

/// A value, percent-encoded except for the unreserved characters of RFC 3986.
pub(super) fn encoded(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { hex(byte) }).collect()
}

fn hex(byte: u8) -> String {
    format!("%{byte:02X}")
}
