//! Conversions of stored resources.

use folio_resources::{
    BoundingBox, CheckOutcome, CheckResult, Citation, CitationKind, Collection, CollectionRule, Conflict,
    DictionaryEntry, Document, DocumentPart, Extraction, ExtractionState, FieldChange, FieldChangeKind, FieldDecision,
    FieldReview, ImageFormat, OriginalText, Prompt, PromptRevision, Provenance, RefusedPart, ReviewRule, Schema,
    SchemaRevision, Tag, TextState, UsedExample, partly_searchable_keys,
};
use folio_types::{Coverage, Error, Etag, Result, Temperature};

use super::time;
use crate::fields::text_of;
use crate::{json, v1};

fn texts<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

impl From<&Document> for v1::Document {
    fn from(document: &Document) -> Self {
        let (state, reason) = text_state(&document.state);
        Self {
            document_id: document.id.to_string(),
            name: document.name.clone(),
            media_type: document.media_type.clone(),
            size_bytes: document.size,
            sha256: document.sha256.clone(),
            tag_ids: texts(&document.tags),
            metadata: document.metadata.clone().into_iter().collect(),
            state: state.into(),
            state_reason: reason.to_owned(),
            pages: document.pages,
            text_generation: text_of(document.text_generation.as_ref()),
            created_by: document.created_by.to_string(),
            create_time: Some(time::to_proto(document.created_at)),
            update_time: Some(time::to_proto(document.updated_at)),
            etag: Etag::new(document.version).to_string(),
            partly_searchable_keys: partly_searchable_keys(&document.metadata),
            auto_create: document.has_auto_create,
            parent_document_id: document.part.as_ref().map(|part| part.parent.to_string()).unwrap_or_default(),
            part: document.part.as_ref().map(Into::into),
            refused_parts: document.refused_parts.iter().map(Into::into).collect(),
        }
    }
}

impl From<&DocumentPart> for v1::DocumentPart {
    fn from(part: &DocumentPart) -> Self {
        Self {
            position: part.position,
            path: part.path.clone(),
            first_page: part.pages.map(|pages| pages.first).unwrap_or_default(),
            last_page: part.pages.map(|pages| pages.last).unwrap_or_default(),
        }
    }
}

impl From<&RefusedPart> for v1::RefusedPart {
    fn from(part: &RefusedPart) -> Self {
        Self { position: part.position, path: part.path.clone(), reason: part.reason.clone() }
    }
}

/// Returns the state of a text and its reason. The reason is empty unless the state is `NO_TEXT` or `FAILED`.
pub fn text_state(state: &TextState) -> (v1::DocumentState, &str) {
    match state {
        TextState::Uploaded => (v1::DocumentState::Uploaded, ""),
        TextState::Processing => (v1::DocumentState::Processing, ""),
        TextState::Ready => (v1::DocumentState::Ready, ""),
        TextState::NoText(reason) => (v1::DocumentState::NoText, reason),
        TextState::Failed(reason) => (v1::DocumentState::Failed, reason),
    }
}

/// Parses the format of a page image. Unspecified: PNG.
///
/// # Errors
/// `INVALID_FIELD` if the number is unknown.
pub fn image_format(field: &str, format: i32) -> Result<ImageFormat> {
    match v1::ImageFormat::try_from(format) {
        Ok(v1::ImageFormat::Unspecified | v1::ImageFormat::Png) => Ok(ImageFormat::Png),
        Ok(v1::ImageFormat::Webp) => Ok(ImageFormat::WebP),
        Err(_) => Err(Error::invalid_field(field, format!("{format} is unknown"))),
    }
}

pub fn image_format_to_proto(format: ImageFormat) -> v1::ImageFormat {
    match format {
        ImageFormat::Png => v1::ImageFormat::Png,
        ImageFormat::WebP => v1::ImageFormat::Webp,
    }
}

