//! The turn of the demo: sends the message and decides the pending calls until the turn ends.

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_proto::v1::decision::Decision;
use folio_proto::v1::event::Kind;

use crate::chat::card;
use crate::chat::follow::{Follower, Start, Turn};
use crate::chat::pending::Pending;
use crate::chat::screen::ChatScreen;
use crate::chat::view::View;
use crate::client::{Client, explain};
use crate::input::Input;
use crate::terminal::{NAME, NOTE, printable};

pub(crate) struct FinishedTurn {
    pub(crate) completed: v1::Completed,
    pub(crate) model: String,
    /// All decisions, in order.
    pub(crate) decisions: Vec<(v1::Call, Decision)>,
}

/// Prompts until the reply is valid. The end of the input rejects the call.
async fn prompt(Follower { screen, input, .. }: &mut Follower<'_>, call: &v1::Call) -> Result<Decision> {
    screen.line(NAME, &format!("\n{} wants to run with", call.name));
    screen.line(anstyle::Style::new(), &card::pretty(&call.arguments_json));
    loop {
        let mut err = std::io::stderr();
        write!(err, "approve? [y]es, [n]o, or no and why: ")?;
        err.flush()?;
        let Some(line) = input.line("").await else {
            return Ok(Decision::Rejected(v1::Rejected::default()));
        };
        match line.trim() {
            "y" | "yes" => return Ok(Decision::Approved(v1::Approved {})),
            "" => {}
            "n" | "no" => return Ok(Decision::Rejected(v1::Rejected::default())),
            reason => {
                let reason = reason.strip_prefix("no ").unwrap_or(reason);
                return Ok(Decision::Rejected(v1::Rejected { reason: printable(reason) }));
            }
        }
    }
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
    let (mut view, mut input, mut turn) = (View::whole(), Input::new(false)?, Turn::default());
    let mut follower = Follower { client, screen, view: &mut view, input: &mut input, started_at: Instant::now() };
    let mut start = Start::Chat(Box::new(request));
    let mut decisions = Vec::new();
    loop {
        match follower.run(&mut turn, &start).await? {
            Kind::AwaitingApproval(waiting) => {
                let mut pending = Pending::of_event(waiting);
                while let Some((call, ..)) = pending.next() {
                    let call = call.clone();
                    let decision = if is_interactive {
                        prompt(&mut follower, &call).await?
                    } else {
                        follower.screen.line(NOTE, &format!("approved: {}", call.name));
                        Decision::Approved(v1::Approved {})
                    };
                    pending.decide(decision.clone());
                    decisions.push((call, decision));
                }
                let request = pending.request(&turn.id);
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
