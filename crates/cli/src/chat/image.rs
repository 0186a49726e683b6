//! Images that are posted with a message: read from files, and checked before anything is sent.

use std::path::Path;

use houston_domain::id::{ImageId, UserId};
use houston_domain::image::{ImageHeader, MAX_IMAGE_BYTES, to_base64};
use houston_protocol::message::MessageImage;

use super::error::ChatError;

/// The image in a file, and the id that it has when `user` posts it.
///
/// # Errors
/// [`ChatError::Image`]: the file cannot be read, or is no image that is accepted.
pub(crate) fn read(path: &Path, user: UserId) -> Result<(MessageImage, ImageId), ChatError> {
    let wrong = |why: String| ChatError::Image { path: path.to_owned(), why };
    let bytes = bytes(path).map_err(|error| wrong(error.to_string()))?;
    ImageHeader::read(&bytes).map_err(|error| wrong(error.to_string()))?;
    let image = MessageImage { data: Some(to_base64(&bytes)), url: None };
    Ok((image, ImageId::of(user, &bytes)))
}

/// The bytes of a file; one more than an image may have, if there are more.
fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_IMAGE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
