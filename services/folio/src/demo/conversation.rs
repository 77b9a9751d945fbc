//! The turn of the demo: sends the message and decides the pending calls until the turn ends.

use std::time::Instant;

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_proto::v1::decision::Decision;
use folio_proto::v1::event::Kind;

use crate::chat::decide::{Decided, Desk};
use crate::chat::follow::{Follower, Start, Turn};
use crate::chat::pending::Pending;
use crate::chat::screen::ChatScreen;
use crate::chat::view::View;
use crate::client::{Client, explain};
use crate::input::Input;
use crate::terminal::NOTE;

pub(crate) struct FinishedTurn {
    pub(crate) completed: v1::Completed,
    pub(crate) model: String,
    /// All decisions, in order.
    pub(crate) decisions: Vec<(v1::Call, Decision)>,
}

/// Prompts until every call of the round is decided. The end of the input rejects the undecided calls.
async fn decide(desk: &mut Desk<'_>, pending: &mut Pending) -> Result<()> {
    while pending.next().is_some() {
        match desk.decide(pending).await {
            Ok(Decided::Applied) => {}
            Ok(Decided::End) => pending.decide(Decision::Rejected(v1::Rejected::default())),
            Ok(Decided::Interrupted) => bail!("stopped by a signal"),
            Ok(Decided::Other(_)) => desk.screen.line(NOTE, "Enter a reply to the card."),
            Err(error) => desk.screen.error(&error),
        }
    }
    Ok(())
}

/// Runs the turn to its end. `is_interactive`: the user decides each call that needs approval; otherwise every call is
/// approved.
pub(crate) async fn run(
    client: &Client,
    screen: &mut ChatScreen,
    is_interactive: bool,
    document: &str,
    text: &str,
) -> Result<FinishedTurn> {
    let request = v1::ChatRequest {
        document_ids: vec![document.to_owned()],
        text: text.to_owned(),
        ..v1::ChatRequest::default()
    };
    // No line editor, because the prompt is written to stderr.
    let (mut view, mut input, mut turn) = (View::whole(), Input::piped(true)?, Turn::default());
    let started_at = Instant::now();
    let mut start = Start::Chat(Box::new(request));
    let mut decisions = Vec::new();
    loop {
        let mut follower = Follower { client, screen: &mut *screen, view: &mut view, input: &mut input, started_at };
        match follower.run(&mut turn, &start).await? {
            Kind::AwaitingApproval(waiting) => {
                // The user of the demo is an admin, and its organization has no policy.
                let mut pending = Pending::of_event(waiting).with_unknown_permissions();
                if is_interactive {
                    decide(&mut Desk { client, screen: &mut *screen, input: &mut input, document }, &mut pending)
                        .await?;
                } else {
                    while let Some((call, ..)) = pending.next() {
                        let note = format!("approved: {}", call.name);
                        screen.line(NOTE, &note);
                        pending.decide(Decision::Approved(v1::Approved {}));
                    }
                }
                decisions.extend(pending.decisions().map(|(call, decision)| (call.clone(), decision.clone())));
                let request = pending.request(&turn.id);
                let mut follower =
                    Follower { client, screen: &mut *screen, view: &mut view, input: &mut input, started_at };
                follower.approve(&mut turn, request).await.map_err(|status| explain(&status))?;
                start = Start::Watch;
            }
            Kind::Completed(completed) => return Ok(FinishedTurn { completed, model: turn.model, decisions }),
            Kind::Failed(failed) => {
                let error = failed.error.unwrap_or_default();
                bail!("the turn failed: {} ({})", error.message, error.reason);
            }
            other => bail!("the turn ended unfinished: {other:?}"),
        }
    }
}
