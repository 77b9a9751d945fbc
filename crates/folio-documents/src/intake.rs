//! Documents of the parts of mails and archives.
//!
//! | step | where | why it may be repeated |
//! |---|---|---|
//! | divide the file | child process | has no effect outside of a temporary folder |
//! | derive the id of each part from its parent, its digest and the number of equal parts before it | this process | the bytes of the parent never change, so each attempt derives the same ids |
//! | create the documents | the store, one by one | an op row or a tombstone exists under the id of a part that was created before |
//! | record the refused parts on the parent | the store | replaces the earlier record |
//! | store the text of the parent | the store | the last step, so that the document is read again if a step before fails |
//!
//! A deleted part is not created again when its parent is read again. A part that is refused does not affect the others. The deletion
//! of the parent ends the creation of its parts.

use std::collections::HashMap;

use folio_resources::{Document, DocumentChange, DocumentPart, PartBudget, RefusedPart, part_name, part_path};
use folio_storage::Stores;
use folio_types::op::{Expected, OpState, Write, WriteOutcome};
use folio_types::{DocumentId, Environment, Error, OrgId, Result, limits};

use crate::ingest::attempts::disk;
use crate::part_upload::{NewPart, PartOutcome};
use crate::reader::TextReader;
use crate::sniff::{has_parts, sniff};
use crate::unpacked::{Examined, Span, Unpacked, examine};
use crate::upload::Uploader;
use crate::worker::Job;
use crate::worker::unpack::UnpackLimits;

/// Attempts to record the refused parts while users change the document.
const RECORD_ATTEMPTS: usize = 4;

/// The result of an intake.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Paths of the parts with documents, and of the refused parts with the reason: a line each.
    pub(crate) listing: String,
    pub(crate) refused: Vec<RefusedPart>,
    /// The reason for which the file has no parts at all. None: it was divided.
    pub(crate) failure: Option<String>,
}

/// A part before its document is created.
#[derive(Debug)]
struct Candidate {
    position: u32,
    path: String,
    span: Span,
    sha256: String,
    media_type: &'static str,
}

/// Creates documents of the parts of a mail or an archive, which is stored at `file`.
///
/// # Errors
/// A store, the disk or a child process fails. The document may be read again.
pub(crate) async fn take_in(
    (uploader, reader): (&Uploader, &TextReader),
    document: &Document,
    (file, folder): (&std::path::Path, &std::path::Path),
) -> Result<Report> {
    let (depth, budget) = document.part.as_ref().map_or((0, PartBudget::UPLOAD), |part| (part.depth, part.budget));
    if depth >= limits::PART_DEPTH_MAX {
        let most = limits::PART_DEPTH_MAX;
        let reason = format!("mails and archives are nested in at most {most} levels");
        return Ok(Report::failed(reason));
    }
    let bounds = UnpackLimits { parts: budget.parts, bytes: budget.bytes, part_bytes: uploader.max_bytes() };
    let job = Job::Unpack { media_type: document.media_type.clone(), limits: bounds };
    let unpacked = reader.unpack(job, bounds, file, folder).await?;
    if let (Some(reason), true) = (&unpacked.rest, unpacked.entries.is_empty()) {
        return Ok(Report::failed(reason.clone()));
    }
    let source = unpacked.file.clone();
    let examined = tokio::task::spawn_blocking(move || candidates(unpacked)).await;
    let (candidates, mut refused) = examined.map_err(|error| Error::internal(error.to_string()))?.map_err(disk)?;
    let mut lines: Vec<(u32, String)> = Vec::new();
    for part in planned(document, candidates, (depth, budget)) {
        let (position, path) = (part.part.position, part.part.path.clone());
        match uploader.store_part(document, part, &source).await? {
            PartOutcome::Created(_) | PartOutcome::Existing => lines.push((position, path)),
            PartOutcome::Refused(error) => refused.push(RefusedPart::new(position, path, &error.message)),
            PartOutcome::ParentDeleted => break,
        }
    }
    // The refusal of the rest of the file is the last one.
    refused.sort_by_key(|part| part.position.checked_sub(1).unwrap_or(u32::MAX));
    lines.extend(refused.iter().map(|part| (part.position, refusal(part))));
    lines.sort_by_key(|(position, _)| position.checked_sub(1).unwrap_or(u32::MAX));
    let listing = lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    Ok(Report { listing, refused: bounded(refused), failure: None })
}

