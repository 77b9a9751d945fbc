//! Conversions of turns and their options, rounds, calls and the working state.

use folio_history::command::{IfBusy, IfPending};
use folio_history::event::{CallView, ResultView, RoundView, TurnStatus, TurnView};
use folio_history::journal::{Access, CallStatus, NodeEnd, RoundNode, WorkingExtraction, WorkingState};
use folio_types::profile::{NodeKind, SubjectKind};
use folio_types::{BudgetUse, Error, Result, limits};

use super::time;
use crate::{fields, json, v1};

/// Maximum size of a JSON value that another process of Folio sent. Larger than any stored value.
const SENT_JSON_BYTES: usize = 2 * limits::ENTRY_BYTES;

impl From<&TurnView> for v1::Turn {
    fn from(turn: &TurnView) -> Self {
        let is_completed = turn.status == TurnStatus::Completed;
        let (answer_type, answer_json) = if is_completed { typed_answer(&turn.rounds) } else { Default::default() };
        Self {
            answer_type,
            answer_json,
            turn_id: turn.turn.to_string(),
            thread_id: turn.turn.thread.to_string(),
            status: v1::TurnStatus::from(turn.status).into(),
            model: turn.model.clone(),
            user_text: turn.user_text.clone(),
            rounds: turn.rounds.iter().map(Into::into).collect(),
            pending: turn.pending.iter().map(Into::into).collect(),
            expire_time: turn.expires_at.map(time::to_proto),
            working_state: Some((&turn.working).into()),
            text: turn.text.clone(),
            finish_reason: turn.finish.map_or(v1::FinishReason::Unspecified, Into::into).into(),
            error: turn.error.as_ref().map(Into::into),
            retriable: turn.retriable,
            usage: Some(turn.usage.into()),
            next_event: turn.next_event,
            approvable_call_ids: turn.approvable.iter().map(ToString::to_string).collect(),
            credit_budget: turn.budget.map(Into::into),
            task: turn.task.as_deref().map(Into::into),
        }
    }
}

impl TryFrom<v1::Turn> for TurnView {
    type Error = Error;
    fn try_from(turn: v1::Turn) -> Result<Self> {
        Ok(Self {
            turn: fields::id("turn_id", &turn.turn_id)?,
            approvable: turn
                .approvable_call_ids
                .iter()
                .map(|id| fields::id("approvable_call_ids", id))
                .collect::<Result<_>>()?,
            status: turn.status().try_into()?,
            finish: turn.finish_reason().try_into().ok(),
            model: turn.model,
            user_text: turn.user_text,
            rounds: turn.rounds.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            pending: turn.pending.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            expires_at: time::optional_from_proto("expire_time", turn.expire_time.as_ref())?,
            working: turn.working_state.unwrap_or_default().try_into()?,
            text: turn.text,
            error: turn.error.map(Into::into),
            retriable: turn.retriable,
            usage: turn.usage.unwrap_or_default().into(),
            next_event: turn.next_event,
            budget: turn.credit_budget.map(Into::into),
            task: turn.task.map(|task| task.try_into().map(Box::new)).transpose()?,
        })
    }
}

/// Returns the type name and the JSON of the answer that a node of the turn's graph gave. Empty: no node gave one.
pub(super) fn typed_answer(rounds: &[RoundView]) -> (String, String) {
    let nodes = rounds.iter().rev().filter_map(|round| round.node.as_deref());
    let mut answers = nodes.filter(|node| node.kind == NodeKind::Answer).filter_map(|node| {
        let answer = node.end.as_ref()?.answer.as_ref()?;
        Some((node.answer_type.clone(), json::text(answer)))
    });
    answers.next().unwrap_or_default()
}

impl From<&RoundNode> for v1::RoundNode {
    fn from(node: &RoundNode) -> Self {
        let end = node.end.as_ref().map(|end| v1::NodeAnswer {
            answer_json: end.answer.as_ref().map(json::text).unwrap_or_default(),
            is_default: end.is_default,
            next_node: end.next.clone().unwrap_or_default(),
        });
        Self {
            name: node.name.clone(),
            kind: v1::NodeKind::from(node.kind).into(),
            answer_type: node.answer_type.clone(),
            end,
        }
    }
}

impl TryFrom<v1::RoundNode> for RoundNode {
    type Error = Error;
    fn try_from(node: v1::RoundNode) -> Result<Self> {
        let kind = node.kind().try_into()?;
        let end = node.end.map(|end| -> Result<_> {
            let answer = match end.answer_json.as_str() {
                "" => None,
                answer => Some(json::parse("answer_json", answer, SENT_JSON_BYTES)?),
            };
            let next = Some(end.next_node).filter(|next| !next.is_empty());
            Ok(NodeEnd { answer, is_default: end.is_default, next })
        });
        Ok(Self { name: node.name, kind, answer_type: node.answer_type, end: end.transpose()? })
    }
}

same_variants!(NodeKind = v1::NodeKind of "kind": Route, Answer, Memory);

