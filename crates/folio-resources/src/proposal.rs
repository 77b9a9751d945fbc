//! Proposals: the schema, the prompt and the extraction that an agent made for a document without a person.
//!
//! ```text
//! Create ─┬─► Proposed ─┬─Accept─► Accepted
//!         │             └─Reject─► Rejected
//!         ├─► Failed
//!         └─► Skipped
//! ```

use std::collections::BTreeSet;

use folio_types::op::Write;
use folio_types::{
    DocumentId, ExtractionId, OrgId, PromptId, PromptRevId, ProposalId, Reason, Result, SchemaId, SchemaRevId,
    ThreadId, Timestamp, UserId, named_enum,
};
use serde::{Deserialize, Serialize};

use crate::resource::{common_functions, decided_function};
use crate::{Condition, CreationPeriod, ListRow, Plan, Resource, parent_term, term};

/// Maximum length of the reason of a proposal that failed or was skipped, in characters. A longer reason is cut.
// proto: Proposal.reason "at most {} characters"
pub const PROPOSAL_REASON_CHARS: usize = 500;

named_enum! {
    /// The state of a proposal.
    pub enum ProposalState {
        /// The proposal waits for the decision of a person.
        Proposed = "proposed",
        Accepted = "accepted",
        Rejected = "rejected",
        /// The run ended before its first extraction.
        Failed = "failed",
        /// Nothing ran, for example because the document has no text.
        Skipped = "skipped",
    }
}

impl ProposalState {
    /// Returns true if the proposed resources are in use: they are open or accepted.
    pub fn is_in_use(self) -> bool {
        matches!(self, Self::Proposed | Self::Accepted)
    }
}

/// The accepted proposal of a similar document, whose schema and prompt are proposed again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimilarProposal {
    pub proposal: ProposalId,
    /// Similarity of the first pages, from 0 to 1.
    pub similarity: f64,
    /// The minimum similarity when the proposal was made.
    pub threshold: f64,
}

/// The resources of a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposedResources {
    /// None: the prompt has no schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaRevId>,
    /// True if the schema existed before the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_schema_reused: bool,
    pub prompt: PromptRevId,
    pub extraction: ExtractionId,
    /// Name of the document type, which a tag for later documents may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_type: Option<String>,
    /// None: the agent made the schema and the prompt for this document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similar: Option<SimilarProposal>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Derived from the document and the version of its text, so that an interrupted run does not make two proposals.
    pub id: ProposalId,
    pub org: OrgId,
    pub document: DocumentId,
    pub state: ProposalState,
    /// None: the run failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ProposedResources>,
    /// The reason of a failure or of a skipped run, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The hidden thread with the log of the run. None: no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// User that accepted or rejected the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// User for whom the run worked: the user that uploaded the document.
    pub created_by: UserId,
    /// Time at which the run finished.
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ProposalOutcome {
    Proposed(ProposedResources),
    Failed { reason: String },
    Skipped { reason: String },
}

/// A proposal of a run that has finished.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProposal {
    /// It must be live.
    pub document: DocumentId,
    pub outcome: ProposalOutcome,
    /// The thread of the run. None: no agent ran.
    pub thread: Option<ThreadId>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ProposalChange {
    Create(Box<NewProposal>),
    /// Has no effect on an accepted proposal.
    Accept,
    /// Has no effect on a rejected proposal.
    Reject,
    Delete,
}

/// All conditions must hold. None, or an empty list: no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProposalFilter {
    pub document: Option<DocumentId>,
    /// The proposal is in one of these states.
    pub any_state: Vec<ProposalState>,
    /// The proposal is in use and names a revision of one of these prompts.
    pub any_prompt: Vec<PromptId>,
    /// The proposal is in use and names a revision of one of these schemas.
    pub any_schema: Vec<SchemaId>,
    pub created: Option<CreationPeriod>,
}

impl Proposal {
    /// Returns the resources of a proposal that is open or accepted.
    pub fn resources_in_use(&self) -> Option<&ProposedResources> {
        self.resources.as_ref().filter(|_| self.state.is_in_use())
    }