impl From<&SchemaRevision> for v1::SchemaRevision {
    fn from(revision: &SchemaRevision) -> Self {
        Self {
            schema_revid: revision.revid.to_string(),
            schema_id: revision.revid.of.to_string(),
            revision: revision.revid.version,
            name: revision.name.clone(),
            response_format_json: json::text(&revision.response_format),
            strict: revision.strict,
            created_by: revision.created_by.to_string(),
            create_time: Some(time::to_proto(revision.created_at)),
        }
    }
}

impl From<&Schema> for v1::Schema {
    fn from(schema: &Schema) -> Self {
        let newest = v1::SchemaRevision::from(&schema.latest);
        Self {
            schema_id: newest.schema_id,
            name: newest.name,
            response_format_json: newest.response_format_json,
            strict: newest.strict,
            schema_revid: newest.schema_revid,
            revision: newest.revision,
            revision_created_by: newest.created_by,
            revision_create_time: newest.create_time,
            etag: Etag::new(schema.version).to_string(),
            review_rule: schema.review_rule.as_ref().map(Into::into),
            pending_proposal_id: String::new(),
        }
    }
}

impl From<&ReviewRule> for v1::ReviewRule {
    fn from(rule: &ReviewRule) -> Self {
        Self { min_confidence: rule.min_confidence, checks: rule.checks.clone() }
    }
}

impl From<v1::ReviewRule> for ReviewRule {
    fn from(rule: v1::ReviewRule) -> Self {
        Self { min_confidence: rule.min_confidence, checks: rule.checks }
    }
}

impl From<&CheckResult> for v1::CheckResult {
    fn from(CheckResult { check, outcome }: &CheckResult) -> Self {
        let (outcome, values, reason) = match outcome {
            CheckOutcome::Passed { left, right } => (v1::CheckOutcome::Passed, Some((*left, *right)), ""),
            CheckOutcome::Failed { left, right } => (v1::CheckOutcome::Failed, Some((*left, *right)), ""),
            CheckOutcome::NotEvaluable { reason } => (v1::CheckOutcome::NotEvaluable, None, reason.as_str()),
        };
        Self {
            check: check.clone(),
            outcome: outcome.into(),
            left: values.map(|(left, _)| left),
            right: values.map(|(_, right)| right),
            reason: reason.to_owned(),
        }
    }
}

impl From<&PromptRevision> for v1::PromptRevision {
    fn from(revision: &PromptRevision) -> Self {
        Self {
            prompt_revid: revision.revid.to_string(),
            prompt_id: revision.revid.of.to_string(),
            revision: revision.revid.version,
            name: revision.name.clone(),
            content: revision.content.clone(),
            schema_revid: text_of(revision.schema.as_ref()),
            model: revision.model.clone().unwrap_or_default(),
            tag_ids: texts(&revision.tags),
            created_by: revision.created_by.to_string(),
            create_time: Some(time::to_proto(revision.created_at)),
            temperature: revision.temperature.map(Temperature::get),
            agent: revision.is_run_by_agent,
        }
    }
}

impl From<&Prompt> for v1::Prompt {
    fn from(prompt: &Prompt) -> Self {
        let newest = v1::PromptRevision::from(&prompt.latest);
        Self {
            prompt_id: newest.prompt_id,
            name: newest.name,
            content: newest.content,
            schema_revid: newest.schema_revid,
            model: newest.model,
            tag_ids: newest.tag_ids,
            prompt_revid: newest.prompt_revid,
            revision: newest.revision,
            revision_created_by: newest.created_by,
            revision_create_time: newest.create_time,
            etag: Etag::new(prompt.version).to_string(),
            temperature: newest.temperature,
            agent: newest.agent,
            pending_proposal_id: String::new(),
        }
    }
}

impl From<&Tag> for v1::Tag {
    fn from(tag: &Tag) -> Self {
        Self {
            tag_id: tag.id.to_string(),
            name: tag.name.clone(),
            color: tag.color.clone().unwrap_or_default(),
            description: tag.description.clone().unwrap_or_default(),
            created_by: tag.created_by.to_string(),
            create_time: Some(time::to_proto(tag.created_at)),
            update_time: Some(time::to_proto(tag.updated_at)),
            etag: Etag::new(tag.version).to_string(),
        }
    }
}