/// Returns the line of a refused part in the list of parts.
fn refusal(RefusedPart { path, reason, .. }: &RefusedPart) -> String {
    let path = if path.is_empty() { "…" } else { path };
    format!("{path} (refused: {reason})")
}

impl Report {
    fn failed(reason: String) -> Self {
        Self { refused: vec![RefusedPart::new(0, String::new(), &reason)], failure: Some(reason), ..Self::default() }
    }
}

/// Examines the parts. Returns the accepted types and the refused parts.
fn candidates(unpacked: Unpacked) -> std::io::Result<(Vec<Candidate>, Vec<RefusedPart>)> {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for (position, entry) in (1..).zip(unpacked.entries) {
        let path = part_path(&entry.path);
        let examined = match entry.content {
            Ok(span) => Ok((span, examine(&unpacked.file, span)?)),
            Err(reason) => Err(reason),
        };
        let candidate = examined.and_then(|(span, Examined { sha256, beginning })| {
            let media_type = sniff(&part_name(&path, position), &beginning).map_err(|error| error.message)?;
            Ok(Candidate { position, path: path.clone(), span, sha256, media_type })
        });
        match candidate {
            Ok(candidate) => accepted.push(candidate),
            Err(reason) => refused.push(RefusedPart::new(position, path, &reason)),
        }
    }
    refused.extend(unpacked.rest.map(|reason| RefusedPart::new(0, String::new(), &reason)));
    Ok((accepted, refused))
}

/// Returns the documents of the parts: ids that do not depend on the attempt, and a share of the rest of the budget for each
/// part that is a mail or an archive.
fn planned(parent: &Document, candidates: Vec<Candidate>, (depth, budget): (u32, PartBudget)) -> Vec<NewPart> {
    let mut used = PartBudget::default();
    let mut containers = 0;
    for candidate in &candidates {
        used.parts = used.parts.saturating_add(1);
        used.bytes = used.bytes.saturating_add(candidate.span.size);
        containers += u32::from(has_parts(candidate.media_type));
    }
    let share = budget.share(used, containers);
    // Number of parts with equal bytes, by digest.
    let mut equal: HashMap<String, u32> = HashMap::new();
    let part = |candidate: Candidate| {
        let Candidate { position, path, span, sha256, media_type } = candidate;
        let number = equal.entry(sha256.clone()).or_default();
        *number += 1;
        let ids = ["part", parent.org.as_str(), parent.id.as_str(), &sha256, &number.to_string()];
        NewPart {
            id: DocumentId::derive(&ids),
            by: parent.created_by.clone(),
            name: part_name(&path, position),
            span,
            part: DocumentPart {
                parent: parent.id.clone(),
                position,
                path,
                pages: None,
                depth: depth + 1,
                budget: if has_parts(media_type) { share } else { PartBudget::default() },
            },
        }
    };
    candidates.into_iter().map(part).collect()
}

/// Returns at most [`limits::REFUSED_PARTS_MAX`] refused parts. The last one states the number of the others.
fn bounded(mut refused: Vec<RefusedPart>) -> Vec<RefusedPart> {
    if refused.len() > limits::REFUSED_PARTS_MAX {
        let others = refused.len() - (limits::REFUSED_PARTS_MAX - 1);
        refused.truncate(limits::REFUSED_PARTS_MAX - 1);
        refused.push(RefusedPart::new(0, String::new(), &format!("{others} more parts were refused")));
    }
    refused
}