    decided_function! {
        ProposalChange, ProposalState,
        open: ProposalState::Proposed, noun: "proposal", reason: Reason::ProposalDecided
    }
}

const STATE: &str = "state";
const PROMPT: &str = "prompt";
const SCHEMA: &str = "schema";

impl Resource for Proposal {
    type Change = ProposalChange;
    type Filter = ProposalFilter;
    const KIND: &'static str = "proposal";
    const DELETE: ProposalChange = ProposalChange::Delete;
    const HAS_PARENT: bool = true;

    common_functions!(ProposalId);

    fn parent(&self) -> Option<String> {
        Some(self.document.to_string())
    }

    fn named_revisions(&self) -> BTreeSet<(String, u32)> {
        let of = |resources: &ProposedResources| {
            let schema = resources.schema.iter().map(|schema| (schema.of.to_string(), schema.version));
            schema.chain([(resources.prompt.of.to_string(), resources.prompt.version)]).collect()
        };
        self.resources_in_use().map(of).unwrap_or_default()
    }

    fn list_row(&self) -> ListRow {
        let resources = self.resources_in_use().into_iter().flat_map(|resources| {
            let schema = resources.schema.iter().map(|schema| term(SCHEMA, &schema.of));
            schema.chain([term(PROMPT, &resources.prompt.of)])
        });
        ListRow {
            id: self.id.to_string(),
            terms: resources.chain([parent_term(&self.document), term(STATE, self.state.as_str())]).collect(),
            parent: Some(self.document.to_string()),
            created_at: Some(self.created_at),
            ..ListRow::default()
        }
    }

    fn parent_in(filter: &ProposalFilter) -> Option<String> {
        filter.document.as_ref().map(ToString::to_string)
    }

    fn conditions(filter: &ProposalFilter) -> Vec<Condition> {
        let ProposalFilter { document, any_state, any_prompt, any_schema, created } = filter;
        let any = [
            document.iter().map(parent_term).collect::<Vec<_>>(),
            any_state.iter().map(|state| term(STATE, state.as_str())).collect(),
            any_prompt.iter().map(|prompt| term(PROMPT, prompt)).collect(),
            any_schema.iter().map(|schema| term(SCHEMA, schema)).collect(),
        ];
        Condition::any_terms(any).chain(created.map(Condition::Created)).collect()
    }

