//! Documents: uploaded files. Their bytes and their text are stored separately.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::op::Write;
use folio_types::{BlobId, BlobKey, Digest, DocumentId, OrgId, Result, TagId, Timestamp, UnknownFields, UserId};
use serde::{Deserialize, Serialize};

use crate::document_part::part_term;
use crate::resource::{changed_function, common_functions};
use crate::tag_set::{distinct, tag_terms};
use crate::{Cleanup, Condition, DocumentPart, ListRow, Plan, RefusedPart, Resource, folded};

/// First words of the page with the values of a structured invoice that is attached to a PDF. This page is the last page.
pub const STRUCTURED_INVOICE_START: &str = "Structured invoice data of the attachment ";

/// Returns the name of the attachment whose values a page contains. None: the page is not that of a structured invoice.
pub fn structured_invoice_name(page: &str) -> Option<&str> {
    let line = page.strip_prefix(STRUCTURED_INVOICE_START)?.lines().next()?;
    Some(line.split_once(". ").map_or(line, |(name, _)| name))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub id: DocumentId,
    pub org: OrgId,
    /// File name for display.
    pub name: String,
    /// Detected from the content.
    pub media_type: String,
    /// Bytes of the file.
    pub size: u64,
    /// Hexadecimal SHA-256 of the file.
    pub sha256: String,
    /// The blob with the bytes of the file: that of the upload that created the document.
    pub blob: BlobId,
    /// True if the file is a PDF with a password, which is not stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_protected: bool,
    /// True if an agent makes a proposal for the document when its text is settled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_auto_create: bool,
    /// Credits that the model calls of the run that makes the proposal may cost. None: the setting of the server is the only bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_create_budget: Option<u64>,
    /// None: the document was uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<DocumentPart>,
    /// Parts of which no document was made when the text was last extracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_parts: Vec<RefusedPart>,
    /// Without duplicates, in the order of the request.
    pub tags: Vec<TagId>,
    pub metadata: BTreeMap<String, String>,
    pub state: TextState,
    /// Number of pages, including empty ones. 0 unless the text is available.
    pub pages: u32,
    /// Time at which the text was stored. The time identifies the version of the text, because it changes when the text is
    /// extracted again. None: the text is not available. The time is stored with the state of the text and not with the document.
    #[serde(skip)]
    pub text_generation: Option<Timestamp>,
    /// User that uploaded the document.
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// Time of the last change of the document or its text state.
    pub updated_at: Timestamp,
    /// Incremented by every change, except changes of the text state. A write states the version that it expects.
    pub version: u64,
}

/// State of the text extraction of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum TextState {
    /// Queued.
    Uploaded,
    /// Text is being extracted.
    Processing,
    Ready,
    /// The document contains no text, for this reason.
    NoText(String),
    /// The text could not be extracted, for this reason.
    Failed(String),
}

impl TextState {
    /// Returns true if the state changes only when the document is processed again.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Uploaded | Self::Processing)
    }
}

/// Text state of a document. Stored separately, because ingestion writes it and users write the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextRecord {
    pub text: TextState,
    /// Number of stored pages.
    pub pages: u32,
    /// Name of the valid generation of the stored pages: each extraction of the text stores a generation of pages.
    /// None: there are no pages, or the store keeps one generation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Number of attempts since the last settled state.
    pub attempts: u32,
    /// True if an extraction program that is not installed would find more text.
    pub lacks_program: bool,
    /// Time at which this state was reported.
    pub at: Timestamp,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

