//! Guards of the tenant, of users, agents and agentables: what agents may do with their tools, below what the operator
//! allows. `PUT` with `{}` removes them. A change applies from the next run on.

pub(crate) mod get;
pub(crate) mod set;

use std::fmt;

use houston_domain::guard::{GuardSettings, Layer};
use houston_store::guards::GuardOwner;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::error::ApiError;
use crate::state::App;

/// Maximum length of the settings of one layer, as JSON, in bytes. With the limits of [`Layer`] it bounds what a process
/// keeps of it.
const MAX_BYTES: usize = 32 * 1024;

/// Settings in a body. Unlike those of a file they could be a list, which serde reads as the first keys.
#[derive(Debug)]
pub(crate) struct Given(GuardSettings);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Given;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of the shape of jobs/guards.toml")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given, A::Error> {
                GuardSettings::deserialize(MapAccessDeserializer::new(map)).map(Given)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// Checks settings by compiling them.
async fn check(app: &App, owner: GuardOwner, guards: GuardSettings) -> Result<GuardSettings, ApiError> {
    let checked = move || {
        let bytes = serde_json::to_vec(&guards).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_BYTES {
            let detail = format!("must have at most {MAX_BYTES} bytes as JSON; given: {bytes}");
            return Err(ApiError::field("", detail));
        }
        let (layer, name) = (owner.layer(), owner.layer().as_str());
        Layer::compile(layer, name, &guards).map_err(|error| ApiError::field("", error.to_string()))?;
        Ok(guards)
    };
    // Compiling many patterns takes too long for a thread of the runtime.
    app.offload.compute(checked).await?
}
