//! [`Images`]: the images that messages of a history refer to, as a model is sent them.
//!
//! A history without them costs a search of its new texts, and nothing is read.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::ImageId;
use houston_domain::image::{
    ContextImages, ImageHeader, MAX_REFERENCES, SentImage, is_sent, references, unseen,
};

use super::insertion::Insertion;
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

/// What was read of an image.
#[derive(Debug, Clone, Default)]
struct Read {
    /// Type and size; `None`: the user has no such image.
    header: Option<ImageHeader>,
    /// Its length.
    bytes: usize,
    /// It, while it is sent.
    image: Option<SentImage>,
}

/// The images of a history.
#[derive(Debug, Default)]
pub(super) struct Images {
    limits: ContextImages,
    /// Whether a model that may answer sees. Without one, no bytes are read.
    are_seen: bool,
    /// How many entries were searched.
    searched: usize,
    mentions: Vec<Mention>,
    found: BTreeMap<ImageId, Read>,
}

impl Images {
    pub(super) fn new(limits: ContextImages, are_seen: bool) -> Self {
        Self { limits, are_seen, ..Self::default() }
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
                let images: Vec<_> = references(text).collect();
                let last = images.iter().skip(images.len().saturating_sub(MAX_REFERENCES));
                self.mentions.extend(last.map(|image| Mention { entry, block, image: *image }));
            }
        }
        self.searched = history.len();
        !self.missing().is_empty()
    }

    /// Images whose lengths are unknown, and those whose bytes may be needed.
    fn missing(&self) -> BTreeSet<ImageId> {
        let unread = self.mentions.iter().filter(|mention| !self.found.contains_key(&mention.image));
        let lacks_bytes = |found: &Read| found.header.is_some() && found.image.is_none();
        let lacking = self.mentions.iter().zip(self.sent()).filter(|(mention, is_sent)| {
            *is_sent && self.are_seen && self.found.get(&mention.image).is_some_and(lacks_bytes)
        });
        unread.chain(lacking.map(|(mention, _)| mention)).map(|mention| mention.image).collect()
    }

    /// For each mention, whether a model is sent the image.
    fn sent(&self) -> Vec<bool> {
        let bytes = |mention: &Mention| self.found.get(&mention.image).map_or(0, |found| found.bytes);
        is_sent(&self.mentions.iter().map(bytes).collect::<Vec<_>>(), self.limits)
    }

    /// Reads what [`Self::search`] has found to be missing.
    ///
    /// # Errors
    /// As [`Journal::retrying`].
    pub(super) async fn read<S: RunStorage>(&mut self, journal: &Journal<'_, S>) -> Result<(), Interrupted> {
        let ids: Vec<ImageId> = self.missing().into_iter().collect();
        let most = if self.are_seen { self.limits.max_images } else { 0 };
        let newest = self.mentions.iter().rev().take(most).map(|mention| mention.image);
        let newest: Vec<ImageId> = newest.filter(|image| ids.contains(image)).collect();
        let (tenant, user) = (journal.owner.tenant, journal.owner.user);
        let found = journal.retrying(|storage| storage.images(tenant, user, &ids, &newest)).await?;
        // Those that are not found may have been deleted since they were read.
        self.found.extend(ids.into_iter().map(|id| (id, Read::default())));
        for stored in found {
            let image = stored.data.map(|data| SentImage::new(stored.id, stored.header, &data));
            self.found.insert(stored.id, Read { header: Some(stored.header), bytes: stored.bytes, image });
        }
        // Old ones that are not sent any more need no memory.
        let sent: BTreeSet<ImageId> = self
            .mentions
            .iter()
            .zip(self.sent())
            .filter_map(|(mention, is_sent)| is_sent.then_some(mention.image))
            .collect();
        for (id, found) in &mut self.found {
            found.image.take_if(|_| !sent.contains(id));
        }
        Ok(())
    }

    /// The images that the history refers to, each after its text. For one that is not sent, a line says so.
    pub(super) fn insertions(&self) -> impl Iterator<Item = Insertion> {
        self.mentions.iter().zip(self.sent()).map(|(mention, is_sent)| {
            let Mention { entry, block, image } = *mention;
            let added = match self.found.get(&image) {
                Some(Read { image: Some(image), .. }) if is_sent => Block::Image(image.clone()),
                Some(Read { header: Some(header), .. }) if !self.are_seen => {
                    Block::text(unseen(image, *header))
                }
                Some(Read { header: Some(_), .. }) => Block::text(older(image)),
                _ => {
                    Block::text(format!("[{image} is not there: it was deleted, or it is not of this user.]"))
                }
            };
            Insertion { entry, block, added }
        })
    }
}

