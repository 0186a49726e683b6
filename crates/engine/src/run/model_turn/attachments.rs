//! What a request has besides the texts of its history: [`Attachments`] and [`Images`], the files and images that messages refer
//! to, each after the text that refers to it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use houston_domain::attachment::{
    AttachmentType, ContextAttachments, MAX_REFERENCES, SentDocument, Share, described, fenced, references,
    shares,
};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{AttachmentId, ImageId, TenantId};
use houston_domain::image::{
    self, ContextImages, ImageHeader, MAX_IMAGE_BYTES, SentImage, is_sent, to_base64, unseen,
};
use houston_store::attachment::{PART_BYTES, StoredAttachment};
use houston_store::{Error, RunStore};

use crate::error::Result;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Takes;

/// A block that follows another one.
pub(super) struct Insertion {
    /// The position of the entry.
    pub(super) entry: usize,
    /// The position of the block in it.
    pub(super) block: usize,
    pub(super) added: Block,
}

/// The history with these blocks. Those after the same block are in the given order.
pub(super) fn inserted(history: &[Entry], mut insertions: Vec<Insertion>) -> Cow<'_, [Entry]> {
    if insertions.is_empty() {
        return Cow::Borrowed(history);
    }
    insertions.sort_by_key(|insertion| (insertion.entry, insertion.block));
    let mut entries = history.to_vec();
    // From the end, so that the positions of those before stay.
    for Insertion { entry, block, added } in insertions.into_iter().rev() {
        if let Some(content) = entries.get_mut(entry).map(|entry| &mut entry.content) {
            content.insert((block + 1).min(content.len()), added);
        }
    }
    Cow::Owned(entries)
}

/// A reference to a file or an image.
#[derive(Debug, Clone, Copy)]
struct Mention<Id> {
    entry: usize,
    block: usize,
    file: Id,
}

/// Searches entries of users that were added after the first `searched`: the last `most` `references` of each text count.
fn search<'h, Id: Copy, R: Iterator<Item = Id>>(
    history: &'h [Entry],
    searched: &mut usize,
    mentions: &mut Vec<Mention<Id>>,
    references: impl Fn(&'h str) -> R,
    most: usize,
) {
    // The last entry may have been extended.
    let from = searched.saturating_sub(1).min(history.len());
    mentions.retain(|mention| mention.entry < from);
    for (entry, of) in history.iter().enumerate().skip(from).filter(|(_, of)| of.role == Role::User) {
        for (block, of) in of.content.iter().enumerate() {
            let Block::Text { text, .. } = of else { continue };
            let files: Vec<Id> = references(text).collect();
            let last = files.iter().skip(files.len().saturating_sub(most));
            mentions.extend(last.map(|file| Mention { entry, block, file: *file }));
        }
    }
    *searched = history.len();
}

/// What was read of a file.
#[derive(Debug, Clone, Default)]
struct Read {
    /// `None`: the user has no such file.
    file: Option<StoredAttachment>,
    /// What a model is sent of it, and as which share.
    sent: Option<(Share, Block)>,
}

/// The files of a history.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    limits: ContextAttachments,
    images: ContextImages,
    takes: Takes,
    /// How many entries were searched.
    searched: usize,
    mentions: Vec<Mention<AttachmentId>>,
    found: BTreeMap<AttachmentId, Read>,
}

impl Attachments {
    pub(super) fn new(limits: ContextAttachments, images: ContextImages, takes: Takes) -> Self {
        Self { limits, images, takes, ..Self::default() }
    }

    /// Searches entries that were added. Returns whether files must be read.
    pub(super) fn search(&mut self, history: &[Entry]) -> bool {
        search(history, &mut self.searched, &mut self.mentions, references, MAX_REFERENCES);
        self.mentions.iter().any(|mention| !self.found.contains_key(&mention.file))
            || self.shares().iter().zip(&self.mentions).any(|(share, mention)| self.lacks(mention, *share))
    }

    /// Whether what a model is sent of a file was not read.
    fn lacks(&self, mention: &Mention<AttachmentId>, share: Share) -> bool {
        let Some(Read { file: Some(_), sent }) = self.found.get(&mention.file) else { return false };
        share != Share::Line && sent.as_ref().is_none_or(|(of, _)| *of != share)
    }

