//! Scripts, styles and the mark: in the binary, under names with their hash, so that browsers keep them for ever.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::Console;

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

/// `GET {prefix}/assets/{version}/{name}`. A page of an older release may ask for an older version: it gets the present one, and
/// keeps it no longer than the page lives.
pub(crate) async fn get(
    State(_): State<crate::router::Site>,
    Path((asked, name)): Path<(String, String)>,
) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return (StatusCode::NOT_FOUND, "There is no such file.\n").into_response();
    };
    let is_present = version(file.bytes) == asked;
    let caching = if is_present { "public, max-age=31536000, immutable" } else { "no-store" };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(file.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
    ];
    (headers, file.bytes).into_response()
}

impl Console {
    pub(crate) fn assets(&self) -> &Assets {
        &self.0.assets
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(media_type: &str) -> usize {
        let files = FILES.iter().filter(|file| file.media_type == media_type);
        let sizes = files.map(|file| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(file.bytes).unwrap();
            encoder.finish().unwrap().len()
        });
        sizes.sum()
    }

    #[test]
    fn scripts_and_styles_stay_small() {
        let (scripts, styles) = (compressed(SCRIPT), compressed(CSS));
        assert!(scripts <= 60 * 1024 && styles <= 20 * 1024, "{scripts} and {styles} bytes");
    }
}
