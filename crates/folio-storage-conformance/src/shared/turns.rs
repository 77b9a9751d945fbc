//! Conformance suite of [`folio_storage::SharedTurnStore`].

use folio_history::event::CallView;
use folio_history::journal::Access;
use folio_history::thread::Phase;
use folio_resources::policy::{ApprovalRequirement, Approver};
use folio_types::{CallId, Digest, Incarnation, OrgId, Role, ThreadId, Timestamp, TurnId, UserId};

use super::super::{Outcome, check, same};
use super::eventually;
use folio_storage::{SharedStores, SharedTurn, TurnCursor};

fn turn(nonce: &str, number: u32, requester: &str) -> SharedTurn {
    let turn = TurnId::new(ThreadId::derive(&[nonce, &number.to_string()]), number);
    let arguments = serde_json::json!({ "name": "Grüße", "n": 1.5 });
    let pending = CallView {
        id: CallId::new(turn.clone(), 1, 1),
        name: "create_tag".to_owned(),
        digest: Digest::of_json(&arguments),
        arguments,
        access: Access::ReadWrite,
        needs_approval: true,
        approval_requirement: Some(ApprovalRequirement { rule: "Two eyes".to_owned(), approver: Approver::default() }),
        group: None,
    };
    let since = Timestamp::now().as_millisecond() + i64::from(number);
    SharedTurn {
        org: OrgId::derive(&[nonce]),
        user: UserId::derive(&["owner"]),
        requester: UserId::derive(&[requester]),
        turn,
        node: Incarnation::derive(&[nonce, "owner"]),
        epoch: 1,
        version: 1,
        phase: Some(Phase::Paused),
        pending: vec![pending],
        paused_at: Timestamp::from_millisecond(since).ok(),
        // The longest pause need not expire first.
        expires_at: Timestamp::from_millisecond(since + 60_000 - 10 * i64::from(number)).ok(),
        approvers: vec![Approver { roles: vec![Role::Admin], not_by_requester: true }],
    }
}

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    order(stores, nonce).await?;
    waiting(stores, nonce).await?;
    ended(stores, nonce).await?;
    erased(stores, nonce).await
}

async fn order(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, mut state) = (&stores.turns, turn(&format!("{nonce} order"), 1, "a"));
    same!(store.get(&state.org, &state.turn).await?, None, "a turn before its publication");
    check!(store.publish(&state).await?, "the first state is refused");
    same!(store.get(&state.org, &state.turn).await?, Some(state.clone()), "a turn");
    same!(store.get(&OrgId::derive(&["other"]), &state.turn).await?, None, "a turn in another organization");
    check!(store.publish(&state).await?, "the same state again is refused");
    let late = state.clone();
    (state.version, state.phase) = (2, Some(Phase::Executing));
    check!(store.publish(&state).await?, "a later version is refused");
    check!(!store.publish(&late).await?, "an earlier version is accepted");
    (state.epoch, state.version) = (2, 1);
    check!(store.publish(&state).await?, "a later epoch is refused");
    let mut old_epoch = late;
    old_epoch.version = 9;
    check!(!store.publish(&old_epoch).await?, "an earlier epoch is accepted");
    same!(store.get(&state.org, &state.turn).await?, Some(state), "the latest state");
    Ok(())
}

