//! The turn of the demo: chat, decide the pending calls, until the agent is done.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use tonic::Streaming;

use super::show::{Show, pretty};
use crate::client::{Client, explain};
use crate::input::Input;
use crate::terminal::{NAME, printable};

/// The outcome of the turn.
pub(crate) struct FinishedTurn {
    /// The closing event.
    pub(crate) completed: v1::Completed,
    /// The model of the turn.
    pub(crate) model: String,
    /// All decisions, in order.
    pub(crate) decisions: Vec<(v1::Call, v1::decision::Decision)>,
}

/// The source of decisions.
pub(crate) enum Approver {
    /// Approves every call without asking the user.
    Always,
    /// The user at the terminal decides.
    Person(Input),
}

impl Approver {
    /// Approves every call.
    pub(crate) fn always() -> Self {
        Self::Always
    }

    /// Asks the user at the terminal for each call.
    pub(crate) fn person() -> Result<Self> {
        // The prompt is written here, below the progress: no line editor.
        Ok(Self::Person(Input::new(false)?))
    }

    async fn decide(&mut self, show: &mut Show, call: &v1::Call) -> Result<v1::decision::Decision> {
        match self {
            Self::Always => {
                show.approved(call);
                Ok(v1::decision::Decision::Approved(v1::Approved {}))
            }
            Self::Person(input) => ask(input, show, call).await,
        }
    }
}

/// Asks until there is a valid answer. The end of the input rejects the call.
async fn ask(input: &mut Input, show: &mut Show, call: &v1::Call) -> Result<v1::decision::Decision> {
    show.line(NAME, &format!("\n{} wants to run with", call.name));
    show.line(anstyle::Style::new(), &pretty(&call.arguments_json));
    loop {
        let mut err = std::io::stderr();
        write!(err, "approve? [y]es, [n]o, or no and why: ")?;
        err.flush()?;
        let Some(line) = input.line("").await else {
            return Ok(v1::decision::Decision::Rejected(v1::Rejected::default()));
        };
        match line.trim() {
            "y" | "yes" => return Ok(v1::decision::Decision::Approved(v1::Approved {})),
            "" => {}
            "n" | "no" => return Ok(v1::decision::Decision::Rejected(v1::Rejected::default())),
            reason => {
                let reason = reason.strip_prefix("no ").unwrap_or(reason);
                return Ok(v1::decision::Decision::Rejected(v1::Rejected { reason: printable(reason) }));
            }
        }
    }
}

/// Runs the turn to its end.
pub(crate) async fn run(
    client: &Client,
    show: &mut Show,
    approver: &mut Approver,
    document: &str,
    text: &str,
) -> Result<FinishedTurn> {
    let request = v1::ChatRequest {
        document_ids: vec![document.to_owned()],
        text: text.to_owned(),
        ..v1::ChatRequest::default()
    };
    let stream = client.conversations().chat(request).await.map_err(|status| explain(&status))?.into_inner();
    let mut turn = Follower { model: String::new(), turn_id: String::new(), last: 0 };
    let mut closing = turn.follow(show, stream, |item: v1::ChatResponse| item.event).await?;
    let mut decisions = Vec::new();
    loop {
        match closing {
            Kind::AwaitingApproval(waiting) => {
                let mut decided = Vec::new();
                for call in waiting.pending.iter().filter(|call| call.needs_approval) {
                    let decision = approver.decide(show, call).await?;
                    decided.push((call.clone(), decision));
                }
                closing = turn.approve(client, show, waiting.round, &decided).await?;
                decisions.extend(decided);
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

/// Follows the events of a turn across its streams.
struct Follower {
    model: String,
    turn_id: String,
    last: u64,
}

impl Follower {
    /// Shows the events of a stream, and returns the closing one.
    async fn follow<T>(
        &mut self,
        show: &mut Show,
        mut stream: Streaming<T>,
        event: impl Fn(T) -> Option<v1::Event>,
    ) -> Result<Kind> {
        let mut wait = Some(show.waiting("waiting for the model"));
        while let Some(item) = stream.message().await.map_err(|status| explain(&status))? {
            let Some(v1::Event { turn_id, number, kind: Some(kind) }) = event(item) else { continue };
            drop(wait.take());
            self.turn_id = turn_id;
            let is_new = number > self.last;
            self.last = self.last.max(number);
            if let Kind::TurnStarted(started) = &kind {
                self.model.clone_from(&started.model);
            }
            if is_new {
                show.event(&kind);
            }
            if is_closing(&kind) {
                return Ok(kind);
            }
            if matches!(kind, Kind::RoundStarted(_)) {
                wait = Some(show.waiting("waiting for the model"));
            }
        }
        bail!("the stream ended without a closing event")
    }

    /// Sends the decisions, and shows the events that follow.
    async fn approve(
        &mut self,
        client: &Client,
        show: &mut Show,
        round: u32,
        decided: &[(v1::Call, v1::decision::Decision)],
    ) -> Result<Kind> {
        let decisions = decided.iter().map(|(call, decision)| v1::Decision {
            call_id: call.call_id.clone(),
            arguments_digest: call.arguments_digest.clone(),
            decision: Some(decision.clone()),
        });
        let request = v1::ApproveRequest {
            turn_id: self.turn_id.clone(),
            round,
            decisions: decisions.collect(),
            continue_auto_approved: true,
            ..v1::ApproveRequest::default()
        };
        let before = self.last;
        let mut conversations = client.conversations();
        let mut approving = std::pin::pin!(conversations.approve(request));
        loop {
            tokio::select! {
                answer = &mut approving => {
                    answer.map_err(|status| explain(&status))?;
                    return self.watch(client, show).await;
                }
                // Until the decisions are recorded a watcher gets the pause that it knows: then it looks again.
                closing = self.watch(client, show) => {
                    let closing = closing?;
                    if self.last > before {
                        approving.await.map_err(|status| explain(&status))?;
                        return Ok(closing);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn watch(&mut self, client: &Client, show: &mut Show) -> Result<Kind> {
        let request = v1::WatchTurnRequest { turn_id: self.turn_id.clone(), from_event: self.last + 1 };
        let stream = client.conversations().watch_turn(request).await.map_err(|status| explain(&status))?.into_inner();
        self.follow(show, stream, |item: v1::WatchTurnResponse| item.event).await
    }
}

fn is_closing(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::AwaitingApproval(_)
            | Kind::Completed(_)
            | Kind::Failed(_)
            | Kind::Cancelled(_)
            | Kind::Expired(_)
            | Kind::Superseded(_)
    )
}
