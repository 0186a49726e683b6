//! Scripts, styles and the mark: in the binary, under names with their hash, so that browsers keep them for ever.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// A file of `assets/`.
struct File {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const FILES: [File; 6] = [
    File { name: "console.css", media_type: CSS, bytes: include_bytes!("../assets/console.css") },
    File { name: "console.js", media_type: SCRIPT, bytes: include_bytes!("../assets/console.js") },
    File { name: "htmx.min.js", media_type: SCRIPT, bytes: include_bytes!("../assets/htmx.min.js") },
    File { name: "uplot.min.js", media_type: SCRIPT, bytes: include_bytes!("../assets/uplot.min.js") },
    File { name: "uplot.min.css", media_type: CSS, bytes: include_bytes!("../assets/uplot.min.css") },
    File { name: "mark.svg", media_type: "image/svg+xml", bytes: include_bytes!("../assets/mark.svg") },
];

/// The paths of the files, for templates.
#[derive(Debug, Clone)]
pub(crate) struct Assets {
    pub(crate) css: String,
    pub(crate) js: String,
    pub(crate) htmx: String,
    pub(crate) uplot: String,
    pub(crate) uplot_css: String,
    pub(crate) mark: String,
}

impl Assets {
    pub(crate) fn new(prefix: &str) -> Self {
        let [css, js, htmx, uplot, uplot_css, mark] =
            FILES.map(|file| format!("{prefix}/assets/{}/{}", version(file.bytes), file.name));
        Self { css, js, htmx, uplot, uplot_css, mark }
    }
}

fn version(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// The files, compressed with gzip when the first is asked for.
static COMPRESSED: LazyLock<[Vec<u8>; FILES.len()]> = LazyLock::new(|| FILES.map(|file| gzip(file.bytes)));

/// Empty if it fails: the file is sent as it is then.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Whether a client takes what is compressed with gzip. `gzip;q=0` says that it does not.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

/// `GET {prefix}/assets/{version}/{name}`. A page of an older release may ask for an older version: it gets the present one, and
/// keeps it no longer than the page lives. A file never changes under its address, so that no browser asks whether it has.
pub(crate) async fn get(
    State(_): State<crate::Site>,
    Path((asked, name)): Path<(String, String)>,
    accepts: HeaderMap,
) -> Response {
    let Some((file, compressed)) = FILES.iter().zip(COMPRESSED.iter()).find(|(file, _)| file.name == name)
    else {
        return (StatusCode::NOT_FOUND, "There is no such file.\n").into_response();
    };
    let is_present = version(file.bytes) == asked;
    let caching = if is_present { "public, max-age=31536000, immutable" } else { "no-store" };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(file.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if compressed.is_empty() || !takes_gzip(&accepts) {
        return (headers, file.bytes).into_response();
    }
    let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
    (headers, encoding, compressed.as_slice()).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use chrono::DateTime;
    use flate2::read::GzDecoder;
    use houston_domain::clock::ManualClock;
    use tower::ServiceExt as _;

    use super::*;
    use crate::session::tests::console;

    fn compressed(media_type: &str) -> usize {
        let files = FILES.iter().zip(COMPRESSED.iter()).filter(|(file, _)| file.media_type == media_type);
        files.map(|(_, compressed)| compressed.len()).sum()
    }

    #[test]
    fn scripts_and_styles_stay_small() {
        let (scripts, styles) = (compressed(SCRIPT), compressed(CSS));
        assert!(scripts > 0 && styles > 0, "{scripts} and {styles} bytes");
        assert!(scripts <= 60 * 1024 && styles <= 20 * 1024, "{scripts} and {styles} bytes");
    }

    #[tokio::test]
    async fn files_are_compressed_for_those_who_take_it() {
        let routes = console(&ManualClock::at(DateTime::UNIX_EPOCH), 1).alone(Router::new());
        for (accepts, is_compressed) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0, br", false),
            ("identity", false),
        ] {
            let request = Request::get("/ops/assets/0/console.js").header(header::ACCEPT_ENCODING, accepts);
            let response = routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.headers()[header::VARY], "accept-encoding", "{accepts}");
            assert_eq!(response.headers().contains_key(header::CONTENT_ENCODING), is_compressed, "{accepts}");
            let sent = to_bytes(response.into_body(), 1_000_000).await.unwrap();
            let mut script = Vec::new();
            if is_compressed {
                GzDecoder::new(&sent[..]).read_to_end(&mut script).unwrap();
            } else {
                script.extend_from_slice(&sent);
            }
            assert_eq!(script, include_bytes!("../assets/console.js"), "{accepts}");
        }
    }
}
