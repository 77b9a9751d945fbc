//! The run of an agent on an extraction: its state, and the steps that the agent writes one by one.
//!
//! ```text
//! Begin ──► InProgress ──Complete──► Completed
//!            ▲   │  └────Fail──────► Failed
//!            │   └ Identify, Write          │
//!            └───────────Start──────────────┘ (also after Completed)
//! ```

use folio_types::op::Write;
use folio_types::{Error, Reason, Result, ThreadId, Timestamp, named_enum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Citation, Extraction, ExtractionChange, ExtractionReport, FieldConfidence, Review};

/// Maximum length of the name of a document type, in characters.
// proto: DocumentType.name "at most {} characters"
pub const DOCUMENT_TYPE_CHARS: usize = 100;
/// Maximum length of the reason of a failure, in characters. A longer reason is cut.
// proto: Extraction.failure "at most {} characters"
pub const FAILURE_CHARS: usize = 500;

named_enum! {
    /// The state of an extraction.
    #[derive(Default)]
    pub enum ExtractionState {
        /// An agent works on the extraction. The data is partial and need not match the schema.
        #[default]
        InProgress = "in_progress",
        Completed = "completed",
        /// The agent ended without completing the extraction, whose data is what the agent wrote until then.
        Failed = "failed",
    }
}

/// The type of a document, as an agent identified it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentType {
    /// Such as `invoice`, at most [`DOCUMENT_TYPE_CHARS`] characters.
    pub name: String,
    /// The confidence of the model, from 0 to 1.
    pub confidence: f64,
}

/// The newest run of an agent on an extraction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentRun {
    pub state: ExtractionState,
    /// Number of the run. 1: the run with which the extraction began.
    pub number: u32,
    /// None: not identified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_type: Option<DocumentType>,
    /// The reason of a failure, for people. None: the run did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The thread of the run. The agent of another thread may not write the extraction. None: an older version of Folio started the
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
}

impl AgentRun {
    /// Returns the run with which an extraction begins.
    pub(crate) fn first(thread: Option<ThreadId>) -> Self {
        Self { number: 1, thread, ..Self::default() }
    }
}

/// A step of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentStep {
    /// Starts a further run, for example to correct the data. It replaces a run in progress.
    Start {
        thread: ThreadId,
    },
    Identify(DocumentType),
    /// Replaces the data, and the evidence for its values.
    Write(AgentData),
    /// Ends the run. `report`: the evidence for the values of the whole data. `approvals`: those of the review rule of the
    /// schema. None: the schema has no rule.
    Complete {
        report: Box<ExtractionReport>,
        approvals: Option<Review>,
    },
    Fail {
        reason: String,
    },
}

/// The complete data of an extraction, with the evidence that the model stated and the server checked.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentData {
    pub data: Value,
    /// In the order of the data.
    pub citations: Vec<Citation>,
    /// In the order of the data.
    pub confidences: Vec<FieldConfidence>,
    /// The version of the text that the citations refer to.
    pub text_generation: Option<Timestamp>,
}

impl Extraction {
    /// Returns the state. An extraction that no agent works on is completed.
    pub fn state(&self) -> ExtractionState {
        self.agent.as_ref().map_or(ExtractionState::Completed, |agent| agent.state)
    }

    /// Returns true if the newest run of an agent is the one of a thread.
    pub fn is_run_of(&self, thread: &ThreadId) -> bool {
        self.agent.as_ref().is_some_and(|run| run.thread.as_ref().is_none_or(|found| found == thread))
    }

