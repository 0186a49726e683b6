//! [`Attachments`]: the files that messages of a history refer to, as a model is sent them: images it sees, PDFs it takes, and
//! texts. What it cannot take it reads as text, or as a line.
//!
//! A history without them costs a search of its new texts, and nothing is read.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::attachment::{
    AttachmentType, ContextAttachments, MAX_REFERENCES, SentDocument, Share, described, fenced, references,
    shares,
};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{AttachmentId, ImageId};
use houston_domain::image::{ContextImages, MAX_IMAGE_BYTES, SentImage, is_sent, to_base64};
use houston_store::attachment::StoredAttachment;

use super::insertion::Insertion;
use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Takes;

/// A reference to a file.
#[derive(Debug, Clone, Copy)]
struct Mention {
    entry: usize,
    block: usize,
    file: AttachmentId,
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
    mentions: Vec<Mention>,
    found: BTreeMap<AttachmentId, Read>,
}

impl Attachments {
    pub(super) fn new(limits: ContextAttachments, images: ContextImages, takes: Takes) -> Self {
        Self { limits, images, takes, ..Self::default() }
    }

    /// The history was replaced: what was found in it is searched again.
    pub(super) fn forget(&mut self) {
        self.searched = 0;
        self.mentions.clear();
    }

    /// Searches entries that were added. Returns whether files must be read.
    pub(super) fn search(&mut self, history: &[Entry]) -> bool {
        // The last entry may have been extended.
        let from = self.searched.saturating_sub(1).min(history.len());
        self.mentions.retain(|mention| mention.entry < from);
        for (entry, of) in history.iter().enumerate().skip(from).filter(|(_, of)| of.role == Role::User) {
            for (block, of) in of.content.iter().enumerate() {
                let Block::Text { text, .. } = of else { continue };
                let files: Vec<_> = references(text).collect();
                let last = files.iter().skip(files.len().saturating_sub(MAX_REFERENCES));
                self.mentions.extend(last.map(|file| Mention { entry, block, file: *file }));
            }
        }
        self.searched = history.len();
        self.mentions.iter().any(|mention| !self.found.contains_key(&mention.file))
            || self.shares().iter().zip(&self.mentions).any(|(share, mention)| self.lacks(mention, *share))
    }

    /// Whether what a model is sent of a file was not read.
    fn lacks(&self, mention: &Mention, share: Share) -> bool {
        let Some(Read { file: Some(_), sent }) = self.found.get(&mention.file) else { return false };
        share != Share::Line && sent.as_ref().is_none_or(|(of, _)| *of != share)
    }

    /// For each mention, what a model gets of the file.
    fn shares(&self) -> Vec<Share> {
        let file = |mention: &Mention| self.found.get(&mention.file).and_then(|found| found.file.as_ref());
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
    ///
    /// # Errors
    /// As [`Journal::retrying`].
    pub(super) async fn read<S: RunStorage>(&mut self, journal: &Journal<'_, S>) -> Result<(), Interrupted> {
        let unknown = self.mentions.iter().filter(|mention| !self.found.contains_key(&mention.file));
        let unknown: BTreeSet<AttachmentId> = unknown.map(|mention| mention.file).collect();
        if !unknown.is_empty() {
            let ids: Vec<AttachmentId> = unknown.into_iter().collect();
            let (tenant, user) = (journal.owner.tenant, journal.owner.user);
            let files = journal.retrying(|storage| storage.attachments(tenant, user, &ids)).await?;
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
) -> Result<Block, Interrupted> {
    let tenant = journal.owner.tenant;
    let most = match file.kind {
        AttachmentType::Text => limits.max_text_bytes,
        AttachmentType::Image(_) | AttachmentType::Pdf => file.bytes,
    };
    let away = |why: &str| Block::text(described(file.id, &file.name, file.kind, file.bytes, why));
    // A PDF whose text is stored is not read for it again.
    if let (Share::AsText, Some((text, is_cut))) = (share, &file.text) {
        return Ok(Block::text(fenced(file.id, &file.name, text, *is_cut)));
    }
    let bytes = journal.retrying(|storage| storage.attachment_bytes(tenant, file, most)).await?;
    let Some(bytes) = bytes else { return Ok(away("It cannot be read now.")) };
    Ok(match (file.kind, file.header) {
        (AttachmentType::Image(_), Some(header)) => {
            let unseen = described(file.id, &file.name, file.kind, file.bytes, "You cannot see it.");
            let base64 = to_base64(&bytes).into();
            Block::Image(SentImage { id: ImageId(file.id.0), header, base64, unseen })
        }
        (AttachmentType::Image(_), None) => away("It cannot be sent to you."),
        (AttachmentType::Text, _) => {
            let is_cut = bytes.len() > most || file.bytes > bytes.len();
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
            Block::text(fenced(file.id, &file.name, text.trim_end_matches('\u{fffd}'), is_cut))
        }
        (AttachmentType::Pdf, _) if share == Share::Whole && takes.all_documents => {
            Block::Document(document(file, &bytes, away_text(file)))
        }
        (AttachmentType::Pdf, _) => {
            let text = pdf_text(journal, file, &bytes, limits.max_text_bytes).await?;
            if share == Share::Whole {
                Block::Document(document(file, &bytes, text))
            } else {
                Block::text(text)
            }
        }
    })
}

fn document(file: &StoredAttachment, bytes: &[u8], unread: String) -> SentDocument {
    SentDocument { id: file.id, name: file.name.clone(), base64: to_base64(bytes).into(), unread }
}

fn away_text(file: &StoredAttachment) -> String {
    described(file.id, &file.name, file.kind, file.bytes, "You cannot read it.")
}

/// The text of a PDF between fences, or a line that says why there is none. It is stored, so that it is read once.
async fn pdf_text<S: RunStorage>(
    journal: &Journal<'_, S>,
    file: &StoredAttachment,
    bytes: &[u8],
    most: usize,
) -> Result<String, Interrupted> {
    if let Some((text, is_cut)) = &file.text {
        return Ok(fenced(file.id, &file.name, text, *is_cut));
    }
    match journal.services.pdf.text(bytes, most).await {
        Ok((text, is_cut)) => {
            let text = text.replace('\0', "");
            let (tenant, id) = (journal.owner.tenant, file.id);
            journal.retrying(|storage| storage.keep_pdf_text(tenant, id, &text, is_cut)).await?;
            Ok(fenced(file.id, &file.name, &text, is_cut))
        }
        Err(why) => {
            let why = format!("You cannot read it: {why}.");
            Ok(described(file.id, &file.name, file.kind, file.bytes, &why))
        }
    }
}
