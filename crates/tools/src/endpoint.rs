//! [`EndpointTool`]: a customer's own HTTP endpoint as a tool.

use std::sync::Arc;

use houston_domain::guard::ToolFacts;
use houston_domain::masks::Masks;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_domain::tool_schema::in_form;
use houston_web::json_api::{Credentials, Effect, Endpoint, Problem, from_document};
use houston_web::webhook::Signer;
use houston_web::{Fault, Request, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::input::InvalidInput;
use crate::outside::{Failed, Web, code_of, sends_requests};
use crate::tool::{CallContext, Plan, SharedTool, Tool};
use crate::untrusted::marked;

/// Looks up the secret with this name; `None`: it is not set.
pub type Secrets<'s> = &'s dyn Fn(&str) -> Option<SecretString>;

/// The tools of a tenant's document of endpoints. They have a pin: a lasting yes does not hold for another endpoint that
/// later has the same name.
///
/// # Errors
/// [`Problem`] when the document cannot be read.
pub fn tools_of_document(
    document: &str,
    name: &str,
    secrets: Secrets<'_>,
    web: &Arc<Web>,
) -> Result<Vec<SharedTool>, Problem> {
    let pinned = |endpoint: Endpoint| -> SharedTool {
        let place_independent = Endpoint { at: String::new(), ..endpoint.clone() };
        let pin = hex::encode(Sha256::digest(format!("{place_independent:?}")));
        Arc::new(EndpointTool { pin: Some(pin), ..EndpointTool::new(endpoint, Arc::clone(web), secrets) })
    };
    Ok(from_document(document, name)?.endpoints.into_iter().map(pinned).collect())
}

/// Calls one endpoint. A request that is repeated after a crash carries the same key, if the endpoint has a header for it.
pub struct EndpointTool {
    definition: ToolDefinition,
    endpoint: Endpoint,
    web: Arc<Web>,
    secret: Option<SecretString>,
    signer: Option<Result<Signer, String>>,
    /// Its secrets, which a server may echo.
    masks: Arc<Masks>,
    pin: Option<String>,
}

impl EndpointTool {
    /// A missing secret is an error of each call, so that one endpoint does not keep the installation from starting.
    pub fn new(endpoint: Endpoint, web: Arc<Web>, secrets: Secrets<'_>) -> Self {
        let effect = match endpoint.effect {
            Effect::Read => EffectClass::Read,
            Effect::Idempotent => EffectClass::Idempotent,
            // With a key the server itself executes a repeated request once.
            Effect::Effect if endpoint.idempotency_header.is_some() => EffectClass::Idempotent,
            Effect::Effect => EffectClass::Effect,
        };
        let schema = in_form(&endpoint.schema().into());
        let definition = ToolDefinition::new(&endpoint.name, &endpoint.description, schema, effect);
        let secret = endpoint.auth.as_ref().and_then(|auth| secrets(&auth.secret));
        let signing = endpoint.signed_with.as_ref().map(|name| (name, secrets(name)));
        let of_signer = signing.as_ref().and_then(|(_, secret)| secret.as_ref());
        let masks = Arc::new(masks(secret.as_ref().into_iter().chain(of_signer)));
        let signer = signing.map(|(name, secret)| match secret {
            Some(secret) => Signer::new([&secret]).map_err(|error| format!("{name}: {error}")),
            None => Err(format!("the secret `{name}` is not set")),
        });
        Self { definition, endpoint, web, secret, signer, masks, pin: None }
    }

    fn request(&self, input: &Value, context: &CallContext) -> Result<Request, Failed> {
        let Value::Object(arguments) = input else {
            return Err(Failed::new(Fault::Invalid, "the arguments must be a JSON object".to_owned()));
        };
        let key = Some(context.idempotency_key.as_str());
        let credentials = Credentials { secret: self.secret.as_ref(), idempotency_key: key };
        let mut request = self.endpoint.request(arguments, credentials)?;
        if let Some(signer) = &self.signer {
            let signer = signer.as_ref().map_err(|reason| Failed::config(reason))?;
            let seconds = u64::try_from(context.now.timestamp()).unwrap_or_default();
            let headers = signer.headers(&context.idempotency_key, seconds, &request.body);
            request.headers.extend(headers.map_err(|error| Failed::config(&error.to_string()))?);
        }
        Ok(request)
    }
}

impl Tool for EndpointTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn pin(&self) -> Option<&str> {
        self.pin.as_deref()
    }

    fn facts(&self) -> ToolFacts {
        let reads = self.endpoint.effect == Effect::Read;
        ToolFacts { reads_private: reads, ..sends_requests(reads) }
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let request = match self.request(input, context) {
            Ok(request) => request,
            Err(failed) => return Ok(Plan::Answer(failed.of_read())),
        };
        let (web, reads) = (Arc::clone(&self.web), self.endpoint.effect == Effect::Read);
        let masks = Arc::clone(&self.masks);
        Ok(Plan::Execute(Box::pin(async move {
            match web.send(request).await {
                Ok(response) => answer(&response, &masks),
                Err(failed) if reads => failed.of_read(),
                Err(failed) => failed.of_write(),
            }
        })))
    }
}

/// The secrets of an endpoint; of `user:password` also the password by itself.
fn masks<'s>(secrets: impl Iterator<Item = &'s SecretString>) -> Masks {
    let texts = secrets.flat_map(|secret| {
        let text = secret.expose_secret();
        [Some(text), text.split_once(':').map(|(_, password)| password)].into_iter().flatten()
    });
    Masks::of(texts)
}

/// What the model reads: the body without the secrets of the request, with the status if it is an error.
fn answer(response: &Response, masks: &Masks) -> ToolResponse {
    let masked = masks.bytes(&response.body, response.is_cut);
    let body = String::from_utf8_lossy(masked.as_deref().unwrap_or(&response.body));
    let mut text = marked(response.url.host_str().unwrap_or_default(), &body);
    if response.is_cut {
        text.push_str("\n[the answer is longer: only its beginning was read]");
    }
    if response.status.is_success() {
        return ToolResponse::success(text);
    }
    ToolResponse::failure(
        code_of(response.status),
        format!("the server answered {}: {text}", response.status),
    )
}