    /// Returns the extraction after a step of its agent, with the version and time of the extraction before.
    ///
    /// # Errors
    /// `EXTRACTION_ENDED` if no run is in progress and the step does not start one.
    pub(crate) fn after_step(self, write: &Write<ExtractionChange>, step: &AgentStep) -> Result<Self> {
        // A prompt run without an agent counts as the first run.
        let run = self.agent.clone().unwrap_or_else(|| AgentRun::first(None));
        if !matches!(step, AgentStep::Start { .. }) && self.state() != ExtractionState::InProgress {
            let message = format!("the extraction is {}: no agent works on it", self.state().as_str());
            return Err(Error::precondition(Reason::ExtractionEnded, message));
        }
        let with_run = |run: AgentRun, extraction: Self| Self { agent: Some(run), ..extraction };
        match step {
            AgentStep::Start { thread } => {
                let (number, thread) = (run.number.saturating_add(1), Some(thread.clone()));
                let state = ExtractionState::InProgress;
                Ok(with_run(AgentRun { state, number, failure: None, thread, ..run }, self))
            }
            AgentStep::Identify(found) => Ok(with_run(AgentRun { document_type: Some(found.clone()), ..run }, self)),
            AgentStep::Write(AgentData { data, citations, confidences, text_generation }) => {
                let fields = self.fields.clone().edited(write, self.current(), data);
                let report = ExtractionReport {
                    citations: citations.clone(),
                    confidences: confidences.clone(),
                    text_generation: *text_generation,
                    // The agent replaces the results of an earlier prompt run, of which only the coverage is kept.
                    coverage: self.report.coverage.clone(),
                    ..ExtractionReport::default()
                };
                // The evidence is about the original data. An edit by a person is part of the data that the agent read.
                let (original, edited) = (data.clone(), self.edited.as_ref().map(|_| data.clone()));
                let (verified, verified_by) = (false, None);
                Ok(Self { original, edited, verified, verified_by, report: report.bounded(), fields, ..self })
            }
            AgentStep::Complete { report, approvals } => {
                let mut extraction = self;
                if let Some(approvals) = approvals {
                    // The rule has evaluated the whole data, so its earlier approvals do not count. A decision of a person is kept.
                    let withdrawn = extraction.fields.unsupported(&approvals.paths.iter().cloned().collect());
                    let is_open = |path: &&String| !extraction.fields.reviews.contains_key(*path);
                    let paths = approvals.paths.iter().filter(is_open).cloned().collect();
                    let approvals = Review { paths, withdrawn, ..approvals.clone() };
                    let fields = extraction.fields.clone().reviewed(write, &approvals, extraction.current())?;
                    let is_verified_by_user = extraction.verified && extraction.verified_by.is_some();
                    extraction.verified = is_verified_by_user || fields.is_approved(&approvals.required);
                    extraction.fields = fields;
                }
                extraction.report = ExtractionReport::clone(report);
                Ok(with_run(AgentRun { state: ExtractionState::Completed, failure: None, ..run }, extraction))
            }
            AgentStep::Fail { reason } => {
                let failure = Some(reason.chars().take(FAILURE_CHARS).collect());
                Ok(with_run(AgentRun { state: ExtractionState::Failed, failure, ..run }, self))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::Expected;
    use serde_json::json;

    use super::*;
    use crate::golden::{assert_golden, at, extraction, user};
    use crate::{CitationKind, FieldChangeKind, FieldDecision, FieldLog, NewExtraction, Resource as _, WordBoxes};

    fn write(change: ExtractionChange, expected: Expected) -> Write<ExtractionChange> {
        Write::by_platform(extraction().org, "step".parse().unwrap(), at(), expected, change)
    }

    fn step(before: &Extraction, step: AgentStep) -> Result<Extraction> {
        let write = write(ExtractionChange::Agent(Box::new(step)), Expected::Version(before.version));
        Ok(Extraction::apply(&before.id, &write, Some(before.clone()))?.after.unwrap())
    }

    fn thread(name: &str) -> ThreadId {
        ThreadId::derive(&[name])
    }

    fn start() -> AgentStep {
        AgentStep::Start { thread: thread("further") }
    }

    fn begun() -> Extraction {
        let stored = extraction();
        let new = NewExtraction {
            document: stored.document.clone(),
            prompt: stored.prompt.clone(),
            schema: stored.schema.clone(),
            model: stored.model.clone(),
            data: json!({}),
            report: ExtractionReport::default(),
            approvals: None,
        };
        let write = write(ExtractionChange::Begin(Box::new(new), thread("first")), Expected::Absent);
        Extraction::apply(&stored.id, &write, None).unwrap().after.unwrap()
    }

    fn citation(path: &str) -> Citation {
        Citation {
            path: path.to_owned(),
            kind: CitationKind::Cited,
            page: 1,
            quote: "Total 5".to_owned(),
            start: 0,
            section: None,
            cell: None,
            occurrences: 1,
            boxes: WordBoxes::default(),
        }
    }

    fn data(value: Value) -> AgentStep {
        AgentStep::Write(AgentData {
            data: value,
            citations: vec![citation("total")],
            confidences: vec![FieldConfidence { path: "total".to_owned(), confidence: 0.5 }],
            text_generation: Some(at()),
        })
    }

    fn invoice() -> AgentStep {
        AgentStep::Identify(DocumentType { name: "invoice".to_owned(), confidence: 0.9 })
    }

    fn complete(approvals: Option<Review>) -> AgentStep {
        let report = ExtractionReport { citations: vec![citation("total")], ..ExtractionReport::default() };
        AgentStep::Complete { report: Box::new(report), approvals }
    }

    #[test]
    fn each_step_is_stored_until_the_run_ends() {
        let begun = begun();
        assert_eq!((begun.state(), begun.version), (ExtractionState::InProgress, 1));
        let identified = step(&begun, invoice()).unwrap();
        let written = step(&identified, data(json!({"total": 5}))).unwrap();
        assert_eq!((&written.original, &written.edited, written.version), (&json!({"total": 5}), &None, 3));
        assert_eq!((written.report.citations.len(), written.report.confidences.len()), (1, 1));
        assert_golden("agent_thread", written.clone());
        let of_older_version = written.agent.clone().map(|run| AgentRun { thread: None, ..run });
        assert_golden("agent", Extraction { agent: of_older_version, ..written.clone() });
        let completed = step(&written, complete(None)).unwrap();
        assert_eq!((completed.state(), completed.verified), (ExtractionState::Completed, false));
        assert_eq!(completed.agent.as_ref().unwrap().document_type.as_ref().unwrap().name, "invoice");
        let failed = step(&written, AgentStep::Fail { reason: "ä".repeat(FAILURE_CHARS + 1) }).unwrap();
        assert_eq!((failed.state(), failed.original), (ExtractionState::Failed, written.original));
        assert_eq!(failed.agent.unwrap().failure.unwrap().chars().count(), FAILURE_CHARS);
    }

    #[test]
    fn an_ended_run_accepts_only_the_start_of_another_one() {
        let begun = begun();
        let by_prompt = Extraction { agent: None, ..extraction() };
        let failed = step(&begun, AgentStep::Fail { reason: "x".to_owned() }).unwrap();
        for ended in [step(&begun, complete(None)).unwrap(), failed, by_prompt] {
            for refused in [invoice(), data(json!({})), complete(None), AgentStep::Fail { reason: String::new() }] {
                assert_eq!(step(&ended, refused.clone()).unwrap_err().reason, Reason::ExtractionEnded, "{refused:?}");
            }
            let again = step(&ended, start()).unwrap();
            assert!(again.is_run_of(&thread("further")) && !again.is_run_of(&thread("first")));
            assert_eq!(
                (again.state(), again.agent.as_ref().unwrap().failure.clone()),
                (ExtractionState::InProgress, None)
            );
            assert_eq!(again.current(), ended.current());
            let number = |extraction: &Extraction| extraction.agent.as_ref().map_or(1, |agent| agent.number);
            assert_eq!(number(&again), number(&ended) + 1);
            step(&again, invoice()).unwrap();
        }
    }

    #[test]
    fn a_write_keeps_the_mark_of_an_edit_and_withdraws_decisions_about_changed_values() {
        let review = Review {
            paths: vec!["total".to_owned(), "name".to_owned()],
            decision: Some(FieldDecision::Approved),
            is_by_rule: false,
            data: None,
            required: vec!["total".to_owned()],
            withdrawn: Vec::new(),
        };
        let before = json!({"total": 4, "name": "a"});
        let log = write(ExtractionChange::Verify { verified: true }, Expected::Version(3));
        let fields = FieldLog::default().reviewed(&log, &review, &before).unwrap();
        let agent = Some(AgentRun::default());
        let edited = Extraction { edited: Some(before), fields, verified: true, agent, ..extraction() };
        let after = json!({"total": 5, "name": "a"});
        let written = step(&edited, data(after.clone())).unwrap();
        assert_eq!((&written.original, &written.edited), (&after, &Some(after.clone())));
        assert_eq!((written.verified, &written.verified_by), (false, &None));
        assert_eq!(written.fields.reviews.keys().collect::<Vec<_>>(), ["name"]);
    }

    #[test]
    fn the_review_rule_approves_values_at_the_end_except_those_that_a_person_decided() {
        let written = step(&begun(), data(json!({"total": 5, "name": "a"}))).unwrap();
        let review = |paths: &[&str], decision, is_by_rule| Review {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            decision: Some(decision),
            is_by_rule,
            data: None,
            required: vec!["total".to_owned()],
            withdrawn: Vec::new(),
        };
        let by_rule = review(&["total", "name"], FieldDecision::Approved, true);
        let completed = step(&written, complete(Some(by_rule.clone()))).unwrap();
        assert!(completed.verified && completed.verified_by.is_none());
        let rejected = ExtractionChange::Review(review(&["name"], FieldDecision::Rejected, false));
        let rejected = write(rejected, Expected::Version(written.version));
        let rejected = Extraction::apply(&written.id, &rejected, Some(written.clone())).unwrap().after.unwrap();
        let completed = step(&rejected, complete(Some(by_rule))).unwrap();
        assert_eq!(completed.fields.reviews["name"].decision, FieldDecision::Rejected);
        assert!(completed.fields.reviews["total"].is_by_rule && !completed.verified);
    }

    #[test]
    fn a_further_completion_withdraws_the_earlier_approvals_of_the_rule() {
        let by_rule = |paths: &[&str]| Review {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            decision: Some(FieldDecision::Approved),
            is_by_rule: true,
            data: None,
            required: vec!["total".to_owned()],
            withdrawn: Vec::new(),
        };
        let written = step(&begun(), data(json!({"total": 5, "name": "a"}))).unwrap();
        let completed = step(&written, complete(Some(by_rule(&["total", "name"])))).unwrap();
        assert!(completed.verified);
        let again = step(&completed, start()).unwrap();
        let changed = step(&again, data(json!({"total": 5, "name": "b"}))).unwrap();
        // A check of the rule that names both values fails now.
        for before in [&again, &changed] {
            let completed = step(before, complete(Some(by_rule(&[])))).unwrap();
            assert!(!completed.verified && completed.fields.reviews.is_empty(), "{completed:?}");
            let last = completed.fields.changes.last().unwrap();
            assert_eq!((last.kind, last.is_by_rule), (FieldChangeKind::Reset, true));
        }
        let by_user = Extraction { verified: true, verified_by: Some(user()), ..again };
        assert!(step(&by_user, complete(Some(by_rule(&[])))).unwrap().verified);
    }
}
