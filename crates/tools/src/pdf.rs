//! [`PdfReader`]: the text of PDFs that users post, for models that take none.

use houston_sandbox::{Conversion, Converted, Sandbox};

/// Reads PDFs in the sandbox. By default there is none, and no PDF is read.
#[derive(Debug, Clone, Default)]
pub struct PdfReader(Option<Sandbox>);

impl PdfReader {
    /// One that uses this sandbox, if the machine has one.
    #[must_use]
    pub fn new(sandbox: Option<Sandbox>) -> Self {
        Self(sandbox)
    }

    /// At most `most` bytes of the text, and whether there was more.
    ///
    /// # Errors
    /// Why it cannot be read, in words for a model.
    pub async fn text(&self, pdf: &[u8], most: usize) -> Result<(String, bool), String> {
        let Some(sandbox) = &self.0 else {
            return Err("this installation has no sandbox to read PDFs in".to_owned());
        };
        match sandbox.convert(Conversion::PdfToText, pdf, most).await {
            Ok(Converted::Text { text, .. }) if text.trim().is_empty() => {
                Err("it has no text, maybe only images of pages".to_owned())
            }
            Ok(Converted::Text { text, cut }) => Ok((text, cut)),
            Ok(Converted::Unreadable(reason)) => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    }
}
