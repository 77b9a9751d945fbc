//! Spans of turns. A span covers a turn from its start or resumption until its end or pause, with one child span per
//! round. The rounds of a node of a graph are children of the span of the node.
//!
//! The actor owns the spans, so they outlive the request that started them. A turn that continues after a pause or a
//! failure has another span in the trace of the continuing request, with a link to the turn's first span if this actor
//! started it.

use folio_history::event::EventKind;
use folio_trace::{TraceContext, record_error};
use folio_types::TurnId;
use tracing::Span;
use tracing::field::Empty;

#[derive(Default)]
pub(super) struct Traces {
    /// Trace context of the request that will start or resume a turn.
    pub(super) request_trace: Option<TraceContext>,
    /// Number of the newest turn, and the span in which it started.
    first_span: Option<(u32, TraceContext)>,
}

impl Traces {
    /// Starts the span of a turn that starts or is resumed.
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
        TurnSpans { turn: span, node: None, round: None }
    }
}

pub(super) struct TurnSpans {
    turn: Span,
    /// Name and span of the current node of the turn's graph.
    node: Option<(String, Span)>,
    round: Option<(u32, Span)>,
}

impl TurnSpans {
    /// Starts the span of a round, and that of its node if the node starts with the round. Has no effect for a further attempt
    /// of the current round. `node`: the node of the turn's graph that makes the round.
    pub(super) fn round(&mut self, number: u32, node: Option<&str>) {
        if self.round.as_ref().is_none_or(|(round, _)| *round != number) {
            // The round ends before its node.
            self.round = None;
            self.enter_node(node);
            let parent = self.node.as_ref().map_or(&self.turn, |(_, node)| node);
            let name = "round";
            let span = tracing::info_span!(parent: parent, "round", otel.name = name, folio.round = i64::from(number));
            self.round = Some((number, span));
        }
    }

    fn enter_node(&mut self, node: Option<&str>) {
        if self.node.as_ref().map(|(name, _)| name.as_str()) == node {
            return;
        }
        self.node = node.map(|name| {
            let span = tracing::info_span!(
                parent: &self.turn,
                "node",
                otel.name = format_args!("node {name}"),
                folio.node = name,
            );
            (name.to_owned(), span)
        });
    }

    /// Returns the span of the current round, or of the turn before its first round.
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
