//! The spans of a turn: one from its beginning, or from where it goes on, to its end or to where it waits; one for each round
//! in it.
//!
//! They are the actor's, and outlive the request that began them. What goes on after a pause or a failure is a span of the
//! trace of who asked for that, and links to where the turn began as long as this actor remembers it.

use folio_history::event::EventKind;
use folio_trace::{TraceContext, record_error};
use folio_types::TurnId;
use tracing::Span;
use tracing::field::Empty;

/// What an actor remembers of traces.
#[derive(Default)]
pub(super) struct Traces {
    /// Who asked for what the turn does next.
    pub(super) asked: Option<TraceContext>,
    /// Where the newest turn began.
    began: Option<(u32, TraceContext)>,
}

impl Traces {
    /// The spans of a turn that begins, or goes on.
    pub(super) fn turn(&mut self, turn: &TurnId, profile: &str) -> TurnSpans {
        let span = tracing::info_span!(
            parent: None,
            "turn",
            otel.name = format_args!("invoke_agent {profile}"),
            otel.status_code = Empty,
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = profile,
            gen_ai.conversation.id = %turn.thread,
            folio.turn.number = i64::from(turn.number),
            folio.turn.outcome = Empty,
            "error.type" = Empty,
        );
        if let Some(asked) = self.asked.take() {
            asked.set_parent_of(&span);
        }
        match &self.began {
            Some((number, began)) if *number == turn.number => began.link_from(&span),
            _ => self.began = TraceContext::of(&span).map(|began| (turn.number, began)),
        }
        TurnSpans { turn: span, round: None }
    }
}

/// The spans of a turn that runs.
pub(super) struct TurnSpans {
    turn: Span,
    round: Option<(u32, Span)>,
}

impl TurnSpans {
    /// A model call of a round begins; it may be another attempt.
    pub(super) fn round(&mut self, number: u32) {
        if self.round.as_ref().is_none_or(|(round, _)| *round != number) {
            let name = "round";
            let span =
                tracing::info_span!(parent: &self.turn, "round", otel.name = name, folio.round = i64::from(number));
            self.round = Some((number, span));
        }
    }

    /// Where what is done now belongs.
    pub(super) fn current(&self) -> &Span {
        self.round.as_ref().map_or(&self.turn, |(_, round)| round)
    }

    /// How it ended.
    pub(super) fn end(self, event: &EventKind) {
        let outcome = match event {
            EventKind::Completed { .. } => "completed",
            EventKind::AwaitingApproval { .. } => "awaiting_approval",
            EventKind::Failed { error, .. } => {
                record_error(&self.turn, error.reason.as_str());
                "failed"
            }
            EventKind::Cancelled => "cancelled",
            EventKind::Expired => "expired",
            EventKind::Superseded => "superseded",
            _ => return,
        };
        self.turn.in_scope(|| self.turn.record("folio.turn.outcome", outcome));
    }
}