    /// For each mention, what a model gets of the file.
    fn shares(&self) -> Vec<Share> {
        let file = |mention: &Mention<_>| self.found.get(&mention.file).and_then(|found| found.file.as_ref());
        let is_image = |file: &StoredAttachment| matches!(file.kind, AttachmentType::Image(_));
        let of = |image: bool| {
            let mentions = self.mentions.iter().enumerate();
            let files = mentions.filter_map(|(nth, mention)| Some((nth, file(mention)?)));
            files.filter(move |(_, file)| is_image(file) == image).collect::<Vec<_>>()
        };
        let mut all = vec![Share::Line; self.mentions.len()];
        let is_moderate = |file: &StoredAttachment| file.header.is_some() && file.bytes <= MAX_IMAGE_BYTES;
        let images: Vec<_> =
            of(true).into_iter().filter(|(_, file)| self.takes.images && is_moderate(file)).collect();
        let bytes: Vec<usize> = images.iter().map(|(_, file)| file.bytes).collect();
        for ((nth, _), is_sent) in images.iter().zip(is_sent(&bytes, self.images)) {
            all[*nth] = if is_sent { Share::Whole } else { Share::Line };
        }
        let others = of(false);
        let kinds: Vec<_> = others.iter().map(|(_, file)| (file.kind, file.bytes)).collect();
        for ((nth, file), share) in others.iter().zip(shares(&kinds, self.limits)) {
            let is_taken = file.kind != AttachmentType::Pdf || self.takes.documents;
            all[*nth] = if share == Share::Whole && !is_taken { Share::AsText } else { share };
        }
        all
    }

    /// Reads what [`Self::search`] has found to be missing.
    pub(super) async fn read<S: RunStorage>(&mut self, journal: &Journal<'_, S>) -> Result<()> {
        let unknown = self.mentions.iter().filter(|mention| !self.found.contains_key(&mention.file));
        let unknown: BTreeSet<AttachmentId> = unknown.map(|mention| mention.file).collect();
        if !unknown.is_empty() {
            let ids: Vec<AttachmentId> = unknown.into_iter().collect();
            let (tenant, user) = (journal.owner.tenant, journal.owner.user);
            let files = journal.of_postgres(|store| store.tenant(tenant).attachments(user, &ids)).await?;
            self.found.extend(ids.into_iter().map(|id| (id, Read::default())));
            let read = |file: StoredAttachment| (file.id, Read { file: Some(file), sent: None });
            self.found.extend(files.into_iter().map(read));
        }
        let shares = self.shares();
        let sent: BTreeMap<AttachmentId, Share> = self
            .mentions
            .iter()
            .zip(shares)
            .filter_map(|(mention, share)| (share != Share::Line).then_some((mention.file, share)))
            .collect();
        for (id, found) in &mut self.found {
            // Old ones that are not sent any more need no memory.
            found.sent.take_if(|(of, _)| sent.get(id) != Some(of));
            let (Some(file), None, Some(share)) = (&found.file, &found.sent, sent.get(id)) else { continue };
            let block = read_one(journal, file, *share, self.limits, self.takes).await?;
            found.sent = Some((*share, block));
        }
        Ok(())
    }

    /// The files that the history refers to, each after its text. For one that is not sent, a line says so.
    pub(super) fn insertions(&self) -> impl Iterator<Item = Insertion> {
        self.mentions.iter().zip(self.shares()).map(|(mention, share)| {
            let Mention { entry, block, file } = *mention;
            let added = match self.found.get(&file) {
                Some(Read { sent: Some((of, block)), .. }) if *of == share => block.clone(),
                Some(Read { file: Some(file), .. }) => Block::text(self.line(file)),
                _ => {
                    Block::text(format!("[{file} is not there: it was deleted, or it is not of this user.]"))
                }
            };
            Insertion { entry, block, added }
        })
    }

    /// What a model reads in the place of a file.
    fn line(&self, file: &StoredAttachment) -> String {
        let why = match file.kind {
            AttachmentType::Image(_) if !self.takes.images => "You cannot see it.",
            AttachmentType::Image(_) if file.header.is_none() || file.bytes > MAX_IMAGE_BYTES => {
                "It is too large to be sent to you: a smaller version could be."
            }
            _ => "It is not sent to you any more: the conversation has newer files.",
        };
        described(file.id, &file.name, file.kind, file.bytes, why)
    }
}

