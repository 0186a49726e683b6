//! A request from a definition, arguments and credentials.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use url::Url;

use super::argument::{self, given, missing};
use super::template::encoded;
use super::{Auth, Body, Endpoint, Location, Parameter, Scheme};
use crate::error::{Failure, Fault};
use crate::request::{OF_THE_CONNECTION, Request};

/// What a request needs besides arguments; a model chooses none of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials<'c> {
    /// The secret that [`Auth::secret`] names.
    pub secret: Option<&'c SecretString>,
    /// A key that is the same when the same call is repeated.
    pub idempotency_key: Option<&'c str>,
}

/// Whether a header is set by Houston or the connection, so that no parameter may set it.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    const OF_HOUSTON: [HeaderName; 5] = [
        header::AUTHORIZATION,
        header::CONTENT_ENCODING,
        header::CONTENT_TYPE,
        header::COOKIE,
        header::USER_AGENT,
    ];
    let text = name.as_str();
    OF_THE_CONNECTION.contains(name)
        || OF_HOUSTON.contains(name)
        || ["webhook-", "proxy-", "x-forwarded-"].iter().any(|prefix| text.starts_with(prefix))
        // Servers read the method or the path from these.
        || ["forwarded", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"].contains(&text)
}

impl Endpoint {
    /// The request that a call makes. Send it through [`crate::Client::guarded`]; if [`Endpoint::signed_with`] is set,
    /// add the headers of [`crate::webhook::Signer::headers`] first.
    ///
    /// # Errors
    /// [`Failure`], which names the argument or the secret.
    pub fn request(
        &self,
        arguments: &Map<String, Value>,
        credentials: Credentials<'_>,
    ) -> Result<Request, Failure> {
        argument::check(self, arguments)?;
        let mut request = Request::new(self.method.clone(), self.filled_url(arguments)?);
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(header::ACCEPT, json.clone());
        for (parameter, value) in self.values(arguments, Location::Header) {
            let name = HeaderName::try_from(&parameter.name);
            let value = HeaderValue::try_from(argument::text(parameter, value)?);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(no_header(&parameter.name));
            };
            request.headers.insert(name, value);
        }
        if let Some(body) = self.json_body(arguments) {
            request.body = Bytes::from(body.to_string());
            request.headers.insert(header::CONTENT_TYPE, json);
        }
        if let (Some(name), Some(key)) = (&self.idempotency_header, credentials.idempotency_key) {
            let value = HeaderValue::try_from(key);
            request.headers.insert(name, value.map_err(|_| no_header(name.as_str()))?);
        }
        match &self.auth {
            Some(auth) => auth.set(request, credentials.secret),
            None => Ok(request),
        }
    }

    fn filled_url(&self, arguments: &Map<String, Value>) -> Result<Url, Failure> {
        let mut url = self.url.filled(|name| {
            let mut values = self.values(arguments, Location::Path);
            match values.find(|(parameter, _)| parameter.name == name) {
                Some((parameter, value)) => argument::text(parameter, value),
                None => Err(missing(name)),
            }
        })?;
        let mut pairs = Vec::new();
        for (parameter, value) in self.values(arguments, Location::Query) {
            let name = encoded(&parameter.name);
            let Value::Array(items) = value else {
                pairs.push(format!("{name}={}", encoded(&argument::text(parameter, value)?)));
                continue;
            };
            let texts: Result<Vec<String>, Failure> =
                items.iter().map(|item| argument::text(parameter, item).map(|text| encoded(&text))).collect();
            let texts = texts?;
            if parameter.repeats {
                pairs.extend(texts.into_iter().map(|text| format!("{name}={text}")));
            } else if !texts.is_empty() {
                // The commas between are not encoded, those inside of a value are.
                pairs.push(format!("{name}={}", texts.join(",")));
            }
        }
        if !pairs.is_empty() {
            url.set_query(Some(&pairs.join("&")));
        }
        Ok(url)
    }

    fn json_body(&self, arguments: &Map<String, Value>) -> Option<Value> {
        match &self.body {
            Body::Whole { schema, .. } => given(arguments, "body", schema).cloned(),
            Body::Fields if !self.has_body() => None,
            Body::Fields => {
                let fields = self.values(arguments, Location::Body);
                Some(fields.map(|(parameter, value)| (parameter.name.clone(), value.clone())).collect())
            }
        }
    }

    /// The parameters of a location for which there is a value.
    fn values<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        location: Location,
    ) -> impl Iterator<Item = (&'a Parameter, &'a Value)> {
        let at = self.parameters.iter().filter(move |parameter| parameter.location == location);
        at.filter_map(|parameter| {
            Some((parameter, given(arguments, &parameter.argument, &parameter.schema)?))
        })
    }
}

impl Auth {
    fn set(&self, request: Request, secret: Option<&SecretString>) -> Result<Request, Failure> {
        let Some(secret) = secret else {
            let text =
                format!("the secret `{}` is not set: without it this endpoint cannot be called", self.secret);
            return Err(Failure::new(Fault::Config, text));
        };
        let bad = |_| no_header(self.header.as_str());
        match &self.scheme {
            Scheme::Prefix(prefix) => request.secret(self.header.clone(), prefix, secret).map_err(bad),
            Scheme::Basic => {
                let encoded = SecretString::from(STANDARD.encode(secret.expose_secret()));
                request.secret(self.header.clone(), "Basic ", &encoded).map_err(bad)
            }
        }
    }
}

/// A secret or a key with characters that no header can have.
fn no_header(name: &str) -> Failure {
    let text = format!("the value for the header `{name}` has characters that a header cannot have");
    Failure::new(Fault::Config, text)
}
