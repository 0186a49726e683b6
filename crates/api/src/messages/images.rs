//! Images of a message that is posted: they are checked and stored before it, and its text refers to them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use houston_domain::id::ImageId;
use houston_domain::image::{ImageHeader, MAX_IMAGE_BYTES, from_base64, with_references};
use houston_protocol::message::MessageImage;
use houston_store::image::NewImage;
use houston_web::{Client, ContentTypes, Limits, Request, Tls};

use super::post::check_content;
use crate::admission;
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::documents::DocumentPermit;
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::state::App;

/// What servers say that images are; the bytes decide.
const TYPES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "application/octet-stream",
    "binary/octet-stream",
];

/// The text of a message with references to its images, which are stored. Without images nothing is done. If the message was
/// posted before under `key`, its text is returned: the images are not fetched again, and may not be there any more.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when an image is not accepted, [`ApiError::Full`] when the user has too many bytes of images,
/// [`ApiError::NotFound`] when there is no such agentable, [`ApiError::MessageTooLarge`], [`ApiError::TooManyDocuments`] when there
/// is no memory for images that are fetched.
pub(crate) async fn with_images(
    app: &Arc<App>,
    caller: Caller,
    path: &AgentablePath,
    pointer: &str,
    (content, images): (String, &[MessageImage]),
    key: Option<&Key>,
) -> Result<String, ApiError> {
    if images.is_empty() {
        return Ok(content);
    }
    let limits = app.state.config.images;
    let most = limits.max_per_message;
    if images.len() > most {
        let why = format!("has {} images; at most {most} are allowed in one message", images.len());
        return Err(ApiError::field(pointer, why));
    }
    if let Some(key) = key
        && let Some(text) = app.store(caller).text_posted_before(key.as_stored()).await?
    {
        return Ok(text);
    }
    let user = app.store(caller).agentable(&path.kind, path.id).await?.user;
    // Those in the body have their memory already.
    let fetched = images.iter().filter(|image| image.url.is_some()).count();
    let _permit = match fetched * MAX_IMAGE_BYTES {
        0 => None,
        bytes => Some(DocumentPermit::new(app, caller.tenant(), bytes).await?),
    };
    let read = images.iter().enumerate().map(|(nth, image)| read(app, format!("{pointer}/{nth}"), image));
    let read = try_join_all(read).await?;
    let new: Vec<NewImage<'_>> = read
        .iter()
        .map(|(header, data)| NewImage { id: ImageId::of(user, data), header: *header, data })
        .collect();
    let content = with_references(&content, new.iter().map(|image| image.id));
    check_content(pointer, &content, false)?;
    app.store(caller).put_images((path.id, user), &new, limits.max_bytes_of_user).await?;
    Ok(content)
}

/// The bytes of an image, and what their header says.
async fn read(
    app: &Arc<App>,
    pointer: String,
    image: &MessageImage,
) -> Result<(ImageHeader, Vec<u8>), ApiError> {
    let refused = |why: String| ApiError::field(&pointer, why);
    let bytes = match image {
        MessageImage { data: Some(data), url: None } => {
            let data = data.clone();
            let decoded = app.offload.compute(move || from_base64(&data)).await?;
            decoded.map_err(|error| refused(error.to_string()))?
        }
        MessageImage { data: None, url: Some(url) } => fetch(app, url).await.map_err(refused)?,
        _ => return Err(refused("needs either `data` (Base64) or `url`".to_owned())),
    };
    let header = ImageHeader::read_whole(&bytes).map_err(|error| refused(error.to_string()))?;
    Ok((header, bytes))
}

/// Fetches an image from the public internet.
async fn fetch(app: &App, url: &str) -> Result<Vec<u8>, String> {
    let client = match app.images.get() {
        Some(client) => client,
        None => {
            let tls = Tls::system().map_err(|_| "images cannot be fetched: TLS does not start".to_owned())?;
            let limits = Limits {
                whole: Duration::from_secs(app.state.config.images.fetch_timeout_s.max(1)),
                body: MAX_IMAGE_BYTES + 1,
                ..Limits::default()
            };
            app.images.get_or_init(|| Client::guarded(tls).limits(limits).build())
        }
    };
    let mut request = Request::get(url);
    request.accepts = ContentTypes::TextAnd(TYPES);
    let response = admission::without_place(client.send(request)).await;
    let response = response.map_err(|error| format!("cannot be fetched: {error}"))?;
    if !response.status.is_success() {
        return Err(format!("cannot be fetched: its server answered {}", response.status));
    }
    Ok(response.body.to_vec())
}