async fn waiting(stores: &SharedStores, nonce: &str) -> Outcome {
    let store = &stores.turns;
    // Publishes the turns in another order than that of their pauses.
    let turns: Vec<_> = (1..=7).map(|number| turn(nonce, number, if number % 2 == 0 { "b" } else { "a" })).collect();
    for turn in turns.iter().rev() {
        store.publish(turn).await?;
    }
    let Some(org) = turns.first().map(|turn| turn.org.clone()) else { return Ok(()) };
    let mut found = Vec::new();
    let mut after: Option<TurnCursor> = None;
    loop {
        let page = store.waiting(&org, None, after.as_ref(), 3).await?;
        after = page.last().and_then(SharedTurn::cursor);
        let last = page.len() < 3;
        found.extend(page);
        if last {
            break;
        }
    }
    same!(found, turns, "turns that wait, page by page");
    let of_b: Vec<_> = turns.iter().filter(|turn| turn.requester == UserId::derive(&["b"])).cloned().collect();
    same!(
        store.waiting(&org, Some(&UserId::derive(&["b"])), None, 10).await?,
        of_b,
        "waiting turns that one user started"
    );
    let of_owner = store.waiting(&org, Some(&UserId::derive(&["owner"])), None, 10).await?;
    same!(of_owner, vec![], "waiting turns of a thread owner that other users started");
    same!(store.waiting(&OrgId::derive(&["none", nonce]), None, None, 10).await?, vec![], "another organization's");
    // The turn resumes after a decision, then waits again with another expiry.
    for (at, turn) in turns.iter().enumerate().skip(1) {
        let mut on = turn.clone();
        (on.version, on.phase) = (2, if at == 1 { None } else { Some(Phase::Executing) });
        check!(store.publish(&on).await?, "a state is refused");
        check!(!store.publish(turn).await?, "a late pause is accepted");
    }
    same!(store.waiting(&org, None, None, 10).await?.len(), 1, "turns that still wait");
    let Some(mut again) = turns.first().cloned() else { return Ok(()) };
    again.version = 3;
    again.paused_at = Timestamp::from_millisecond(Timestamp::now().as_millisecond() + 500).ok();
    again.expires_at = Timestamp::from_millisecond(Timestamp::now().as_millisecond() + 90_000).ok();
    check!(store.publish(&again).await?, "another pause is refused");
    same!(store.waiting(&org, None, None, 10).await?, vec![again.clone()], "a turn that waits again is listed once");
    same!(
        store.waiting(&org, Some(&again.requester), None, 10).await?,
        vec![again],
        "a turn that waits again, for the user that started it"
    );
    Ok(())
}

async fn ended(stores: &SharedStores, nonce: &str) -> Outcome {
    for phase in [None, Some(Phase::Executing)] {
        let (store, mut state) = (&stores.turns, turn(&format!("{nonce} {phase:?}"), 1, "a"));
        let late = state.clone();
        (state.version, state.phase, state.pending) = (5, phase, Vec::new());
        check!(store.publish(&state).await?, "the end of a pause is refused");
        check!(!store.publish(&late).await?, "a late pause is accepted");
        same!(store.waiting(&state.org, None, None, 10).await?, vec![], "a turn after its pause waits");
        let is_expired = async || Ok(store.get(&state.org, &state.turn).await?.is_none().then_some(()));
        eventually("the state of a turn after its pause expires", is_expired).await?;
    }
    Ok(())
}

async fn erased(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, nonce) = (&stores.turns, format!("{nonce} erased"));
    let turns: Vec<_> = (1..=3).map(|number| turn(&nonce, number, if number == 1 { "a" } else { "b" })).collect();
    let mut other = turn(&format!("{nonce} other"), 1, "a");
    other.pending.clear();
    for turn in turns.iter().chain([&other]) {
        store.publish(turn).await?;
    }
    let Some(first) = turns.first() else { return Ok(()) };
    store.erase(&first.org).await?;
    for turn in &turns {
        same!(store.get(&turn.org, &turn.turn).await?, None, "a turn of an erased organization");
        same!(
            store.waiting(&turn.org, Some(&turn.requester), None, 10).await?,
            vec![],
            "waiting turns of one user in an erased organization"
        );
    }
    same!(store.waiting(&first.org, None, None, 10).await?, vec![], "waiting turns of an erased organization");
    same!(store.get(&other.org, &other.turn).await?, Some(other.clone()), "a turn of another organization");
    store.erase(&first.org).await?;
    same!(store.waiting(&other.org, None, None, 10).await?, vec![other], "waiting turns of another organization");
    Ok(())
}