/// Returns the record that replaces `before` when ingestion reports a state. [`TextState::Processing`] counts as an
/// attempt. [`TextState::Uploaded`] directly after [`TextState::Processing`] cancels that attempt and decrements the
/// count. A settled state resets the count.
pub fn text_record_of(
    before: Option<&TextRecord>,
    state: TextState,
    pages: u32,
    lacks_program: bool,
    at: Timestamp,
) -> TextRecord {
    let counted = before.filter(|before| !before.text.is_settled()).map_or(0, |before| before.attempts);
    let attempts = match (&state, before.map(|before| &before.text)) {
        (TextState::Processing, _) => counted.saturating_add(1),
        (TextState::Uploaded, Some(TextState::Processing)) => counted.saturating_sub(1),
        (TextState::Uploaded, _) => counted,
        (TextState::Ready | TextState::NoText(_) | TextState::Failed(_), _) => 0,
    };
    let unknown = before.map(|before| before.unknown.clone()).unwrap_or_default();
    TextRecord { text: state, pages, generation: None, attempts, lacks_program, at, unknown }
}

/// Changed fields of a document. None: unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPatch {
    pub name: Option<String>,
    pub tags: Option<Vec<TagId>>,
    /// Replaces all keys.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// A document whose bytes are already stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    pub name: String,
    /// Detected from the content.
    pub media_type: String,
    /// Size in bytes.
    pub size: u64,
    /// Hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// The blob with the bytes.
    pub blob: BlobId,
    /// True if the file is a PDF with a password.
    pub is_protected: bool,
    /// True if an agent makes a proposal for the document when its text is settled.
    pub has_auto_create: bool,
    /// See [`Document::auto_create_budget`].
    pub auto_create_budget: Option<u64>,
    /// See [`Document::part`].
    pub part: Option<DocumentPart>,
    pub tags: Vec<TagId>,
    pub metadata: BTreeMap<String, String>,
}

impl NewDocument {
    /// Returns a file with this content, without a password, automatic creation, a parent, tags and metadata.
    pub fn file(name: impl Into<String>, media_type: &str, content: &[u8], blob: BlobId) -> Self {
        Self {
            name: name.into(),
            media_type: media_type.to_owned(),
            size: content.len() as u64,
            sha256: Digest::of(content).as_str().to_owned(),
            blob,
            is_protected: false,
            has_auto_create: false,
            auto_create_budget: None,
            part: None,
            tags: Vec::new(),
            metadata: BTreeMap::new(),
        }
    }
}

/// Every tag must be live; otherwise the change fails with `NOT_FOUND`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// Creates a document in state [`TextState::Uploaded`].
    Create(NewDocument),
    Update(DocumentPatch),
    /// Replaces the refused parts.
    SetRefusedParts(Vec<RefusedPart>),
    /// Deletes the document with its text and its extractions. The clean-up deletes its bytes and its threads.
    Delete,
}

/// Conditions on documents, all of which must be true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    /// The whole name, in this spelling.
    pub name: Option<String>,
    /// The document has all of these tags.
    pub all_tags: Vec<TagId>,
    /// The document has all of these keys, each with a value that contains this text, case-insensitive.
    pub metadata: BTreeMap<String, String>,
    /// The document has all of these keys with exactly these values.
    pub metadata_equals: BTreeMap<String, String>,
    /// The document is a part of this document.
    pub parent: Option<DocumentId>,
}