impl From<&Collection> for v1::Collection {
    fn from(collection: &Collection) -> Self {
        let CollectionRule { tags, metadata } = collection.rule.clone();
        Self {
            collection_id: collection.id.to_string(),
            name: collection.name.clone(),
            description: collection.description.clone().unwrap_or_default(),
            tag_ids: tags.iter().map(ToString::to_string).collect(),
            metadata,
            created_by: collection.created_by.to_string(),
            create_time: Some(time::to_proto(collection.created_at)),
            update_time: Some(time::to_proto(collection.updated_at)),
            etag: Etag::new(collection.version).to_string(),
        }
    }
}

impl From<&DictionaryEntry> for v1::DictionaryEntry {
    fn from(entry: &DictionaryEntry) -> Self {
        let provenance = match entry.provenance {
            Provenance::Person => v1::DictionaryProvenance::Person,
            Provenance::Agent => v1::DictionaryProvenance::Agent,
            Provenance::Inferred { .. } => v1::DictionaryProvenance::Inferred,
        };
        Self {
            dictionary_entry_id: entry.id.to_string(),
            term: entry.term.clone(),
            expansion: entry.expansion.clone(),
            disambiguation: entry.disambiguation.clone().unwrap_or_default(),
            tags: entry.tags.clone(),
            source_document_ids: entry.sources.iter().map(ToString::to_string).collect(),
            provenance: provenance.into(),
            confidence: entry.provenance.confidence(),
            created_by: entry.created_by.to_string(),
            create_time: Some(time::to_proto(entry.created_at)),
            update_time: Some(time::to_proto(entry.updated_at)),
            etag: Etag::new(entry.version).to_string(),
        }
    }
}

impl From<&Extraction> for v1::Extraction {
    fn from(extraction: &Extraction) -> Self {
        let report = &extraction.report;
        let text_generation = text_of(report.text_generation.as_ref());
        let state = match extraction.state() {
            ExtractionState::InProgress => v1::ExtractionState::InProgress,
            ExtractionState::Completed => v1::ExtractionState::Completed,
            ExtractionState::Failed => v1::ExtractionState::Failed,
        };
        let agent = extraction.agent.as_ref();
        let document_type = agent.and_then(|agent| agent.document_type.as_ref());
        Self {
            extraction_id: extraction.id.to_string(),
            document_id: extraction.document.to_string(),
            prompt_revid: extraction.prompt.to_string(),
            schema_revid: text_of(extraction.schema.as_ref()),
            model: extraction.model.clone(),
            original_json: json::text(&extraction.original),
            edited_json: extraction.edited.as_ref().map(json::text),
            verified: extraction.verified,
            verified_by: text_of(extraction.verified_by.as_ref()),
            created_by: extraction.created_by.to_string(),
            create_time: Some(time::to_proto(extraction.created_at)),
            update_time: Some(time::to_proto(extraction.updated_at)),
            etag: Etag::new(extraction.version).to_string(),
            coverage: (!report.is_empty()).then(|| report.coverage.clone().into()),
            conflicts: report.conflicts.iter().map(Into::into).collect(),
            originals: report.originals.iter().map(Into::into).collect(),
            citations: report.citations.iter().map(|found| citation(found, &text_generation)).collect(),
            confidences: report
                .confidences
                .iter()
                .map(|found| v1::FieldConfidence { path: found.path.clone(), confidence: found.confidence })
                .collect(),
            reviews: extraction.fields.reviews.iter().map(field_review).collect(),
            checks: report.checks.iter().map(Into::into).collect(),
            review_requested_by: text_of(extraction.fields.requested_by.as_ref()),
            examples: report.examples.iter().map(Into::into).collect(),
            state: state.into(),
            document_type: document_type
                .map(|found| v1::DocumentType { name: found.name.clone(), confidence: found.confidence }),
            failure: agent.and_then(|agent| agent.failure.clone()).unwrap_or_default(),
        }
    }
}

impl From<&UsedExample> for v1::ExtractionExample {
    fn from(UsedExample { extraction, similarity, threshold }: &UsedExample) -> Self {
        Self { extraction_id: extraction.to_string(), similarity: *similarity, threshold: *threshold }
    }
}

