//! Fields in JSON that say something else if they are null than if they are absent.

use serde::{Deserialize, Deserializer};

/// Reads a field that may be absent (`None`), null (`Some(None)`) or given; with `#[serde(default)]`.
///
/// # Errors
/// Those of `T`.
pub fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}