    fn apply(id: &ProposalId, write: &Write<ProposalChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |proposal: Self| Ok(Plan::stored(proposal));
        match (&write.change, before) {
            (ProposalChange::Create(new), None) => {
                let cut = |reason: &String| Some(reason.chars().take(PROPOSAL_REASON_CHARS).collect());
                let (state, resources, reason) = match &new.outcome {
                    ProposalOutcome::Proposed(resources) => (ProposalState::Proposed, Some(resources.clone()), None),
                    ProposalOutcome::Failed { reason } => (ProposalState::Failed, None, cut(reason)),
                    ProposalOutcome::Skipped { reason } => (ProposalState::Skipped, None, cut(reason)),
                };
                done(Self {
                    id: id.clone(),
                    org: write.org.clone(),
                    document: new.document.clone(),
                    state,
                    resources,
                    reason,
                    thread: new.thread.clone(),
                    decided_by: None,
                    decided_at: None,
                    created_by: write.by.clone(),
                    created_at: write.at,
                    updated_at: write.at,
                    version: 1,
                })
            }
            (ProposalChange::Accept, Some(before)) => done(before.decided(write, ProposalState::Accepted)?),
            (ProposalChange::Reject, Some(before)) => done(before.decided(write, ProposalState::Rejected)?),
            (ProposalChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::Expected;

    use super::*;
    use crate::golden::{assert_golden, at, document, extraction, org, prompt, proposal, schema};

    fn apply(change: ProposalChange, before: Option<Proposal>) -> Result<Proposal> {
        let expected = before.as_ref().map_or(Expected::Absent, |before| Expected::Version(before.version));
        let write = Write::by_platform(org(), "key".parse().unwrap(), at(), expected, change);
        Ok(Proposal::apply(&proposal().id, &write, before)?.after.unwrap())
    }

    fn resources() -> ProposedResources {
        proposal().resources.unwrap()
    }

    fn created(outcome: ProposalOutcome) -> Proposal {
        let new = NewProposal { document: document().id, outcome, thread: Some(ThreadId::derive(&["golden"])) };
        apply(ProposalChange::Create(Box::new(new)), None).unwrap()
    }

    /// Returns a proposal in a state.
    fn in_state(state: ProposalState) -> Proposal {
        let proposed = || created(ProposalOutcome::Proposed(resources()));
        match state {
            ProposalState::Proposed => proposed(),
            ProposalState::Accepted => apply(ProposalChange::Accept, Some(proposed())).unwrap(),
            ProposalState::Rejected => apply(ProposalChange::Reject, Some(proposed())).unwrap(),
            ProposalState::Failed => created(ProposalOutcome::Failed { reason: "no extraction".to_owned() }),
            ProposalState::Skipped => created(ProposalOutcome::Skipped { reason: "no text".to_owned() }),
        }
    }

    #[test]
    fn the_stored_format_of_each_state_is_that_of_its_golden_file() {
        assert_golden("similar", proposal());
        for &state in ProposalState::ALL {
            assert_golden(state.as_str(), in_state(state));
        }
    }

    #[test]
    fn each_change_of_each_state_leads_to_the_state_of_the_diagram_or_is_refused() {
        use ProposalState::{Accepted, Proposed, Rejected};
        for &state in ProposalState::ALL {
            let before = in_state(state);
            assert_eq!((before.state, ProposalState::from_name(state.as_str())), (state, Some(state)));
            for (change, to) in [(ProposalChange::Accept, Accepted), (ProposalChange::Reject, Rejected)] {
                let after = apply(change.clone(), Some(before.clone()));
                if state == to {
                    assert_eq!(after.unwrap(), before, "a repeated decision has no effect");
                } else if state == Proposed {
                    let after = after.unwrap();
                    assert_eq!((after.state, after.version, after.decided_at), (to, 2, Some(at())));
                    assert_eq!((after.decided_by, &after.resources), (Some(UserId::platform()), &before.resources));
                } else {
                    assert_eq!(after.unwrap_err().reason, Reason::ProposalDecided, "{change:?} of {state:?}");
                }
            }
            let again =
                NewProposal { document: document().id, outcome: ProposalOutcome::Proposed(resources()), thread: None };
            let again = apply(ProposalChange::Create(Box::new(again)), Some(before)).unwrap_err();
            assert_eq!(again.reason, Reason::NotFound, "a second creation under the id");
        }
        for change in [ProposalChange::Accept, ProposalChange::Reject, ProposalChange::Delete] {
            assert_eq!(apply(change, None).unwrap_err().reason, Reason::NotFound);
        }
    }

    #[test]
    fn only_a_proposal_in_use_names_its_revisions() {
        for &state in ProposalState::ALL {
            let found = in_state(state);
            let filter = ProposalFilter {
                document: Some(document().id),
                any_state: vec![state],
                any_prompt: vec![prompt().id],
                any_schema: vec![SchemaId::derive(&["other"]), schema().id],
                created: Some(CreationPeriod { start: Some(at()), end: None }),
            };
            let is_named = found.list_row().matches(&Proposal::conditions(&filter));
            assert_eq!(
                (is_named, found.named_revisions().len()),
                (state.is_in_use(), 2 * usize::from(state.is_in_use()))
            );
            let of_state = ProposalFilter { any_state: vec![state], ..ProposalFilter::default() };
            for &other in ProposalState::ALL {
                let listed = in_state(other).list_row().matches(&Proposal::conditions(&of_state));
                assert_eq!(listed, other == state);
            }
        }
        assert_eq!(resources().extraction, extraction().id);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let failed = created(ProposalOutcome::Failed { reason: "ä".repeat(PROPOSAL_REASON_CHARS + 1) });
        assert_eq!(failed.reason.unwrap().chars().count(), PROPOSAL_REASON_CHARS);
    }
}
