//! The parts of a model request that depend on the history: those of the turn, of a node of its graph, or of a summary.

use std::borrow::Cow;
use std::sync::Arc;

use folio_history::journal::{AnswerType, SUMMARY_ROUND, TurnNode, WorkingState};
use folio_history::{History, TurnRecord};
use folio_llm::Tools;
use folio_tools::ProfileTools;
use folio_types::profile::NodeKind;

use crate::context::summary_message;
use crate::window::Window;

/// The texts of a request.
pub(crate) enum Prompt {
    Conversation {
        instructions: Cow<'static, str>,
        /// Empty: none.
        guide: &'static str,
        /// Summary of the messages before the window.
        summary: Option<String>,
    },
    /// The request for a summary, which contains no other section.
    Summary,
}

pub(crate) struct RequestParts {
    pub(crate) profile: Arc<ProfileTools>,
    /// The tools that are sent.
    pub(crate) tools: Tools,
    pub(crate) window: Window,
    pub(crate) prompt: Prompt,
    pub(crate) answer: AnswerType,
    /// The working state at the start of the turn.
    pub(crate) start: WorkingState,
    pub(crate) working: WorkingState,
}

impl RequestParts {
    /// Returns the parts of the model call of a round. `profile`: that of the thread, with every tool.
    pub(crate) fn of(profile: &Arc<ProfileTools>, history: &History, record: &TurnRecord, round: u32) -> Self {
        if round == SUMMARY_ROUND {
            return Self::of_summary(profile, history);
        }
        match record.node() {
            Some(node) => Self::of_node(profile, history, record, node),
            None => Self::of_turn(profile, history, record),
        }
    }

    fn of_turn(profile: &Arc<ProfileTools>, history: &History, record: &TurnRecord) -> Self {
        let (options, start) = (&record.accepted.options, record.accepted.working.clone());
        let profile = profile.of_turn(options.tools());
        let calls = record.rounds.iter().flat_map(|round| &round.calls);
        let calls = calls.map(|call| (call.call.name.as_str(), call.arguments()));
        let prompt = Prompt::Conversation {
            instructions: profile.profile.instructions.into(),
            guide: if start.schema_revid.is_some() { "" } else { profile.profile.guide },
            summary: summary_of(history, record),
        };
        Self {
            tools: profile.definitions(start.has_work(), calls),
            window: Window::of(history, record.number()),
            prompt,
            answer: options.profile.as_ref().map(|profile| profile.answer.clone()).unwrap_or_default(),
            start,
            working: record.working.clone(),
            profile,
        }
    }

    /// The node has its own tools, answer and instructions. A node that updates the memory needs only the current turn.
    fn of_node(profile: &Arc<ProfileTools>, history: &History, record: &TurnRecord, node: &TurnNode) -> Self {
        let of_turn = Self::of_turn(profile, history, record);
        let own = profile.of_turn(Some(node.tools.as_slice()));
        let calls = record.rounds.iter().flat_map(|round| &round.calls);
        let calls = calls.map(|call| (call.call.name.as_str(), call.arguments()));
        let own_instructions = profile.profile.node(&node.name).map_or("", |node| node.instructions);
        let instructions = format!("{}\n\n{}", profile.profile.instructions.trim(), own_instructions.trim());
        let prompt =
            Prompt::Conversation { instructions: instructions.into(), guide: "", summary: summary_of(history, record) };
        let window = of_turn.window;
        Self {
            tools: own.definitions(of_turn.start.has_work(), calls),
            window: if node.kind == NodeKind::Memory { window.without_history() } else { window },
            prompt,
            answer: AnswerType::Json { schema: node.schema.clone() },
            start: of_turn.start,
            working: of_turn.working,
            profile: own,
        }
    }

    fn of_summary(profile: &Arc<ProfileTools>, history: &History) -> Self {
        let text = history.due_summary().map(|range| summary_message(history, &range)).unwrap_or_default();
        Self {
            profile: profile.of_turn(Some(&[])),
            tools: Tools::default(),
            window: Window::of_text(text),
            prompt: Prompt::Summary,
            answer: AnswerType::Text,
            start: WorkingState::default(),
            working: WorkingState::default(),
        }
    }
}

/// Returns the summary of the messages before the window, if the turn has them summarized.
fn summary_of(history: &History, record: &TurnRecord) -> Option<String> {
    let summary = history.summary().filter(|_| record.accepted.options.summarizes);
    summary.map(|summary| summary.text.clone())
}
