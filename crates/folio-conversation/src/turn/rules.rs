//! The protocol's rules that a check may switch off, to see that it finds what each of them prevents.

/// Which rules hold. Always all of them, but in the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// Ending a turn with open intents begins with an entry `closing`.
    pub closing_entry: bool,
    /// Op rows of open intents are closed before their calls get synthetic results.
    pub closing: bool,
    /// `TURN_EXPIRED` is answered only when the expired end stands.
    pub expired_end_first: bool,
    /// Recorded decisions are answered before expiry is judged.
    pub recorded_before_expiry: bool,
    /// Decided calls are carried to their outcome before a failed end.
    pub carry_decided: bool,
    /// A takeover is an append, also where there is nothing to say.
    pub takeover_appends: bool,
    /// The assistant message is appended before or with its first intent.
    pub round_with_intent: bool,
    /// Decisions are durable before anything runs.
    pub decisions_recorded: bool,
    /// An outcome is appended before or with the next pause.
    pub outcome_before_pause: bool,
    /// A pause and an end hold the number of their closing event.
    pub closing_number: bool,
    /// The row of a request id is read again after a refusal.
    pub request_read_again: bool,
}

impl Rules {
    /// All of them.
    pub(crate) const ALL: Self = Self {
        closing_entry: true,
        closing: true,
        expired_end_first: true,
        recorded_before_expiry: true,
        carry_decided: true,
        takeover_appends: true,
        round_with_intent: true,
        decisions_recorded: true,
        outcome_before_pause: true,
        closing_number: true,
        request_read_again: true,
    };

    /// All but the one of this name.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn without(name: &str) -> Self {
        let mut rules = Self::ALL;
        match name {
            "closing-entry-missing" => rules.closing_entry = false,
            "closing-skipped" => rules.closing = false,
            "expired-before-its-end" => rules.expired_end_first = false,
            "expiry-before-recorded" => rules.recorded_before_expiry = false,
            "decided-not-carried" => rules.carry_decided = false,
            "takeover-without-append" => rules.takeover_appends = false,
            "intent-before-its-round" => rules.round_with_intent = false,
            "decisions-not-recorded" => rules.decisions_recorded = false,
            "outcome-after-pause" => rules.outcome_before_pause = false,
            "closing-number-missing" => rules.closing_number = false,
            "request-not-read-again" => rules.request_read_again = false,
            _ => {}
        }
        rules
    }
}