fn older(image: ImageId) -> String {
    format!(
        "[{image} is not sent to you any more: the conversation has newer images. A tool that \
         answers questions about images takes this id.]"
    )
}

#[cfg(test)]
mod tests {
    use houston_domain::image::{ImageHeader, ImageType, with_references};
    use uuid::Uuid;

    use super::*;
    use crate::run::model_turn::insertion::inserted;

    fn id(nth: u128) -> ImageId {
        ImageId(Uuid::from_u128(nth))
    }

    fn found(nth: u128, bytes: usize) -> (ImageId, Read) {
        let header = ImageHeader { image_type: ImageType::Png, width: 9, height: 9 };
        (id(nth), Read { header: Some(header), bytes, image: Some(SentImage::new(id(nth), header, &[7])) })
    }

    #[test]
    fn images_follow_their_texts_and_old_ones_become_lines() {
        let mut images = Images::new(ContextImages { max_images: 2, max_bytes: 100 }, true);
        let plain = [Entry::user(vec![Block::text("hi")]), Entry::assistant(vec![Block::text("ho")])];
        assert!(!images.search(&plain));
        assert_eq!(images.insertions().count(), 0);
        images.forget();

        let post = |text: &str, ids: &[u128]| {
            Entry::user(vec![
                Block::text(with_references(text, ids.iter().copied().map(id))),
                Block::text("x"),
            ])
        };
        let said = Entry::assistant(vec![Block::text(id(9).reference())]);
        let history = [post("a", &[1]), said.clone(), post("b", &[2, 3]), said, post("c", &[4])];
        assert!(images.search(&history), "four images are to be read, not that of the agent");
        images.found = [found(1, 10), found(2, 10), found(3, 10)].into();
        images.found.insert(id(4), Read::default());
        assert!(!images.search(&history));
        let is_sent = inserted(&history, images.insertions().collect());
        let kinds = |entry: &Entry| -> String {
            let kind = |block: &Block| match block {
                Block::Image(_) => 'i',
                Block::Text { text, .. } if text.contains("not sent to you any more") => 'o',
                Block::Text { text, .. } if text.contains("is not there") => 'd',
                _ => 't',
            };
            entry.content.iter().map(kind).collect()
        };
        let kinds: Vec<String> = is_sent.iter().map(kinds).collect();
        assert_eq!(kinds, ["tot", "t", "toit", "t", "tdt"]);
        assert!(matches!(&is_sent[2].content[2], Block::Image(image) if image.id == id(3)), "in order");

        // The same for a model that does not see: no bytes are asked for.
        let mut unseen = Images { are_seen: false, ..Images::new(images.limits, true) };
        unseen.found = [found(1, 10), found(2, 10), found(3, 10)].into();
        unseen.found.values_mut().for_each(|found| found.image = None);
        unseen.found.insert(id(4), Read::default());
        assert!(!unseen.search(&history));
        let lines = inserted(&history, unseen.insertions().collect());
        let lines: String = lines.iter().map(Entry::text).collect();
        assert_eq!((lines.matches("you cannot see").count(), lines.matches("is not there").count()), (3, 1));
    }

    #[test]
    fn typed_references_without_end_are_not_all_followed() {
        let many = with_references("", (0..5_000).map(id));
        let mut images = Images::new(ContextImages::default(), true);
        assert!(images.search(&[Entry::user(vec![Block::text(many)])]));
        assert_eq!(images.missing().into_iter().next(), Some(id(4_980)), "the last ones");
        assert_eq!(images.mentions.len(), MAX_REFERENCES);
    }
}
