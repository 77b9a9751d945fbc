//! Checks invariant 3 (`ARCHITECTURE.md`): for every write, the history, the aggregate and the op row (the idempotency
//! record of the write) agree, and every change has an op row.

use std::collections::BTreeMap;

use folio_history::journal::{CallStatus, Decision, End, Intent};
use folio_resources::{McpServer, Resource as _};
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState};
use folio_types::{CallId, Digest, IngestionId};

use super::Invariant::{EffectsOnce, Tenants};
use super::journal::{ObservedCall, Turn};
use super::{Evidence, Findings, ObservedAggregate, ObservedThread};

/// Checks each call of a turn against the op row of its target.
pub(super) fn check(turn: &Turn<'_>, evidence: &Evidence, findings: &mut Findings) {
    let calls = turn.calls();
    check_order(turn, &calls, findings);
    for ((round, index), call) in &calls {
        let id = CallId::new(turn.id.clone(), *round, *index);
        let mut add = |reason: String| findings.add(EffectsOnce, &id, reason);
        let Some((at, intent)) = call.intents.first() else { continue };
        if call.intents.len() > 1 {
            add("the call has more than one intent".to_owned());
        }
        if call.at > *at {
            add("the intent precedes the message with the call".to_owned());
        }
        let row = row_of(evidence, intent, &id);
        match (call.results.first().map(|(_, result)| result.status), row.map(|row| &row.state)) {
            (None, _) => {}
            (Some(CallStatus::Ok), Some(OpState::Done(_))) => {}
            (Some(CallStatus::Ok), other) => add(format!("the history reports success, but its op row is {other:?}")),
            (Some(CallStatus::Failed | CallStatus::Unknown), Some(OpState::Done(_))) if is_external(intent) => {}
            (Some(status), Some(OpState::Done(_))) => {
                add(format!("the effect happened, but the history reports {status:?}"))
            }
            (Some(CallStatus::Conflict), Some(OpState::Conflict)) => {}
            (Some(CallStatus::Conflict), other) => {
                add(format!("the history reports a conflict, but its op row is {other:?}"))
            }
            (Some(_), Some(OpState::Aborted | OpState::Conflict)) => {}
            (Some(status), None) => add(format!("the history reports {status:?}, but the call has no op row")),
        }
        let closed = turn.closing().is_some();
        let aborted = matches!(row.map(|row| &row.state), Some(OpState::Aborted));
        if aborted && !closed && matches!(turn.end().map(|end| &end.end), Some(End::Completed { .. })) {
            add("the op of the call was aborted, but the turn completed".to_owned());
        }
        if let Some(row) = row.filter(|row| matches!(row.state, OpState::Done(_))) {
            if row.digest != Digest::of_json(intent.arguments.as_ref().unwrap_or(arguments(call))) {
                add("the op ran with other arguments than the decision approved".to_owned());
            }
            check_version(intent, row, &mut add);
        }
    }
}

/// Returns true if the effect of the call is in another system. Its op row, at the MCP server, records only that the call may
/// have been sent.
fn is_external(intent: &Intent) -> bool {
    intent.target.kind() == McpServer::KIND
}

/// Checks that intents are appended sequentially, each after the previous outcome, and that none is appended while the
/// turn is ending.
fn check_order(turn: &Turn<'_>, calls: &BTreeMap<(u32, u32), ObservedCall<'_>>, findings: &mut Findings) {
    let mut intents: Vec<_> =
        calls.values().flat_map(|call| call.intents.iter().map(move |(at, _)| (*at, call))).collect();
    intents.sort_by_key(|(at, _)| *at);
    for two in intents.windows(2) {
        let [(_, before), (at, call)] = two else { continue };
        let answered = before.results.iter().any(|(result, _)| result < at);
        let subject = format!("{}.{}.{}", turn.id, call.round, call.call.index);
        findings.add_unless(answered, EffectsOnce, subject, "the intent precedes the outcome of the previous call");
    }
    if let (Some(closing), Some((last, _))) = (turn.closing(), intents.last()) {
        findings.add_unless(*last < closing, EffectsOnce, &turn.id, "a call was started after the closing of the turn");
    }
}

/// Checks that the number of the created revision is at most the expected version plus 1, or 1 for a new resource.
fn check_version(intent: &Intent, row: &OpRow, add: &mut impl FnMut(String)) {
    let made = match &row.state {
        OpState::Done(OpResult::Schema { revid, .. }) => revid.version,
        OpState::Done(OpResult::Prompt { revid, .. }) => revid.version,
        _ => return,
    };
    let max_version = match intent.expected {
        Expected::Absent => 1,
        Expected::Version(version) => version.saturating_add(1),
    };
    if u64::from(made) > max_version {
        add(format!(
            "the op created revision {made}, but its intent expected {:?}: a concurrent edit was overwritten",
            intent.expected
        ));
    }
}