fn field_review((path, review): (&String, &FieldReview)) -> v1::FieldReview {
    let decision = match review.decision {
        FieldDecision::Approved => v1::FieldDecision::Approved,
        FieldDecision::Rejected => v1::FieldDecision::Rejected,
    };
    v1::FieldReview {
        path: path.clone(),
        decision: decision.into(),
        user_id: text_of(Some(&review.by).filter(|_| !review.is_by_rule)),
        by_rule: review.is_by_rule,
        decide_time: Some(time::to_proto(review.at)),
    }
}

/// Parses a decision of a request. None: withdraws the decision.
pub fn field_decision(field: &str, decision: i32) -> Result<Option<FieldDecision>> {
    match v1::FieldDecision::try_from(decision) {
        Ok(v1::FieldDecision::Approved) => Ok(Some(FieldDecision::Approved)),
        Ok(v1::FieldDecision::Rejected) => Ok(Some(FieldDecision::Rejected)),
        Ok(v1::FieldDecision::None) => Ok(None),
        Ok(v1::FieldDecision::Unspecified) | Err(_) => Err(Error::invalid_field(field, "is missing or unknown")),
    }
}

impl From<&FieldChange> for v1::FieldChange {
    fn from(change: &FieldChange) -> Self {
        let kind = match change.kind {
            FieldChangeKind::Edited => v1::FieldChangeKind::Edited,
            FieldChangeKind::Approved => v1::FieldChangeKind::Approved,
            FieldChangeKind::Rejected => v1::FieldChangeKind::Rejected,
            FieldChangeKind::Reset => v1::FieldChangeKind::Reset,
        };
        Self {
            path: change.path.clone(),
            kind: kind.into(),
            user_id: text_of(Some(&change.by).filter(|_| !change.is_by_rule)),
            by_rule: change.is_by_rule,
            by_agent: change.is_by_agent,
            create_time: Some(time::to_proto(change.at)),
            before_json: change.before.as_ref().map(json::text),
            after_json: change.after.as_ref().map(json::text),
        }
    }
}

same_fields!(
    Coverage = v1::ExtractionCoverage {
        pages,
        pages_read,
        windows,
        model_calls,
        conflicts,
        originals,
        located,
        inferred,
        pages_missing,
        pages_incomplete,
        incomplete_pages,
        cited
    }
);

/// `text_generation`: the text that the citations of the extraction were checked against.
pub(super) fn citation(citation: &Citation, text_generation: &str) -> v1::Citation {
    let boxes = (0..citation.boxes.len()).filter_map(|word| citation.boxes.fractions(word));
    let kind = match citation.kind {
        CitationKind::Located => v1::CitationKind::Located,
        CitationKind::Cited => v1::CitationKind::Cited,
    };
    v1::Citation {
        path: citation.path.clone(),
        page: citation.page,
        quote: citation.quote.clone(),
        start: citation.start,
        occurrences: citation.occurrences,
        boxes: boxes.map(Into::into).collect(),
        kind: kind.into(),
        text_generation: text_generation.to_owned(),
        section: citation.section.clone().unwrap_or_default(),
        cell: citation.cell.clone().unwrap_or_default(),
    }
}

impl From<BoundingBox> for v1::BoundingBox {
    #[expect(clippy::cast_possible_truncation, reason = "a stored coordinate has five digits")]
    fn from(rectangle: BoundingBox) -> Self {
        let BoundingBox { left, top, right, bottom } = rectangle;
        Self { left: left as f32, top: top as f32, right: right as f32, bottom: bottom as f32 }
    }
}

impl From<&Conflict> for v1::ExtractionConflict {
    fn from(conflict: &Conflict) -> Self {
        Self {
            path: conflict.path.clone(),
            value_json: json::text(&conflict.value),
            page: conflict.page.unwrap_or_default(),
        }
    }
}

impl From<&OriginalText> for v1::OriginalText {
    fn from(original: &OriginalText) -> Self {
        Self { path: original.path.clone(), text: original.text.clone() }
    }
}
