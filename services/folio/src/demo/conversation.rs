//! A turn about a document: sends the message and decides the pending calls until the turn ends.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, bail};
use folio_client::{Start, TurnPosition};
use folio_proto::v1;
use folio_proto::v1::decision::Decision;
use folio_proto::v1::event::Kind;

use crate::chat::decide::{Decided, Desk};
use crate::chat::follow::Follower;
use crate::chat::pending::Pending;
use crate::chat::screen::ChatScreen;
use crate::chat::view::View;
use crate::client::{Client, explain};
use crate::input::Input;
use crate::terminal::NOTE;

pub(crate) struct FinishedTurn {
    pub(crate) completed: v1::Completed,
    pub(crate) model: String,
    /// Usage of the model call of each round, by the number of the round. A round whose events were not received is missing.
    pub(crate) usages: BTreeMap<u32, v1::Usage>,
    /// All decisions, in order.
    pub(crate) decisions: Vec<(v1::Call, Decision)>,
}

/// Prompts until every call of the round is decided. The end of the input rejects the undecided calls.
async fn prompt(desk: &mut Desk<'_>, pending: &mut Pending) -> Result<()> {
    while pending.next().is_some() {
        match desk.decide(pending).await {
            Ok(Decided::Applied) => {}
            Ok(Decided::End) => pending.decide(Decision::Rejected(v1::Rejected::default())),
            Ok(Decided::Interrupted) => bail!("stopped by a signal"),
            Ok(Decided::Other(_)) => desk.screen.line(NOTE, "Unknown reply: enter one of the letters in brackets."),
            Err(error) => desk.screen.error(&error),
        }
    }
    Ok(())
}

/// Returns the decision about a call.
pub(crate) type Decide<'a> = dyn Fn(&v1::Call) -> Decision + 'a;

/// Runs the turn of a request about one document to its end. `decide` returns the decision about each call that needs approval.
/// None: the user decides.
pub(crate) async fn run(
    client: &Client,
    screen: &mut ChatScreen,
    request: v1::ChatRequest,
    decide: Option<&Decide<'_>>,
) -> Result<FinishedTurn> {
    let document = request.document_ids.first().cloned().unwrap_or_default();
    // The input has no line editor, because the prompt is written to stderr.
    let mut input = if decide.is_none() { Input::piped(true)? } else { Input::closed() };
    let (mut view, mut turn) = (View::whole(), TurnPosition::default());
    let started_at = Instant::now();
    let mut start = Start::Chat(Box::new(request));
    let mut decisions = Vec::new();
    loop {
        let mut follower = Follower { client, screen: &mut *screen, view: &mut view, input: &mut input, started_at };
        match follower.run(&mut turn, &start).await? {
            Kind::AwaitingApproval(waiting) => {
                // The user of the demo is an admin, and its organization has no policy.
                let mut pending = Pending::of_event(waiting).with_unknown_permissions();
                match decide {
                    None => {
                        let document = &document;
                        let mut desk = Desk { client, screen: &mut *screen, input: &mut input, document };
                        prompt(&mut desk, &mut pending).await?;
                    }
                    Some(decide) => {
                        while let Some((call, ..)) = pending.next() {
                            let (name, decision) = (call.name.clone(), decide(call));
                            let is_rejected = matches!(decision, Decision::Rejected(_));
                            screen
                                .line(NOTE, &format!("{}: {name}", if is_rejected { "rejected" } else { "approved" }));
                            pending.decide(decision);
                        }
                    }
                }
                decisions.extend(pending.decisions().map(|(call, decision)| (call.clone(), decision.clone())));
                let request = pending.request(&turn.turn_id);
                let mut follower =
                    Follower { client, screen: &mut *screen, view: &mut view, input: &mut input, started_at };
                follower.approve(&mut turn, request).await.map_err(|status| explain(&status))?;
                start = Start::Watch;
            }
            Kind::Completed(completed) => {
                return Ok(FinishedTurn { completed, model: turn.model, usages: view.into_usages(), decisions });
            }
            Kind::Failed(failed) => {
                let error = failed.error.unwrap_or_default();
                bail!("the turn failed: {} ({})", error.message, error.reason);
            }
            other => bail!("the turn ended unfinished: {other:?}"),
        }
    }
}
