//! [`Images`]: the images that messages of a history refer to, as a model is sent them.
//!
//! A history without them costs a search of its new texts, and nothing is read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::ImageId;
use houston_domain::image::{ContextImages, SentImage, is_shown, references};

use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// A reference to an image.
#[derive(Debug, Clone, Copy)]
struct Mention {
    entry: usize,
    block: usize,
    image: ImageId,
}

/// What is known of an image.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Its length; 0: the user has no such image.
    bytes: usize,
    /// It, while it is sent.
    image: Option<SentImage>,
}

/// The images of a history.
#[derive(Debug, Default)]
pub(super) struct Images {
    limits: ContextImages,
    /// How many entries were searched.
    searched: usize,
    mentions: Vec<Mention>,
    known: BTreeMap<ImageId, Known>,
}

impl Images {
    pub(super) fn new(limits: ContextImages) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The history was replaced: what was found in it is searched again.
    pub(super) fn forget(&mut self) {
        self.searched = 0;
        self.mentions.clear();
    }

    /// Searches entries that were added. Returns whether images must be read.
    pub(super) fn search(&mut self, history: &[Entry]) -> bool {
        // The last entry may have been extended.
        let from = self.searched.saturating_sub(1).min(history.len());
        self.mentions.retain(|mention| mention.entry < from);
        for (entry, of) in history.iter().enumerate().skip(from).filter(|(_, of)| of.role == Role::User) {
            for (block, of) in of.content.iter().enumerate() {
                let Block::Text { text, .. } = of else { continue };
                self.mentions.extend(references(text).map(|image| Mention { entry, block, image }));
            }
        }
        self.searched = history.len();
        !self.missing().is_empty()
    }

    /// Images whose lengths are unknown, and those whose bytes may be needed.
    fn missing(&self) -> BTreeSet<ImageId> {
        let unknown = self.mentions.iter().filter(|mention| !self.known.contains_key(&mention.image));
        let shown = self.mentions.iter().zip(self.shown()).filter(|(mention, shown)| {
            *shown
                && self
                    .known
                    .get(&mention.image)
                    .is_some_and(|known| known.bytes > 0 && known.image.is_none())
        });
        unknown.chain(shown.map(|(mention, _)| mention)).map(|mention| mention.image).collect()
    }

    /// For each mention, whether a model is sent the image.
    fn shown(&self) -> Vec<bool> {
        let bytes = |mention: &Mention| self.known.get(&mention.image).map_or(0, |known| known.bytes);
        is_shown(&self.mentions.iter().map(bytes).collect::<Vec<_>>(), self.limits)
    }

    /// Reads what [`Self::search`] has found to be missing.
    ///
    /// # Errors
    /// As [`Journal::retrying`].
    pub(super) async fn read<S: RunStorage>(&mut self, journal: &Journal<'_, S>) -> Result<(), Interrupted> {
        let ids: Vec<ImageId> = self.missing().into_iter().collect();
        let newest = self.mentions.iter().rev().take(self.limits.max_images).map(|mention| mention.image);
        let newest: Vec<ImageId> = newest.filter(|image| ids.contains(image)).collect();
        let (tenant, user) = (journal.owner.tenant, journal.owner.user);
        let found = journal.retrying(|storage| storage.images(tenant, user, &ids, &newest)).await?;
        for id in ids {
            self.known.entry(id).or_default();
        }
        for stored in found {
            let image = stored.data.map(|data| SentImage::new(stored.id, stored.header, &data));
            self.known.insert(stored.id, Known { bytes: stored.bytes, image });
        }
        // Old ones that are not sent any more need no memory.
        let sent: BTreeSet<ImageId> = self
            .mentions
            .iter()
            .zip(self.shown())
            .filter_map(|(mention, shown)| shown.then_some(mention.image))
            .collect();
        for (id, known) in &mut self.known {
            known.image.take_if(|_| !sent.contains(id));
        }
        Ok(())
    }

    /// The history with the images that it refers to, each after its text. For one that is not sent, a line says so.
    pub(super) fn shown_in<'h>(&self, history: &'h [Entry]) -> Cow<'h, [Entry]> {
        if self.mentions.is_empty() {
            return Cow::Borrowed(history);
        }
        let mut entries = history.to_vec();
        // From the end, so that the positions of those before stay.
        for (mention, shown) in self.mentions.iter().zip(self.shown()).rev() {
            let Mention { entry, block, image } = *mention;
            let Some(content) = entries.get_mut(entry).map(|entry| &mut entry.content) else { continue };
            let added = match self.known.get(&image) {
                Some(Known { image: Some(image), .. }) if shown => Block::Image(image.clone()),
                Some(Known { bytes: 1.., .. }) => Block::text(older(image)),
                _ => {
                    Block::text(format!("[{image} is not there: it was deleted, or it is not of this user.]"))
                }
            };
            content.insert((block + 1).min(content.len()), added);
        }
        Cow::Owned(entries)
    }
}

fn older(image: ImageId) -> String {
    format!(
        "[{image} is not shown to you any more: the conversation has newer images. A tool such as analyze_image answers \
         questions about it, given this id.]"
    )
}

#[cfg(test)]
mod tests {
    use houston_domain::image::{ImageHeader, ImageType, with_references};
    use uuid::Uuid;

    use super::*;

    fn id(nth: u128) -> ImageId {
        ImageId(Uuid::from_u128(nth))
    }

    fn known(nth: u128, bytes: usize) -> (ImageId, Known) {
        let header = ImageHeader { image_type: ImageType::Png, width: 9, height: 9 };
        (id(nth), Known { bytes, image: Some(SentImage::new(id(nth), header, &[7])) })
    }

    #[test]
    fn images_follow_their_texts_and_old_ones_become_lines() {
        let mut images = Images::new(ContextImages { max_images: 2, max_bytes: 100 });
        let plain = [Entry::user(vec![Block::text("hi")]), Entry::assistant(vec![Block::text("ho")])];
        assert!(!images.search(&plain));
        assert!(matches!(images.shown_in(&plain), Cow::Borrowed(_)));

        let post = |text: &str, ids: &[u128]| {
            Entry::user(vec![
                Block::text(with_references(text, ids.iter().copied().map(id))),
                Block::text("x"),
            ])
        };
        let said = Entry::assistant(vec![Block::text(id(9).reference())]);
        let history = [post("a", &[1]), said.clone(), post("b", &[2, 3]), said, post("c", &[4])];
        assert!(images.search(&history), "four images are to be read, not that of the agent");
        images.known = [known(1, 10), known(2, 10), known(3, 10)].into();
        images.known.insert(id(4), Known::default());
        assert!(!images.search(&history));
        let shown = images.shown_in(&history);
        let kinds = |entry: &Entry| -> String {
            let kind = |block: &Block| match block {
                Block::Image(_) => 'i',
                Block::Text { text, .. } if text.contains("not shown to you any more") => 'o',
                Block::Text { text, .. } if text.contains("is not there") => 'd',
                _ => 't',
            };
            entry.content.iter().map(kind).collect()
        };
        let kinds: Vec<String> = shown.iter().map(kinds).collect();
        assert_eq!(kinds, ["tot", "t", "toit", "t", "tdt"]);
        assert!(matches!(&shown[2].content[2], Block::Image(image) if image.id == id(3)), "in order");
    }
}
