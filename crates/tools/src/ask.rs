//! [`Ask`]: a call that asks a model. Who drives the run asks it, within the budget, and counts what it costs; this crate calls no
//! model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use houston_domain::id::{ImageId, ResultId};
use houston_domain::image::ImageType;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_domain::workspace::WorkspacePath;
use serde_json::Value;

use crate::untrusted::{is_marked, marked};

/// The use case of calls about texts.
pub const TOOLS: &str = "tools";
/// The use case of calls about images.
pub const VISION: &str = "vision";

/// What a model is asked.
pub struct Ask {
    /// The tool that asks.
    pub tool: &'static str,
    /// The use case that names the model: [`TOOLS`] or [`VISION`].
    pub use_case: &'static str,
    /// What it reads in any case.
    pub instructions: &'static str,
    /// What it is to do with the material.
    pub task: String,
    /// What it works on.
    pub material: Material,
    /// The schema of the answer, if it must be JSON.
    pub schema: Option<Value>,
    /// Bytes of text that it reads at most.
    pub max_bytes: usize,
    /// Tokens that it may write.
    pub max_output_tokens: u32,
}

/// What a model works on.
pub enum Material {
    /// A text.
    Text(TextSource),
    /// An image, and what says where it comes from.
    Image(String, BoxFuture<'static, Result<Image, ToolResponse>>),
    /// An image that the user has posted.
    Posted(ImageId),
}

impl Material {
    /// Nothing, in the place of what was taken out.
    pub fn given() -> Self {
        Self::Text(TextSource::Given(String::new()))
    }
}

/// Where a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSource {
    /// In the arguments.
    Given(String),
    /// In the workspace.
    File(WorkspacePath),
    /// In a large result.
    Result(ResultId),
}

/// A text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The text.
    pub text: String,
    /// Whether strangers wrote it.
    pub untrusted: bool,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`.
    pub media_type: &'static str,
    /// Its bytes, in Base64.
    pub base64: String,
}

/// Bytes of an image: what all providers take.
pub const MAX_IMAGE_BYTES: usize = 4 << 20;

impl Image {
    /// An image, if its first bytes are those of a type that models see.
    ///
    /// # Errors
    /// What is allowed, for the model.
    pub fn of(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_IMAGE_BYTES {
            return Err(format!("it has {} bytes; at most {MAX_IMAGE_BYTES} are allowed", bytes.len()));
        }
        let image_type =
            ImageType::of(bytes).ok_or_else(|| "it is no PNG, JPEG, WebP or GIF image".to_owned())?;
        let media_type = image_type.as_str();
        Ok(Self { media_type, base64: STANDARD.encode(bytes) })
    }
}

impl TextSource {
    /// The source, for people and models.
    pub fn name(&self) -> String {
        match self {
            Self::Given(_) => "text".to_owned(),
            Self::File(path) => path.to_string(),
            Self::Result(id) => id.to_string(),
        }
    }
}

impl SourceText {
    /// A text of a source; `untrusted`: whether it was stored as what strangers wrote.
    pub fn new(text: String, untrusted: bool) -> Self {
        let untrusted = untrusted || is_marked(&text);
        Self { text, untrusted }
    }
}

impl Ask {
    /// What the model is asked about a text: the text between marks that it cannot end, and the task.
    ///
    /// # Errors
    /// The response, if the text is empty or too long.
    pub fn question(&self, source: &str, text: &str) -> Result<String, ToolResponse> {
        let (tool, max) = (self.tool, self.max_bytes);
        let refused = |why: String| Err(ToolResponse::failure(ToolErrorCode::ValidationError, why));
        if text.trim().is_empty() {
            return refused(format!("{tool}: the text is empty"));
        }
        if text.len() > max {
            let length = text.len();
            return refused(format!(
                "{tool}: the text has {length} bytes; at most {max} are allowed: give its parts one after the other, as `text`"
            ));
        }
        Ok(format!("{}\n\n{}", marked(source, text), self.task))
    }

    /// The response: what the model answered, between marks if what it worked on was written by strangers.
    pub fn response(&self, source: &str, untrusted: bool, answer: &str) -> ToolResponse {
        ToolResponse::success(if untrusted { marked(source, answer) } else { answer.to_owned() })
    }

    /// The response if the text does not exist.
    pub fn missing(&self, source: &TextSource) -> ToolResponse {
        let (tool, name) = (self.tool, source.name());
        ToolResponse::failure(
            ToolErrorCode::NotFound,
            format!("{tool}: there is no `{name}` that you may read"),
        )
    }
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").field("tool", &self.tool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        let of = |bytes: &[u8]| Image::of(bytes).map(|image| image.media_type);
        assert_eq!(of(b"\x89PNG\r\n\x1a\n..."), Ok("image/png"));
        assert_eq!(of(b"\xff\xd8\xff\xe0"), Ok("image/jpeg"));
        assert_eq!(of(b"GIF89a.."), Ok("image/gif"));
        assert_eq!(of(b"RIFF\0\0\0\0WEBPVP8 "), Ok("image/webp"));
        for other in [b"<svg xmlns=''>".as_slice(), b"", b"RIFF\0\0\0\0WAVE", b"%PDF-1.7"] {
            assert!(of(other).unwrap_err().contains("PNG, JPEG, WebP or GIF"));
        }
        assert!(Image::of(&vec![0; MAX_IMAGE_BYTES + 1]).unwrap_err().contains("at most 4194304"));
        assert_eq!(Image::of(b"GIF89a").unwrap().base64, "R0lGODlh");
    }
}
