//! Extractions: data that a prompt extracted from a document, and later edits of the data.

use std::collections::{BTreeSet, HashMap};

use folio_types::op::{OpResult, Write};
use folio_types::{
    DocumentId, ExtractionId, OrgId, PromptId, PromptRevId, Result, SchemaId, SchemaRevId, TagId, ThreadId, Timestamp,
    UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::common_functions;
use crate::tag_set::tag_terms;
use crate::{
    AgentRun, AgentStep, Condition, CreationPeriod, Document, ExtractionReport, FieldLog, ListRow, Plan, Prompt,
    Resource, Review, leaves, parent_term, term,
};

/// Contains both the extracted data and its newest edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    pub id: ExtractionId,
    pub org: OrgId,
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// Schema that the data was validated against. None: the prompt has no schema.
    pub schema: Option<SchemaRevId>,
    /// Model that answered.
    pub model: String,
    /// Data that the model returned.
    pub original: Value,
    /// Newest edit of the data. None: never edited.
    pub edited: Option<Value>,
    /// True if a user confirmed the data, or a review rule approved all required values. Every edit resets the flag.
    pub verified: bool,
    /// User that confirmed the data. None: the extraction is not verified, or a review rule approved all required values.
    pub verified_by: Option<UserId>,
    /// The parts of the document that were read, and facts about single values.
    #[serde(default, skip_serializing_if = "ExtractionReport::is_empty")]
    pub report: ExtractionReport,
    /// Decisions about single values, and the last changes.
    #[serde(default, skip_serializing_if = "FieldLog::is_empty")]
    pub fields: FieldLog,
    /// The newest run of an agent. None: one model call returned the data, and no agent has worked on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRun>,
    /// User that ran the prompt.
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

impl Extraction {
    /// Returns the edited data if any, otherwise the original.
    pub fn current(&self) -> &Value {
        self.edited.as_ref().unwrap_or(&self.original)
    }

    /// Returns the paths of the current values that the original data contain, too. The citations and confidences of the report
    /// are about the original data, and so are no evidence for other values.
    pub fn unchanged_paths(&self) -> BTreeSet<String> {
        let original: HashMap<String, &Value> = leaves(&self.original).into_iter().collect();
        let current = leaves(self.current()).into_iter();
        current.filter(|(path, value)| original.get(path) == Some(value)).map(|(path, _)| path).collect()
    }

    /// Returns true if the extraction waits for a reviewer: it is not verified, and a user requested a review, or a current value
    /// has a decision (of a user or of the review rule).
    pub fn is_waiting_for_review(&self) -> bool {
        !self.verified && (self.fields.requested_by.is_some() || !self.fields.reviews.is_empty())
    }

    /// Replaces the data, and resets `verified`.
    fn edited(self, write: &Write<ExtractionChange>, data: &Value) -> Self {
        let fields = self.fields.clone().edited(write, self.current(), data);
        Self { edited: Some(data.clone()), verified: false, verified_by: None, fields, ..self }
    }
}

/// Result of a prompt run.
#[derive(Debug, Clone, PartialEq)]
pub struct NewExtraction {
    /// Document that was read. It must be live.
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// Schema that the data matches. None: the prompt has no schema.
    pub schema: Option<SchemaRevId>,
    /// Model that answered.
    pub model: String,
    pub data: Value,
    pub report: ExtractionReport,
    /// Approvals by the review rule of the schema. None: the schema has no rule.
    pub approvals: Option<Review>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExtractionChange {
    /// Stores the result of a prompt run.
    Create(Box<NewExtraction>),
    /// Creates an extraction in progress, on which the agent of a thread works.
    Begin(Box<NewExtraction>, ThreadId),
    /// Stores a step of the agent.
    Agent(Box<AgentStep>),
    /// Replaces the edited data by this complete data and resets `verified`.
    Edit { data: Value },
    /// Sets or resets `verified`.
    Verify { verified: bool },
    /// Records or withdraws decisions about single values, which may be corrected at the same time.
    Review(Review),
    /// Requests a review, or withdraws the request. The decisions are kept.
    RequestReview { requested: bool },
    /// Deletes the extraction.
    Delete,
}

/// All conditions must hold. None, or an empty list: no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtractionFilter {
    pub document: Option<DocumentId>,
    /// The document has all of these tags.
    pub document_tags: Vec<TagId>,
    /// Prompt of which any revision was run.
    pub prompt: Option<PromptId>,
    /// Prompt revision that was run.
    pub prompt_revision: Option<PromptRevId>,
    /// Schema of which any revision validated the data.
    pub schema: Option<SchemaId>,
    /// Schema revision that validated the data.
    pub schema_revision: Option<SchemaRevId>,
    pub verified: Option<bool>,
    /// True: only extractions that wait for a reviewer.
    pub is_waiting_for_review: bool,
    pub created: Option<CreationPeriod>,
}

/// Returns the search term for extractions of a document with a prompt revision.
fn revision_term(document: &DocumentId, prompt: &PromptRevId) -> String {
    format!("{}/{prompt}", parent_term(document))
}

/// Returns the search term of the extractions that wait for a reviewer.
fn waiting_for_review() -> String {
    term("review", "waiting")
}

const PROMPT: &str = "prompt";
const SCHEMA: &str = "schema";
const VERIFIED: &str = "verified";

impl Resource for Extraction {
    type Change = ExtractionChange;
    type Filter = ExtractionFilter;
    const KIND: &'static str = "extraction";
    const DELETE: ExtractionChange = ExtractionChange::Delete;
    const HAS_PARENT: bool = true;

    common_functions!(ExtractionId);

    fn parent(&self) -> Option<String> {
        Some(self.document.to_string())
    }

    fn named_revisions(&self) -> BTreeSet<(String, u32)> {
        let schema = self.schema.iter().map(|schema| (schema.of.to_string(), schema.version));
        // The built-in prompt has no stored revision.
        let prompt = Some(&self.prompt).filter(|prompt| Prompt::built_in(&prompt.of).is_none());
        schema.chain(prompt.map(|prompt| (prompt.of.to_string(), prompt.version))).collect()
    }

    fn list_row(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            terms: [
                parent_term(&self.document),
                revision_term(&self.document, &self.prompt),
                term(PROMPT, &self.prompt.of),
                term(PROMPT, &self.prompt),
                term(VERIFIED, self.verified),
            ]
            .into_iter()
            .chain(self.schema.iter().flat_map(|schema| [term(SCHEMA, &schema.of), term(SCHEMA, schema)]))
            .chain(self.is_waiting_for_review().then(waiting_for_review))
            .collect(),
            parent: Some(self.document.to_string()),
            created_at: Some(self.created_at),
            ..ListRow::default()
        }
    }

    fn parent_in(filter: &ExtractionFilter) -> Option<String> {
        filter.document.as_ref().map(ToString::to_string)
    }

    fn conditions(filter: &ExtractionFilter) -> Vec<Condition> {
        let ExtractionFilter { prompt, schema, schema_revision, verified, document_tags, created, .. } = filter;
        let terms = [
            match (&filter.document, &filter.prompt_revision) {
                (Some(document), Some(revision)) => Some(revision_term(document, revision)),
                (Some(document), None) => Some(parent_term(document)),
                (None, Some(revision)) => Some(term(PROMPT, revision)),
                (None, None) => None,
            },
            prompt.as_ref().map(|prompt| term(PROMPT, prompt)),
            schema.as_ref().map(|schema| term(SCHEMA, schema)),
            schema_revision.as_ref().map(|revision| term(SCHEMA, revision)),
            verified.map(|verified| term(VERIFIED, verified)),
            filter.is_waiting_for_review.then(waiting_for_review),
        ];
        let mut conditions: Vec<_> = terms.into_iter().flatten().map(|term| Condition::AnyTerm(vec![term])).collect();
        if !document_tags.is_empty() {
            let terms = tag_terms(document_tags).collect();
            conditions.push(Condition::ParentTerms { kind: Document::KIND, terms });
        }
        conditions.extend(created.map(Condition::Created));
        conditions
    }

    fn apply(id: &ExtractionId, write: &Write<ExtractionChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |extraction: Self, coverage| {
            let result = OpResult::Extraction {
                id: extraction.id.clone(),
                document: extraction.document.clone(),
                prompt: extraction.prompt.clone(),
                version: extraction.version,
                data: extraction.current().clone(),
                coverage,
            };
            Ok(Plan { after: Some(extraction), result })
        };
        let changed = |extraction: Self| Self { version: extraction.version + 1, updated_at: write.at, ..extraction };
        match (&write.change, before) {
            (ExtractionChange::Create(new) | ExtractionChange::Begin(new, _), None) => {
                let agent = match &write.change {
                    ExtractionChange::Begin(_, thread) => Some(AgentRun::first(Some(thread.clone()))),
                    _ => None,
                };
                let (fields, verified) = match &new.approvals {
                    Some(approvals) => {
                        let fields = FieldLog::default().reviewed(write, approvals, &new.data)?;
                        let verified = fields.is_approved(&approvals.required);
                        (fields, verified)
                    }
                    None => (FieldLog::default(), false),
                };
                let extraction = Self {
                    id: id.clone(),
                    org: write.org.clone(),
                    document: new.document.clone(),
                    prompt: new.prompt.clone(),
                    schema: new.schema.clone(),
                    model: new.model.clone(),
                    original: new.data.clone(),
                    edited: None,
                    verified,
                    verified_by: None,
                    report: new.report.clone(),
                    fields,
                    agent,
                    created_by: write.by.clone(),
                    created_at: write.at,
                    updated_at: write.at,
                    version: 1,
                };
                let coverage = (!new.report.is_empty()).then(|| new.report.coverage.clone());
                done(extraction, coverage)
            }
            (ExtractionChange::Agent(step), Some(extraction)) => {
                done(changed(extraction.after_step(write, step)?), None)
            }
            (ExtractionChange::Edit { data }, Some(extraction)) => done(changed(extraction.edited(write, data)), None),
            (ExtractionChange::Review(review), Some(extraction)) => {
                let extraction = match &review.data {
                    Some(data) => extraction.edited(write, data),
                    None => extraction,
                };
                let fields = extraction.fields.clone().reviewed(write, review, extraction.current())?;
                let verified = fields.is_approved(&review.required);
                let verified_by = verified.then(|| write.by.clone());
                done(changed(Self { fields, verified, verified_by, ..extraction }), None)
            }
            (ExtractionChange::RequestReview { requested }, Some(extraction)) => {
                let requested_by = requested.then(|| write.by.clone());
                let fields = FieldLog { requested_by, ..extraction.fields.clone() };
                done(changed(Self { fields, ..extraction }), None)
            }
            (ExtractionChange::Verify { verified }, Some(extraction)) => {
                let verified_by = verified.then(|| write.by.clone());
                done(changed(Self { verified: *verified, verified_by, ..extraction }), None)
            }
            (ExtractionChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::Coverage;
    use folio_types::op::Expected;
    use serde_json::json;

    use super::*;
    use crate::golden::{assert_golden, at, extraction, user};
    use crate::{
        BoundingBox, CheckOutcome, CheckResult, Citation, CitationKind, Conflict, EXAMPLES_MAX, FieldConfidence,
        FieldDecision, FieldReview, OriginalText, UsedExample, WordBoxes,
    };

    #[test]
    fn an_edit_replaces_the_current_data_and_a_verification_keeps_it() {
        let later = at() + std::time::Duration::from_secs(1);
        let before = Extraction { edited: None, ..extraction() };
        let by = UserId::derive(&["platform"]);
        let changed = Extraction { version: 4, updated_at: later, ..before.clone() };
        let write = |change| {
            let key = "change".parse().unwrap();
            Write::by_platform(before.org.clone(), key, later, Expected::Version(3), change)
        };
        let data = json!({"a": 2});
        let edit = ExtractionChange::Edit { data: data.clone() };
        let fields = FieldLog::default().edited(&write(edit.clone()), &before.original, &data);
        let edited = Extraction {
            edited: Some(data.clone()),
            verified: false,
            verified_by: None,
            fields: fields.clone(),
            ..changed.clone()
        };
        let fields_of_request = FieldLog { requested_by: Some(by.clone()), ..FieldLog::default() };
        let requested = Extraction { fields: fields_of_request, ..changed.clone() };
        let withdrawn = changed.clone();
        let verified = Extraction { verified: true, verified_by: Some(by), ..changed };
        let review = |required: &str| Review {
            paths: vec!["a".to_owned()],
            decision: Some(FieldDecision::Approved),
            is_by_rule: false,
            data: Some(data.clone()),
            required: vec![required.to_owned()],
            withdrawn: Vec::new(),
        };
        let reviewed = |verified| {
            let write = write(ExtractionChange::Review(review("a")));
            let fields = fields.clone().reviewed(&write, &review("a"), &data).unwrap();
            let verified_by = Some(write.by).filter(|_| verified);
            Extraction { verified, verified_by, fields, ..edited.clone() }
        };
        for (change, expected, data) in [
            (edit, edited.clone(), data.clone()),
            (ExtractionChange::Verify { verified: true }, verified, before.original.clone()),
            (ExtractionChange::Review(review("b")), reviewed(false), data.clone()),
            (ExtractionChange::Review(review("a")), reviewed(true), data.clone()),
            (ExtractionChange::RequestReview { requested: true }, requested, before.original.clone()),
            (ExtractionChange::RequestReview { requested: false }, withdrawn, before.original.clone()),
        ] {
            let write = write(change);
            let plan = Extraction::apply(&before.id, &write, Some(before.clone())).unwrap();
            let (id, document, prompt) = (before.id.clone(), before.document.clone(), before.prompt.clone());
            assert_eq!(plan.result, OpResult::Extraction { id, document, prompt, version: 4, data, coverage: None });
            assert_eq!(plan.after, Some(expected));
        }
    }

    #[test]
    fn an_extraction_waits_for_review_from_a_request_or_a_decision_until_it_is_verified() {
        let request = FieldLog { requested_by: Some(user()), ..FieldLog::default() };
        let review = FieldReview { decision: FieldDecision::Rejected, by: user(), at: at(), is_by_rule: false };
        let decided = FieldLog { reviews: [("zeta".to_owned(), review)].into(), ..FieldLog::default() };
        let both = FieldLog { requested_by: request.requested_by.clone(), ..decided.clone() };
        for (fields, is_waiting) in
            [(FieldLog::default(), false), (request, true), (decided, true), (both.clone(), true)]
        {
            for verified in [false, true] {
                let extraction = Extraction { fields: fields.clone(), verified, ..extraction() };
                let is_expected = is_waiting && !verified;
                assert_eq!(extraction.is_waiting_for_review(), is_expected, "{fields:?} {verified}");
                let filter = ExtractionFilter { is_waiting_for_review: true, ..ExtractionFilter::default() };
                let is_listed = extraction.list_row().matches(&Extraction::conditions(&filter));
                assert_eq!(is_listed, is_expected, "{fields:?} {verified}");
            }
        }
        assert_golden("review", Extraction { fields: both, verified: false, verified_by: None, ..extraction() });
    }

    fn report() -> ExtractionReport {
        let coverage = Coverage { pages: 137, pages_read: 136, windows: 9, model_calls: 10, ..Coverage::default() };
        let conflict = |page| Conflict { path: "total".into(), value: json!(12.5), page };
        let original = OriginalText { path: "items[0].date".into(), text: "17. März 2026".into() };
        let citation = Citation {
            path: "total".into(),
            kind: CitationKind::Located,
            page: 2,
            quote: "957,00 €".into(),
            start: 12,
            section: None,
            cell: None,
            occurrences: 2,
            boxes: WordBoxes::new(100.0, 100.0, [BoundingBox::around([(10.0, 10.0), (20.0, 15.0)])]),
        };
        let bare = Citation { boxes: WordBoxes::default(), ..citation.clone() };
        let (conflicts, citations) = (vec![conflict(Some(14)), conflict(None)], vec![citation, bare]);
        ExtractionReport { coverage, conflicts, originals: vec![original], citations, ..Default::default() }.bounded()
    }

    #[test]
    fn quotes_and_confidences_of_a_model_are_stored_and_those_of_an_older_version_are_located() {
        let confidences = vec![FieldConfidence { path: "total".into(), confidence: 0.75 }];
        let report = ExtractionReport { text_generation: Some(at()), confidences, ..report() };
        let cite = |citation| Citation { kind: CitationKind::Cited, ..citation };
        let citations = report.citations.iter().cloned().map(cite).collect();
        assert_golden("evidence", Extraction { report: ExtractionReport { citations, ..report }, ..extraction() });
        let (section, cell) = (Some("Invoices".to_owned()), Some("B7".to_owned()));
        let sheet = Citation { section, cell, ..report.citations[0].clone() };
        let stored = serde_json::to_value(&sheet).unwrap();
        assert_eq!((&stored["section"], &stored["cell"]), (&json!("Invoices"), &json!("B7")));
        assert_eq!(serde_json::from_value::<Citation>(stored).ok(), Some(sheet));
        let example = UsedExample { extraction: ExtractionId::derive(&["other"]), similarity: 0.75, threshold: 0.5 };
        let report = ExtractionReport { examples: vec![example; EXAMPLES_MAX + 1], ..self::report() }.bounded();
        assert_eq!(report.examples.len(), EXAMPLES_MAX);
        let report = ExtractionReport { examples: report.examples.into_iter().take(1).collect(), ..self::report() };
        assert_golden("examples", Extraction { report, ..extraction() });
        let old = json!({"path": "a", "page": 1, "quote": "x", "start": 0, "occurrences": 1});
        assert_eq!(serde_json::from_value::<Citation>(old).unwrap().kind, CitationKind::Located);
    }

    #[test]
    fn a_report_is_stored_with_the_extraction_and_its_numbers_with_the_result() {
        assert_golden("citations", Extraction { report: report(), ..extraction() });
        let mut incomplete = ExtractionReport { coverage: report().coverage, ..ExtractionReport::default() };
        incomplete.coverage.add_incomplete(3, true);
        incomplete.coverage.add_incomplete(7, false);
        assert_golden("incomplete_pages", Extraction { report: incomplete, ..extraction() });
        let windows = ExtractionReport { citations: Vec::new(), ..report() };
        assert_golden("windows", Extraction { report: windows, ..extraction() });
        let stored = extraction();
        let new = NewExtraction {
            document: stored.document.clone(),
            prompt: stored.prompt.clone(),
            schema: None,
            model: "model".into(),
            data: json!({}),
            report: report(),
            approvals: None,
        };
        let key = "create".parse().unwrap();
        let create =
            Write::by_platform(stored.org, key, at(), Expected::Absent, ExtractionChange::Create(Box::new(new)));
        let plan = Extraction::apply(&stored.id, &create, None).unwrap();
        let OpResult::Extraction { coverage, .. } = plan.result else { panic!("{:?}", plan.result) };
        assert_eq!(coverage, Some(Coverage { conflicts: 2, originals: 1, ..report().coverage }));
        assert_eq!(plan.after.unwrap().report, report());
        assert_eq!(report().without_values(), ExtractionReport { coverage: report().coverage, ..Default::default() });
    }

    #[test]
    fn values_that_a_rule_approves_are_reviewed_at_the_creation() {
        let outcome = |outcome| CheckResult { check: "a = b".into(), outcome };
        let checks = vec![
            outcome(CheckOutcome::Passed { left: 1.5, right: 1.5 }),
            outcome(CheckOutcome::Failed { left: 1.0, right: 2.0 }),
            outcome(CheckOutcome::NotEvaluable { reason: "no value".into() }),
        ];
        let stored = extraction();
        let created = |required: &[&str]| {
            let new = NewExtraction {
                document: stored.document.clone(),
                prompt: stored.prompt.clone(),
                schema: stored.schema.clone(),
                model: "model".into(),
                data: json!({"a": 1, "b": 2}),
                report: ExtractionReport { checks: checks.clone(), ..report() },
                approvals: Some(Review {
                    paths: vec!["a".into()],
                    decision: Some(FieldDecision::Approved),
                    is_by_rule: true,
                    data: None,
                    required: required.iter().map(|path| (*path).into()).collect(),
                    withdrawn: Vec::new(),
                }),
            };
            let (key, change) = ("create".parse().unwrap(), ExtractionChange::Create(Box::new(new)));
            let create = Write::by_platform(stored.org.clone(), key, at(), Expected::Absent, change);
            Extraction::apply(&stored.id, &create, None).unwrap().after.unwrap()
        };
        let partly = created(&["a", "b"]);
        assert!(!partly.verified && partly.fields.reviews["a"].is_by_rule && partly.fields.changes[0].is_by_rule);
        let verified = created(&["a"]);
        assert_eq!((verified.verified, &verified.verified_by), (true, &None));
        assert_golden("rule", verified);
    }
}