impl Document {
    /// Returns the document of a new file, whose text was not read.
    pub fn uploaded(id: DocumentId, org: OrgId, new: &NewDocument, by: UserId, at: Timestamp) -> Self {
        Self {
            id,
            org,
            name: new.name.clone(),
            media_type: new.media_type.clone(),
            size: new.size,
            sha256: new.sha256.clone(),
            blob: new.blob.clone(),
            is_protected: new.is_protected,
            has_auto_create: new.has_auto_create,
            auto_create_budget: new.auto_create_budget,
            part: new.part.clone(),
            refused_parts: Vec::new(),
            tags: distinct(&new.tags),
            metadata: new.metadata.clone(),
            state: TextState::Uploaded,
            pages: 0,
            text_generation: None,
            created_by: by,
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    /// Returns the key of the blob with the bytes of the file.
    pub fn blob_key(&self) -> BlobKey {
        BlobKey { org: self.org.clone(), document: self.id.clone(), blob: self.blob.clone() }
    }

    changed_function!();
}

impl Resource for Document {
    type Change = DocumentChange;
    type Filter = DocumentFilter;
    const KIND: &'static str = "document";
    const DELETE: DocumentChange = DocumentChange::Delete;
    const HAS_TEXT: bool = true;
    const CLEANUP: Cleanup = Cleanup::Dependents;

    common_functions!(DocumentId);

    fn label(&self) -> &str {
        &self.name
    }

    fn references(&self) -> BTreeSet<String> {
        self.tags.iter().map(ToString::to_string).collect()
    }

    fn with_text(self, text: &TextRecord) -> Self {
        let TextRecord { text, pages, at, .. } = text.clone();
        let text_generation = (text == TextState::Ready).then_some(at);
        Self { state: text, pages, text_generation, updated_at: self.updated_at.max(at), ..self }
    }

    fn list_row(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            name: self.name.clone(),
            terms: tag_terms(&self.tags).chain(self.part.iter().map(|part| part_term(&part.parent))).collect(),
            metadata: self.metadata.clone(),
            size_bytes: self.size,
            ..ListRow::default()
        }
    }

    fn conditions(filter: &DocumentFilter) -> Vec<Condition> {
        let mut conditions: Vec<_> = tag_terms(&filter.all_tags).map(|tag| Condition::AnyTerm(vec![tag])).collect();
        let contains = |(key, value): (&String, &String)| Condition::MetadataContains {
            key: key.clone(),
            substring: folded(value),
        };
        let equals =
            |(key, value): (&String, &String)| Condition::MetadataEquals { key: key.clone(), value: value.clone() };
        conditions.extend(filter.metadata.iter().map(contains));
        conditions.extend(filter.metadata_equals.iter().map(equals));
        conditions.extend(filter.parent.iter().map(|parent| Condition::AnyTerm(vec![part_term(parent)])));
        conditions.extend(Condition::names(filter.name_search.as_ref(), filter.name.as_ref()));
        conditions
    }

    fn apply(id: &DocumentId, write: &Write<DocumentChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |document: Self| Ok(Plan::stored(document));
        match (&write.change, before) {
            (DocumentChange::Create(new), None) => {
                done(Self::uploaded(id.clone(), write.org.clone(), new, write.by.clone(), write.at))
            }
            (DocumentChange::Update(patch), Some(before)) => {
                let mut document = before.clone();
                document.name.clone_from(patch.name.as_ref().unwrap_or(&before.name));
                document.metadata.clone_from(patch.metadata.as_ref().unwrap_or(&before.metadata));
                if let Some(tags) = &patch.tags {
                    document.tags = distinct(tags);
                }
                done(document.changed(&before, write.at))
            }
            (DocumentChange::SetRefusedParts(refused), Some(before)) => {
                done(Self { refused_parts: refused.clone(), ..before.clone() }.changed(&before, write.at))
            }
            (DocumentChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::Expected;

    use super::*;
    use crate::golden::{assert_golden, at, document};
    use crate::{PageRange, PartBudget};

    fn later() -> Timestamp {
        at() + std::time::Duration::from_secs(1)
    }

    #[test]
    fn an_update_keeps_the_fields_that_it_does_not_name_and_increments_the_version_once() {
        let before = document();
        let apply = |patch| {
            let (key, change) = ("update".parse().unwrap(), DocumentChange::Update(patch));
            let write = Write::by_platform(before.org.clone(), key, later(), Expected::Version(4), change);
            Document::apply(&before.id, &write, Some(before.clone())).unwrap().after.unwrap()
        };
        let name = |name: &str| DocumentPatch { name: Some(name.into()), ..DocumentPatch::default() };
        assert_eq!(apply(name("invoice.pdf")), before, "a change without effect keeps the version");
        let changed = Document { version: 5, updated_at: later(), ..before.clone() };
        assert_eq!(apply(name("b.pdf")), Document { name: "b.pdf".into(), ..changed.clone() });
        let metadata = DocumentPatch { metadata: Some(BTreeMap::new()), ..DocumentPatch::default() };
        assert_eq!(apply(metadata), Document { metadata: BTreeMap::new(), ..changed });
    }

    #[test]
    fn a_part_names_its_parent_and_a_parent_its_refused_parts() {
        let part = DocumentPart {
            parent: DocumentId::derive(&["mail"]),
            position: 2,
            path: "in/a.pdf".to_owned(),
            pages: None,
            depth: 1,
            budget: PartBudget { parts: 3, bytes: 4_096 },
        };
        let attachment = Document { part: Some(part.clone()), ..document() };
        assert_golden("part", attachment.clone());
        let range = DocumentPart { path: String::new(), pages: Some(PageRange { first: 2, last: 3 }), ..part.clone() };
        assert_golden("page_range", Document { part: Some(range), ..document() });
        let refused = vec![RefusedPart::new(3, "a.exe".to_owned(), "not accepted")];
        assert_golden("refused_parts", Document { refused_parts: refused.clone(), ..document() });

        let term = part_term(&part.parent);
        assert!(attachment.list_row().terms.contains(&term) && !document().list_row().terms.contains(&term));
        let filter = DocumentFilter { parent: Some(part.parent), ..DocumentFilter::default() };
        assert_eq!(Document::conditions(&filter), [Condition::AnyTerm(vec![term])]);

        let before = document();
        let apply = |refused: &[RefusedPart], before: &Document| {
            let change = DocumentChange::SetRefusedParts(refused.to_vec());
            let write = Write::by_platform(
                before.org.clone(),
                "refused".parse().unwrap(),
                later(),
                Expected::Version(before.version),
                change,
            );
            Document::apply(&before.id, &write, Some(before.clone())).unwrap().after.unwrap()
        };
        let changed = Document { refused_parts: refused.clone(), version: 5, updated_at: later(), ..before.clone() };
        assert_eq!(apply(&refused, &before), changed);
        assert_eq!(apply(&refused, &changed), changed, "the same parts keep the version");
    }

    #[test]
    fn attempts_count_from_the_last_settled_state() {
        let (failed, no_text) = (TextState::Failed("x".into()), TextState::NoText("x".into()));
        let mut record: Option<TextRecord> = None;
        for (state, is_settled, attempts) in [
            (TextState::Uploaded, false, 0),
            (TextState::Processing, false, 1),
            (TextState::Processing, false, 2),
            (TextState::Uploaded, false, 1),
            (TextState::Uploaded, false, 1),
            (TextState::Processing, false, 2),
            (TextState::Ready, true, 0),
            (TextState::Processing, false, 1),
            (failed, true, 0),
            (no_text, true, 0),
        ] {
            assert_eq!(state.is_settled(), is_settled, "{state:?}");
            let next = text_record_of(record.as_ref(), state.clone(), 7, true, at());
            let expected = TextRecord {
                text: state,
                pages: 7,
                generation: None,
                attempts,
                lacks_program: true,
                at: at(),
                unknown: UnknownFields::default(),
            };
            assert_eq!(next, expected);
            record = Some(next);
        }
    }

    #[test]
    fn a_document_shows_its_text_state_and_the_later_time_of_both() {
        for (time, updated_at) in [(later(), later()), (Timestamp::UNIX_EPOCH, at())] {
            let text = text_record_of(None, TextState::Ready, 7, false, time);
            let expected =
                Document { state: TextState::Ready, pages: 7, text_generation: Some(time), updated_at, ..document() };
            assert_eq!(document().with_text(&text), expected);
            let again = text_record_of(Some(&text), TextState::Processing, 0, false, time);
            assert_eq!(expected.with_text(&again).text_generation, None, "the text is not available");
        }
    }
}