same_fields!(BudgetUse = v1::CreditBudget { credits, used, rest });

same_variants!(SubjectKind = v1::SubjectKind of "subject": Document, Extraction, Stack, Ingestion, Proposal, Organization);

same_variants!(IfBusy = v1::IfBusy of "if_busy": Reject, Enqueue, Interrupt);

same_variants!(IfPending = v1::IfPending of "if_pending": Reject, Supersede);

same_variants!(TurnStatus = v1::TurnStatus of "status": Running, AwaitingApproval, Completed, Failed, Cancelled, Expired, Superseded);

impl From<&RoundView> for v1::Round {
    fn from(round: &RoundView) -> Self {
        Self {
            round: round.round,
            text: round.text.clone(),
            thinking: round.thinking.clone(),
            calls: round.calls.iter().map(Into::into).collect(),
            results: round.results.iter().map(Into::into).collect(),
            node: round.node.as_deref().map(Into::into),
        }
    }
}

impl TryFrom<v1::Round> for RoundView {
    type Error = Error;
    fn try_from(round: v1::Round) -> Result<Self> {
        Ok(Self {
            round: round.round,
            text: round.text,
            thinking: round.thinking,
            calls: round.calls.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            results: round.results.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            node: round.node.map(|node| node.try_into().map(Box::new)).transpose()?,
        })
    }
}

impl From<&CallView> for v1::Call {
    fn from(call: &CallView) -> Self {
        Self {
            call_id: call.id.to_string(),
            name: call.name.clone(),
            arguments_json: json::text(&call.arguments),
            arguments_digest: call.digest.to_string(),
            access: v1::ToolAccess::from(call.access).into(),
            needs_approval: call.needs_approval,
            approval_requirement: call.approval_requirement.as_ref().map(Into::into),
            group: call.group.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<v1::Call> for CallView {
    type Error = Error;
    fn try_from(call: v1::Call) -> Result<Self> {
        Ok(Self {
            id: fields::id("call_id", &call.call_id)?,
            arguments: json::parse("arguments_json", &call.arguments_json, SENT_JSON_BYTES)?,
            digest: fields::id("arguments_digest", &call.arguments_digest)?,
            access: call.access().try_into()?,
            needs_approval: call.needs_approval,
            approval_requirement: call.approval_requirement.map(TryInto::try_into).transpose()?,
            group: call.group.map(TryInto::try_into).transpose()?,
            name: call.name,
        })
    }
}

same_variants!(Access = v1::ToolAccess of "access": ReadOnly, ReadWrite);

impl From<&ResultView> for v1::CallResult {
    fn from(result: &ResultView) -> Self {
        Self {
            call_id: result.call.to_string(),
            status: v1::CallStatus::from(result.status).into(),
            content: result.content.clone(),
        }
    }
}

impl TryFrom<v1::CallResult> for ResultView {
    type Error = Error;
    fn try_from(result: v1::CallResult) -> Result<Self> {
        Ok(Self {
            call: fields::id("call_id", &result.call_id)?,
            status: result.status().try_into()?,
            content: result.content,
        })
    }
}

same_variants!(CallStatus = v1::CallStatus of "status": Ok, Failed, Rejected, Cancelled, Expired, Superseded, Conflict, NotRun, Unknown);

impl From<&WorkingState> for v1::WorkingState {
    fn from(working: &WorkingState) -> Self {
        Self {
            schema_revid: fields::text_of(working.schema_revid.as_ref()),
            prompt_revid: fields::text_of(working.prompt_revid.as_ref()),
            extraction: working.extraction.as_ref().map(|extraction| v1::WorkingExtraction {
                extraction_id: extraction.id.to_string(),
                document_id: extraction.document.to_string(),
                prompt_revid: extraction.prompt.to_string(),
                data_json: json::text(&extraction.data),
            }),
            profile_state_json: working.profile_state.as_deref().map(json::text).unwrap_or_default(),
        }
    }
}

impl TryFrom<v1::WorkingState> for WorkingState {
    type Error = Error;
    fn try_from(working: v1::WorkingState) -> Result<Self> {
        let extraction = working.extraction.map(|extraction| -> Result<_> {
            Ok(WorkingExtraction {
                id: fields::id("extraction_id", &extraction.extraction_id)?,
                document: fields::id("document_id", &extraction.document_id)?,
                prompt: fields::id("prompt_revid", &extraction.prompt_revid)?,
                data: json::parse("data_json", &extraction.data_json, SENT_JSON_BYTES)?,
            })
        });
        Ok(Self {
            schema_revid: fields::optional_id("schema_revid", &working.schema_revid)?,
            prompt_revid: fields::optional_id("prompt_revid", &working.prompt_revid)?,
            extraction: extraction.transpose()?,
            profile_state: match working.profile_state_json.as_str() {
                "" => None,
                state => Some(Box::new(json::parse("profile_state_json", state, SENT_JSON_BYTES)?)),
            },
        })
    }
}