/// What a model is sent of a file.
async fn read_one<S: RunStorage>(
    journal: &Journal<'_, S>,
    file: &StoredAttachment,
    share: Share,
    limits: ContextAttachments,
    takes: Takes,
) -> Result<Block> {
    let tenant = journal.owner.tenant;
    let most = match file.kind {
        AttachmentType::Text => limits.max_text_bytes,
        AttachmentType::Image(_) | AttachmentType::Pdf => file.bytes,
    };
    let line = |why: &str| described(file.id, &file.name, file.kind, file.bytes, why);
    // A PDF whose text is stored is not read for it again.
    if let (Share::AsText, Some((text, is_cut))) = (share, &file.text) {
        return Ok(Block::text(fenced(file.id, &file.name, text, *is_cut)));
    }
    let bytes = journal.of_postgres(|store| read_bytes(store, tenant, file, most)).await?;
    let Some(bytes) = bytes else { return Ok(Block::text(line("It cannot be read now."))) };
    Ok(match (file.kind, file.header) {
        (AttachmentType::Image(_), Some(header)) => {
            let (base64, unseen) = (to_base64(&bytes).into(), line("You cannot see it."));
            Block::Image(SentImage { id: ImageId(file.id.0), header, base64, unseen })
        }
        (AttachmentType::Image(_), None) => Block::text(line("It cannot be sent to you.")),
        (AttachmentType::Text, _) => {
            let is_cut = bytes.len() > most || file.bytes > bytes.len();
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
            Block::text(fenced(file.id, &file.name, text.trim_end_matches('\u{fffd}'), is_cut))
        }
        (AttachmentType::Pdf, _) => {
            let unread = if share == Share::Whole && takes.all_documents {
                line("You cannot read it.")
            } else {
                pdf_text(journal, file, &bytes, limits.max_text_bytes).await?
            };
            if share != Share::Whole {
                return Ok(Block::text(unread));
            }
            let (name, base64) = (file.name.clone(), to_base64(&bytes).into());
            Block::Document(SentDocument { id: file.id, name, base64, unread })
        }
    })
}

