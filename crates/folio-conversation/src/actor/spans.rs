//! Spans of a turn: one from its start or resumption until its end or pause, with one child span per round.
//!
//! The actor owns the spans, so they outlive the request that started them. A turn that continues after a pause or a
//! failure has a span in the trace of the request that continued it, with a link to the turn's first span as long as
//! this actor remembers it.

use folio_history::event::EventKind;
use folio_trace::{TraceContext, record_error};
use folio_types::TurnId;
use tracing::Span;
use tracing::field::Empty;

/// Trace contexts that an actor remembers.
#[derive(Default)]
pub(super) struct Traces {
    /// Trace context of the request that starts the next part of the turn.
    pub(super) request_trace: Option<TraceContext>,
    /// Span in which the newest turn started, by turn number.
    first_span: Option<(u32, TraceContext)>,
}

impl Traces {
    /// Returns the spans of a turn that starts or is resumed.
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
        if let Some(request_trace) = self.request_trace.take() {
            request_trace.set_parent_of(&span);
        }
        match &self.first_span {
            Some((number, first_span)) if *number == turn.number => first_span.link_from(&span),
            _ => self.first_span = TraceContext::of(&span).map(|first_span| (turn.number, first_span)),
        }
        TurnSpans { turn: span, round: None }
    }
}

/// The spans of a running turn.
pub(super) struct TurnSpans {
    turn: Span,
    round: Option<(u32, Span)>,
}

impl TurnSpans {
    /// Starts the span of a round. A round may be attempted several times.
    pub(super) fn round(&mut self, number: u32) {
        if self.round.as_ref().is_none_or(|(round, _)| *round != number) {
            let name = "round";
            let span =
                tracing::info_span!(parent: &self.turn, "round", otel.name = name, folio.round = i64::from(number));
            self.round = Some((number, span));
        }
    }

    /// Returns the span of the current work.
    pub(super) fn current(&self) -> &Span {
        self.round.as_ref().map_or(&self.turn, |(_, round)| round)
    }

    /// Records the outcome and ends the spans.
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