/// Returns the arguments that the decision covers. The call runs with these arguments, unless they contain references;
/// then it runs with `Intent::arguments`.
fn arguments<'a>(call: &ObservedCall<'a>) -> &'a serde_json::Value {
    let edited = call.decisions.iter().find_map(|(_, _, decision)| match decision {
        Decision::ApproveEdited { arguments } => Some(arguments),
        _ => None,
    });
    edited.unwrap_or(&call.call.arguments)
}

fn row_of<'a>(evidence: &'a Evidence, intent: &Intent, id: &CallId) -> Option<&'a OpRow> {
    let target = intent.target.to_string();
    let aggregate = evidence.aggregates.iter().find(|aggregate| aggregate.id == target)?;
    aggregate.ops.iter().find(|row| row.op == OpKey::Call(id.clone()))
}

/// Checks that every op row has a call, and every change has an op row.
pub(super) fn check_rows(all: &[(&ObservedThread, Vec<Turn<'_>>)], evidence: &Evidence, findings: &mut Findings) {
    let mut done: BTreeMap<&CallId, &str> = BTreeMap::new();
    for aggregate in &evidence.aggregates {
        for row in &aggregate.ops {
            let OpKey::Call(call) = &row.op else { continue };
            check_row(all, aggregate, call, row, findings);
            if matches!(row.state, OpState::Done(_))
                && let Some(other) = done.insert(call, &aggregate.id)
            {
                findings.add(EffectsOnce, call, format!("the call changed {other} and {}", aggregate.id));
            }
        }
        let changes = aggregate.ops.iter().filter(|row| matches!(row.state, OpState::Done(_))).count() as u64;
        let version = aggregate.version.unwrap_or_default();
        // Extractions are not checked: the deletion of their document deletes them without an op row of their own.
        let has_op_rows = ["sch", "prm", "tag"].iter().any(|kind| aggregate.id.starts_with(kind));
        if version > changes && has_op_rows {
            findings.add(
                EffectsOnce,
                &aggregate.id,
                format!("the resource has version {version}, but {changes} op rows of changes"),
            );
        }
        // A run of the ingestion network is no resource: the op row of a call is its deciding write.
        let is_run = aggregate.id.starts_with(IngestionId::PREFIX);
        if aggregate.version.is_none() && changes > 0 && !is_run {
            findings.add(EffectsOnce, &aggregate.id, "an op row exists, but the resource was never created");
        }
    }
    check_names(evidence, findings);
}

fn check_row(
    all: &[(&ObservedThread, Vec<Turn<'_>>)],
    aggregate: &ObservedAggregate,
    call: &CallId,
    row: &OpRow,
    findings: &mut Findings,
) {
    let Some((thread, turns)) = all.iter().find(|(thread, _)| thread.id == call.turn.thread) else {
        return findings.add(EffectsOnce, call, "the call has an op row, but its thread is missing");
    };
    if thread.org.as_str() != aggregate.org {
        findings.add(Tenants, call, format!("the call changed {}, which belongs to another tenant", aggregate.id));
    }
    let turn = turns.iter().find(|turn| turn.id == call.turn);
    let calls = turn.map(Turn::calls).unwrap_or_default();
    let intent = calls.get(&(call.round, call.index)).and_then(|call| call.intents.first());
    let is_done = matches!(row.state, OpState::Done(_));
    match intent {
        Some((_, intent)) if intent.target.to_string() == aggregate.id => {}
        Some(_) if !is_done => {}
        Some(_) => findings.add(
            EffectsOnce,
            call,
            format!("the call changed {}, which its intent does not name", aggregate.id),
        ),
        None if is_done => findings.add(EffectsOnce, call, "the op ran without an intent"),
        None => {}
    }
}

/// Checks that live aggregates of one kind have unique names in their organization.
fn check_names(evidence: &Evidence, findings: &mut Findings) {
    let mut names: BTreeMap<(&str, &str, String), &str> = BTreeMap::new();
    for aggregate in evidence.aggregates.iter().filter(|aggregate| aggregate.is_live) {
        let kind = aggregate.id.split('_').next().unwrap_or_default();
        if !["sch", "prm", "tag"].contains(&kind) {
            continue;
        }
        let Some(name) = &aggregate.name else { continue };
        if let Some(other) = names.insert((&aggregate.org, kind, name.to_lowercase()), &aggregate.id) {
            findings.add(
                EffectsOnce,
                &aggregate.id,
                format!("{other} has the same name {name:?}, and both aggregates are live"),
            );
        }
    }
}