/// The first bytes of a file, at least `most` if it has so many; `None`: it was deleted, or the object store cannot be used.
///
/// # Errors
/// As the methods of the store.
async fn read_bytes(
    store: &RunStore,
    tenant: TenantId,
    file: &StoredAttachment,
    most: usize,
) -> houston_store::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(file.bytes.min(most + PART_BYTES));
    for nth in 0..file.bytes.min(most).div_ceil(PART_BYTES) {
        match store.tenant(tenant).attachment_part(file, nth).await {
            Ok(part) => bytes.extend_from_slice(&part),
            Err(error @ (Error::NotFound { .. } | Error::Objects(_) | Error::NoObjects)) => {
                tracing::warn!(%error, id = %file.id, "a file cannot be read for a model");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// The text of a PDF between fences, or a line that says why there is none. It is stored, so that it is read once.
async fn pdf_text<S: RunStorage>(
    journal: &Journal<'_, S>,
    file: &StoredAttachment,
    bytes: &[u8],
    most: usize,
) -> Result<String> {
    if let Some((text, is_cut)) = &file.text {
        return Ok(fenced(file.id, &file.name, text, *is_cut));
    }
    match journal.services.pdf.text(bytes, most).await {
        Ok((text, is_cut)) => {
            let text = text.replace('\0', "");
            let (tenant, id) = (journal.owner.tenant, file.id);
            journal.of_postgres(|store| store.tenant(tenant).keep_pdf_text(id, &text, is_cut)).await?;
            Ok(fenced(file.id, &file.name, &text, is_cut))
        }
        Err(why) => {
            let why = format!("You cannot read it: {why}.");
            Ok(described(file.id, &file.name, file.kind, file.bytes, &why))
        }
    }
}

/// What was read of an image.
#[derive(Debug, Clone, Default)]
struct ReadImage {
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
    mentions: Vec<Mention<ImageId>>,
    found: BTreeMap<ImageId, ReadImage>,
}

impl Images {
    pub(super) fn new(limits: ContextImages, are_seen: bool) -> Self {
        Self { limits, are_seen, ..Self::default() }
    }

    /// Searches entries that were added. Returns whether images must be read.
    pub(super) fn search(&mut self, history: &[Entry]) -> bool {
        let most = image::MAX_REFERENCES;
        search(history, &mut self.searched, &mut self.mentions, image::references, most);
        !self.missing().is_empty()
    }

    /// Images whose lengths are unknown, and those whose bytes may be needed.
    fn missing(&self) -> BTreeSet<ImageId> {
        let unread = self.mentions.iter().filter(|mention| !self.found.contains_key(&mention.file));
        let lacks_bytes = |found: &ReadImage| found.header.is_some() && found.image.is_none();
        let lacking = self.mentions.iter().zip(self.sent()).filter(|(mention, is_sent)| {
            *is_sent && self.are_seen && self.found.get(&mention.file).is_some_and(lacks_bytes)
        });
        unread.chain(lacking.map(|(mention, _)| mention)).map(|mention| mention.file).collect()
    }

    /// For each mention, whether a model is sent the image.
    fn sent(&self) -> Vec<bool> {
        let bytes = |mention: &Mention<_>| self.found.get(&mention.file).map_or(0, |found| found.bytes);
        is_sent(&self.mentions.iter().map(bytes).collect::<Vec<_>>(), self.limits)
    }

    /// Reads what [`Self::search`] has found to be missing.
    pub(super) async fn read<S: RunStorage>(&mut self, journal: &Journal<'_, S>) -> Result<()> {
        let ids: Vec<ImageId> = self.missing().into_iter().collect();
        let most = if self.are_seen { self.limits.max_images } else { 0 };
        let newest = self.mentions.iter().rev().take(most).map(|mention| mention.file);
        let newest: Vec<ImageId> = newest.filter(|image| ids.contains(image)).collect();
        let (tenant, user) = (journal.owner.tenant, journal.owner.user);
        let found = journal.of_postgres(|store| store.tenant(tenant).images(user, &ids, &newest)).await?;
        // Those that are not found may have been deleted since they were read.
        self.found.extend(ids.into_iter().map(|id| (id, ReadImage::default())));
        for stored in found {
            let image = stored.data.map(|data| SentImage::new(stored.id, stored.header, &data));
            self.found
                .insert(stored.id, ReadImage { header: Some(stored.header), bytes: stored.bytes, image });
        }
        // Old ones that are not sent any more need no memory.
        let sent: BTreeSet<ImageId> = self
            .mentions
            .iter()
            .zip(self.sent())
            .filter_map(|(mention, is_sent)| is_sent.then_some(mention.file))
            .collect();
        for (id, found) in &mut self.found {
            found.image.take_if(|_| !sent.contains(id));
        }
        Ok(())
    }

    /// The images that the history refers to, each after its text. For one that is not sent, a line says so.
    pub(super) fn insertions(&self) -> impl Iterator<Item = Insertion> {
        self.mentions.iter().zip(self.sent()).map(|(mention, is_sent)| {
            let Mention { entry, block, file: image } = *mention;
            let added = match self.found.get(&image) {
                Some(ReadImage { image: Some(image), .. }) if is_sent => Block::Image(image.clone()),
                Some(ReadImage { header: Some(header), .. }) if !self.are_seen => {
                    Block::text(unseen(image, *header))
                }
                Some(ReadImage { header: Some(_), .. }) => Block::text(older(image)),
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

    use crate::run::model_turn::attachments::{inserted, *};

    fn id(nth: u128) -> ImageId {
        ImageId(Uuid::from_u128(nth))
    }

    fn found(nth: u128, bytes: usize) -> (ImageId, ReadImage) {
        let header = ImageHeader { image_type: ImageType::Png, width: 9, height: 9 };
        (
            id(nth),
            ReadImage { header: Some(header), bytes, image: Some(SentImage::new(id(nth), header, &[7])) },
        )
    }

    #[test]
    fn images_follow_their_texts_and_old_ones_become_lines() {
        let mut images = Images::new(ContextImages { max_images: 2, max_bytes: 100 }, true);
        let plain = [Entry::user(vec![Block::text("hi")]), Entry::assistant(vec![Block::text("ho")])];
        assert!(!images.search(&plain));
        assert_eq!(images.insertions().count(), 0);
        images.search(&[]);

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
        images.found.insert(id(4), ReadImage::default());
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
        unseen.found.insert(id(4), ReadImage::default());
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
        assert_eq!(images.mentions.len(), image::MAX_REFERENCES);
    }
}