/// Records the refused parts on the document. Nothing is written if the document has the same record.
///
/// # Errors
/// `VERSION_CONFLICT` if users change the document each time; the errors of the store.
pub(crate) async fn record_refused(
    stores: &Stores,
    environment: &dyn Environment,
    (org, id): (&OrgId, &DocumentId),
    refused: Vec<RefusedPart>,
) -> Result<()> {
    let documents = stores.of::<Document>();
    for _ in 0..RECORD_ATTEMPTS {
        let Some(document) = documents.get(org, id).await? else { return Ok(()) };
        if document.refused_parts == refused {
            return Ok(());
        }
        // A key of its own for each attempt: the store closes the op of a failed attempt, so that the key writes nothing any more.
        let key = format!("refused-parts-{}-{:032x}", document.id, environment.random()).parse()?;
        let (expected, change) =
            (Expected::Version(document.version), DocumentChange::SetRefusedParts(refused.clone()));
        let write = Write::by_platform(org.clone(), key, environment.now(), expected, change);
        match documents.decide(id, write).await? {
            WriteOutcome::Row(row) if matches!(row.state, OpState::Done(_)) => return Ok(()),
            WriteOutcome::Row(_) | WriteOutcome::VersionMismatch => {}
        }
    }
    let message = "the document changed while its refused parts were recorded";
    Err(Error::version_conflict(message))
}

#[cfg(test)]
mod tests {
    use folio_resources::NewDocument;
    use folio_types::{BlobId, Timestamp, UserId};

    use super::*;

    fn mail() -> Document {
        let (id, org, user) = (DocumentId::derive(&["mail"]), OrgId::derive(&["org"]), UserId::derive(&["user"]));
        let file = NewDocument::file("a.eml", "message/rfc822", b"x", BlobId::derive(&["blob"]));
        Document::uploaded(id, org, &file, user, Timestamp::UNIX_EPOCH)
    }

    fn candidate(position: u32, path: &str, sha256: &str, media_type: &'static str) -> Candidate {
        let span = Span { start: 0, size: 100 };
        Candidate { position, path: path.to_owned(), span, sha256: sha256.to_owned(), media_type }
    }

    #[test]
    fn ids_of_parts_depend_on_their_bytes_and_not_on_the_attempt() {
        let parts = |candidates| planned(&mail(), candidates, (0, PartBudget { parts: 10, bytes: 1_000 }));
        let first = parts(vec![
            candidate(1, "a.pdf", "aa", "application/pdf"),
            candidate(2, "copy/a.pdf", "aa", "application/pdf"),
            candidate(3, "b.zip", "bb", "application/zip"),
        ]);
        let [one, copy, archive] = &first[..] else { panic!("{first:?}") };
        assert!(one.id != copy.id && copy.id != archive.id);
        assert_eq!((copy.name.as_str(), copy.part.path.as_str(), copy.part.depth), ("a.pdf", "copy/a.pdf", 1));
        assert_eq!(archive.part.budget, PartBudget { parts: 7, bytes: 700 });
        assert_eq!(one.part.budget, PartBudget::default());
        // Another reader may find a further part before.
        let other =
            parts(vec![candidate(1, "logo.png", "cc", "image/png"), candidate(2, "a.pdf", "aa", "application/pdf")]);
        assert_eq!(other[1].id, one.id);
    }

    #[test]
    fn invariant_10_refused_parts_are_bounded_and_counted() {
        let many: Vec<_> = (1..=150).map(|position| RefusedPart::new(position, String::new(), "r")).collect();
        let kept = bounded(many.clone());
        assert_eq!((kept.len(), &kept[..99]), (limits::REFUSED_PARTS_MAX, &many[..99]));
        assert_eq!(kept[99].reason, "51 more parts were refused");
        assert_eq!(bounded(many[..100].to_vec()), many[..100]);
    }
}
