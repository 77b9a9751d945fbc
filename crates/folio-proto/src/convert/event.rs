//! Conversions of events.

use folio_history::event::{Event, EventKind};
use folio_types::{Error, Result};

use super::time;
use super::turn::typed_answer;
use crate::{fields, v1};
use v1::event::Kind;

impl From<&Event> for v1::Event {
    fn from(event: &Event) -> Self {
        Self {
            turn_id: event.turn.to_string(),
            number: event.number,
            task: event.task.as_deref().map(Into::into),
            kind: Some(kind(event)),
        }
    }
}

fn kind(event: &Event) -> Kind {
    match &event.kind {
        EventKind::TurnStarted { model } => {
            Kind::TurnStarted(v1::TurnStarted { thread_id: event.turn.thread.to_string(), model: model.clone() })
        }
        EventKind::RoundStarted { round, attempt } => {
            Kind::RoundStarted(v1::RoundStarted { round: *round, attempt: *attempt })
        }
        EventKind::NodeStarted { round, name } => {
            Kind::NodeStarted(v1::NodeStarted { round: *round, name: name.clone() })
        }
        EventKind::NodeEnded { round, node } => {
            Kind::NodeEnded(v1::NodeEnded { round: *round, node: Some(node.as_ref().into()) })
        }
        EventKind::ThinkingDelta { text } => Kind::ThinkingDelta(v1::ThinkingDelta { text: text.clone() }),
        EventKind::TextDelta { text } => Kind::TextDelta(v1::TextDelta { text: text.clone() }),
        EventKind::ToolCalls { calls } => {
            Kind::ToolCalls(v1::ToolCalls { calls: calls.iter().map(Into::into).collect() })
        }
        EventKind::ToolStarted { call, name } => {
            Kind::ToolStarted(v1::ToolStarted { call_id: call.to_string(), name: name.clone() })
        }
        EventKind::WaitingForStore { call, name } => {
            Kind::WaitingForStore(v1::WaitingForStore { call_id: call.to_string(), name: name.clone() })
        }
        EventKind::TasksStarted { group } => Kind::TasksStarted(v1::TasksStarted { group: Some(group.into()) }),
        EventKind::TaskEnded { call, group, task, status } => Kind::TaskEnded(v1::TaskEnded {
            call_id: call.to_string(),
            group_id: group.to_string(),
            task: Some(task.into()),
            status: v1::TaskStatus::from(*status).into(),
        }),
        EventKind::ToolResult { call, name, status, content } => Kind::ToolResult(v1::ToolResult {
            call_id: call.to_string(),
            name: name.clone(),
            status: v1::CallStatus::from(*status).into(),
            content: content.clone(),
        }),
        EventKind::RoundFinished { round, model, usage } => {
            Kind::RoundFinished(v1::RoundFinished { round: *round, usage: Some((*usage).into()), model: model.clone() })
        }
        EventKind::Snapshot(turn) => Kind::Snapshot(v1::Snapshot { turn: Some(turn.as_ref().into()) }),
        EventKind::AwaitingApproval { round, pending, expires_at } => Kind::AwaitingApproval(v1::AwaitingApproval {
            turn_id: event.turn.to_string(),
            round: *round,
            pending: pending.iter().map(Into::into).collect(),
            expire_time: Some(time::to_proto(*expires_at)),
        }),
        EventKind::Completed { text, thinking, working, rounds, finish, usage } => {
            let (answer_type, answer_json) = typed_answer(rounds);
            Kind::Completed(v1::Completed {
                text: text.clone(),
                thinking: thinking.clone(),
                working_state: Some(working.into()),
                rounds: rounds.iter().map(Into::into).collect(),
                finish_reason: v1::FinishReason::from(*finish).into(),
                usage: Some((*usage).into()),
                answer_json,
                answer_type,
            })
        }
        EventKind::Failed { error, retriable } => {
            Kind::Failed(v1::Failed { error: Some(error.into()), retriable: *retriable })
        }
        EventKind::Cancelled => Kind::Cancelled(v1::Cancelled {}),
        EventKind::Expired => Kind::Expired(v1::Expired {}),
        EventKind::Superseded => Kind::Superseded(v1::Superseded {}),
    }
}

