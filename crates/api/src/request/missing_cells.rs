//! Lists of all cells while one is away: what the others have, and a header that names the missing one.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponseParts, ResponseParts};
use futures_util::future::join_all;
use houston_domain::cell::CellName;

use crate::error::{ApiError, Result};
use crate::state::App;

/// Names the cells that did not answer, as the settings do: `0000-3fff, third`. Without it, the list is whole.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("houston-missing-cells");

/// The cells that did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) Vec<CellName>);

impl Missing {
    fn value(&self) -> Option<HeaderValue> {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok()).flatten()
    }
}

impl IntoResponseParts for Missing {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        if let Some(value) = self.value() {
            parts.headers_mut().insert(HEADER, value);
        }
        Ok(parts)
    }
}

/// Asks all cells at once. A cell that is unavailable is missing; if all are, so is the answer.
///
/// # Errors
/// [`ApiError::Unavailable`] when no cell answers; the first other error.
pub(crate) async fn across<T, F>(app: &Arc<App>, ask: impl Fn(Arc<App>) -> F) -> Result<(Vec<T>, Missing)>
where
    F: Future<Output = Result<T>>,
{
    let cells = app.cells_by_name();
    let answers = join_all(cells.iter().map(|(_, cell)| ask(Arc::clone(cell)))).await;
    let (mut found, mut missing, mut away) = (Vec::with_capacity(cells.len()), Missing::default(), None);
    for ((name, _), answer) in cells.iter().zip(answers) {
        match answer {
            Ok(answer) => found.push(answer),
            Err(error @ ApiError::Unavailable(_)) => {
                missing.0.push(name.clone());
                away = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match away {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok((found, missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_each_missing_cell() {
        let cells = |names: &[&str]| Missing(names.iter().map(|name| name.parse().unwrap()).collect());
        assert_eq!(cells(&[]).value(), None);
        assert_eq!(cells(&["0000-3fff", "third"]).value().unwrap(), "0000-3fff, third");
    }
}
