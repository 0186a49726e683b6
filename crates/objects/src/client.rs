//! [`Connector`]: the HTTP client of a store. The one that object_store would make brings HTTP/2 into the program, and then
//! speaks HTTP/1.1.

use std::error::Error as _;
use std::io::ErrorKind;
use std::iter::successors;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::BodyExt as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};

/// Until a connection is there, at most.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// For one request with its body.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(20);

/// Makes clients: one for the store, and one for the credentials of the machine, which are asked for without TLS and with less
/// patience.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http =
            options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|set| set == "true");
        let seconds = |key| options.get_config_value(key)?.strip_suffix('s')?.parse().ok();
        let connect = seconds(&ClientConfigKey::ConnectTimeout).map_or(CONNECT_TIME, Duration::from_secs);
        let client = reqwest::Client::builder()
            .user_agent(concat!("houston/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect.min(CONNECT_TIME))
            .timeout(REQUEST_TIME)
            .https_only(!allows_http)
            .http1_only()
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP client",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(Client(client)))
    }
}

#[derive(Debug)]
struct Client(reqwest::Client);

impl HttpService for Client {
    fn call<'c, 'f>(
        &'c self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let url = parts.uri.to_string().parse();
            let url = url.map_err(|error: url::ParseError| HttpError::new(HttpErrorKind::Unknown, error))?;
            let mut request = reqwest::Request::new(parts.method, url);
            *request.headers_mut() = parts.headers;
            *request.body_mut() = Some(match body.as_bytes() {
                Some(bytes) => bytes.clone().into(),
                None => reqwest::Body::wrap(body),
            });
            let answer = self.0.execute(request).await.map_err(failed)?;
            let (parts, body) = http::Response::from(answer).into_parts();
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(failed))))
        })
    }
}

/// The error with its kind, which says whether the request is repeated.
fn failed(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_decode() {
        HttpErrorKind::Decode
    } else {
        let mut causes = successors(error.source(), |&cause| cause.source());
        causes.find_map(kind_of).unwrap_or(HttpErrorKind::Unknown)
    };
    // The caller names the URL.
    HttpError::new(kind, error.without_url())
}

fn kind_of(cause: &(dyn std::error::Error + 'static)) -> Option<HttpErrorKind> {
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        if error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted() {
            return Some(HttpErrorKind::Request);
        }
        return error.is_timeout().then_some(HttpErrorKind::Timeout);
    }
    match cause.downcast_ref::<std::io::Error>()?.kind() {
        ErrorKind::TimedOut => Some(HttpErrorKind::Timeout),
        ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionReset
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => Some(HttpErrorKind::Interrupted),
        _ => None,
    }
}