impl TryFrom<v1::Event> for Event {
    type Error = Error;
    fn try_from(event: v1::Event) -> Result<Self> {
        Ok(Self {
            turn: fields::id("turn_id", &event.turn_id)?,
            number: event.number,
            task: event.task.map(|task| task.try_into().map(Box::new)).transpose()?,
            kind: fields::required("kind", event.kind)?.try_into()?,
        })
    }
}

impl TryFrom<Kind> for EventKind {
    type Error = Error;
    fn try_from(kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::TurnStarted(started) => Self::TurnStarted { model: started.model },
            Kind::RoundStarted(started) => Self::RoundStarted { round: started.round, attempt: started.attempt },
            Kind::NodeStarted(started) => Self::NodeStarted { round: started.round, name: started.name },
            Kind::NodeEnded(ended) => Self::NodeEnded {
                round: ended.round,
                node: Box::new(fields::required("node", ended.node)?.try_into()?),
            },
            Kind::ThinkingDelta(delta) => Self::ThinkingDelta { text: delta.text },
            Kind::TextDelta(delta) => Self::TextDelta { text: delta.text },
            Kind::ToolCalls(calls) => {
                Self::ToolCalls { calls: calls.calls.into_iter().map(TryInto::try_into).collect::<Result<_>>()? }
            }
            Kind::ToolStarted(started) => {
                Self::ToolStarted { call: fields::id("call_id", &started.call_id)?, name: started.name }
            }
            Kind::WaitingForStore(waiting) => {
                Self::WaitingForStore { call: fields::id("call_id", &waiting.call_id)?, name: waiting.name }
            }
            Kind::TasksStarted(started) => {
                Self::TasksStarted { group: fields::required("group", started.group)?.try_into()? }
            }
            Kind::TaskEnded(ended) => Self::TaskEnded {
                call: fields::id("call_id", &ended.call_id)?,
                group: fields::id("group_id", &ended.group_id)?,
                status: ended.status().try_into()?,
                task: fields::required("task", ended.task)?.try_into()?,
            },
            Kind::ToolResult(result) => Self::ToolResult {
                call: fields::id("call_id", &result.call_id)?,
                status: result.status().try_into()?,
                name: result.name,
                content: result.content,
            },
            Kind::RoundFinished(finished) => {
                let usage = finished.usage.unwrap_or_default().into();
                Self::RoundFinished { round: finished.round, model: finished.model, usage }
            }
            Kind::Snapshot(snapshot) => Self::Snapshot(Box::new(fields::required("turn", snapshot.turn)?.try_into()?)),
            Kind::AwaitingApproval(waiting) => Self::AwaitingApproval {
                round: waiting.round,
                pending: waiting.pending.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
                expires_at: time::from_proto("expire_time", &fields::required("expire_time", waiting.expire_time)?)?,
            },
            Kind::Completed(done) => completed(done)?,
            Kind::Failed(failed) => {
                Self::Failed { error: fields::required("error", failed.error)?.into(), retriable: failed.retriable }
            }
            Kind::Cancelled(_) => Self::Cancelled,
            Kind::Expired(_) => Self::Expired,
            Kind::Superseded(_) => Self::Superseded,
        })
    }
}

fn completed(done: v1::Completed) -> Result<EventKind> {
    Ok(EventKind::Completed {
        finish: done.finish_reason().try_into()?,
        text: done.text,
        thinking: done.thinking,
        working: done.working_state.unwrap_or_default().try_into()?,
        rounds: done.rounds.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
        usage: done.usage.unwrap_or_default().into(),
    })
}
