//! The graph of a turn: nodes as the acceptance of the turn records them, and the nodes that made the rounds.
//!
//! The journal decides alone: a round names its node, and the last round of a node records the answer and the chosen node.
//! Every owner therefore continues at the same node.

use std::sync::Arc;

use folio_types::message::FinishReason;
use folio_types::profile::{AnswerCheck, NodeKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fold::{RoundRecord, TurnRecord};
use crate::journal::{End, TurnOptions};

/// Member of an answer with the passages of its sources, which the server adds.
pub const PASSAGES: &str = "passages";

/// A node as of the acceptance of its turn. Its instructions are those of the binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnNode {
    /// Unique in the graph.
    pub name: String,
    pub kind: NodeKind,
    /// Tools that the node may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Name of the type of the answer.
    pub answer_type: String,
    /// JSON Schema (draft 7) of the answer.
    pub schema: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<AnswerCheck>,
    /// Members of the answer whose values, joined by ` = `, are the text of the turn's answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text_members: Vec<String>,
    /// The answer after a second violation. None: the turn fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_answer: Option<Value>,
    #[serde(default)]
    pub routes: TurnRoutes,
}

/// The nodes that may follow a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnRoutes {
    /// Member of the answer whose value chooses the next node. Empty: no value does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub member: String,
    /// Values with their nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_value: Vec<(String, String)>,
    /// The node for any other value. None: the turn ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// The node that made a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundNode {
    pub name: String,
    pub kind: NodeKind,
    /// Name of the type of its answer.
    pub answer_type: String,
    /// None: the node continues after the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<NodeEnd>,
}

/// The end of a node, which its last round records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// The checked answer. None: a node of the kind [`NodeKind::Memory`] ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// True if the model violated the type of the answer twice, so that the node ended with its default answer, if it has one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// The chosen node. None: the turn ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl TurnNode {
    /// Returns the name of the node that follows this answer. None: the turn ends.
    pub fn next(&self, answer: &Value) -> Option<String> {
        let TurnRoutes { member, by_value, otherwise } = &self.routes;
        let value = Some(member).filter(|member| !member.is_empty()).and_then(|member| answer.get(member.as_str()));
        let chosen = value.and_then(Value::as_str).and_then(|value| by_value.iter().find(|(of, _)| of == value));
        chosen.map(|(_, next)| next).or(otherwise.as_ref()).cloned()
    }

    /// Returns the text of an answer for people.
    pub fn text(&self, answer: &Value) -> String {
        let values = self.text_members.iter().filter_map(|member| answer.get(member.as_str()));
        let texts: Vec<String> =
            values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        texts.join(" = ")
    }

    fn of_round(&self) -> RoundNode {
        RoundNode { name: self.name.clone(), kind: self.kind, answer_type: self.answer_type.clone(), end: None }
    }
}

impl TurnOptions {
    /// Returns the nodes of the turn. Empty: its profile has no graph, or the turn runs a direct call.
    pub fn graph(&self) -> &[TurnNode] {
        let profile = self.profile.as_ref().filter(|_| self.direct_call.is_none());
        profile.map(|profile| &*profile.graph).unwrap_or_default()
    }
}

impl RoundRecord {
    /// Returns the end of the node that this round ended. None: the round ended no node.
    pub fn node_end(&self) -> Option<&NodeEnd> {
        self.node.as_ref()?.end.as_ref()
    }

    /// Returns true if the node with this name made the round.
    pub fn is_of_node(&self, name: &str) -> bool {
        self.node.as_ref().is_some_and(|node| node.name == name)
    }
}

impl TurnRecord {
    /// Returns the node that makes the next model call: the first one, or the one that the newest ended node chose. None: the
    /// turn has no graph, or its last node has ended.
    pub fn node(&self) -> Option<&TurnNode> {
        let graph = self.accepted.options.graph();
        match self.rounds.iter().rev().find_map(RoundRecord::node_end) {
            None => graph.first(),
            Some(end) => {
                let next = end.next.as_ref()?;
                graph.iter().find(|node| node.name == *next)
            }
        }
    }

    /// Returns true if the turn has a graph whose last node has ended.
    pub fn is_graph_over(&self) -> bool {
        !self.accepted.options.graph().is_empty() && self.node().is_none()
    }

    /// Returns the node for the next round. None: the turn has no node to continue with.
    pub fn round_node(&self) -> Option<Box<RoundNode>> {
        self.node().map(|node| Box::new(node.of_round()))
    }

    /// Returns the newest round that ended a node of this kind, with its answer.
    pub fn node_answer(&self, kind: NodeKind) -> Option<(&RoundNode, &Value)> {
        self.rounds.iter().rev().find_map(|round| {
            let node = round.node.as_deref().filter(|node| node.kind == kind)?;
            Some((node, node.end.as_ref()?.answer.as_ref()?))
        })
    }

    /// Returns the node that gave the answer of the turn, with the answer without quotes of documents.
    pub fn answer_without_passages(&self) -> Option<(&RoundNode, Value)> {
        let (node, answer) = self.node_answer(NodeKind::Answer)?;
        let mut answer = answer.clone();
        if let Some(members) = answer.as_object_mut() {
            members.remove(PASSAGES);
        }
        Some((node, answer))
    }

    /// Returns the end of a turn whose answer node has ended. From then on, nothing fails the turn. None: the turn has no such
    /// answer.
    pub fn answered_end(&self) -> Option<End> {
        let (of, answer) = self.node_answer(NodeKind::Answer)?;
        let node = self.accepted.options.graph().iter().find(|node| node.name == of.name);
        let text = node.map(|node| node.text(answer)).filter(|text| !text.trim().is_empty());
        let text = text.unwrap_or_else(|| answer.to_string());
        Some(End::Completed { text, thinking: Vec::new(), finish: FinishReason::Stop })
    }
}

/// Returns a graph without nodes.
pub fn no_graph() -> Arc<[TurnNode]> {
    Arc::new([])
}
