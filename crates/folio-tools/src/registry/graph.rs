//! Checks of the graph of a profile, and the nodes that a turn records.

use std::sync::Arc;

use folio_history::journal::{TurnNode, TurnRoutes};
use folio_llm::schema::{Validator, describe};
use folio_types::profile::{NodeKind, Profile, ProfileAnswer, ProfileNode};
use folio_types::{Error, Result};
use serde_json::Value;

use super::compiled_schema;

/// Returns the nodes of a profile. Fails with a bug if the graph is invalid: a route leads to an unknown or an earlier node (so
/// that a turn could run in a circle), no node has the answer, a node of the memory has tools or comes before the answer, or a
/// schema or a default answer is invalid.
pub(super) fn turn_nodes(profile: &Profile) -> Result<Arc<[TurnNode]>> {
    let invalid = |problem: String| Error::internal(format!("invalid graph of profile {}: {problem}", profile.name));
    let graph = profile.graph;
    if !graph.is_empty() && profile.answer != ProfileAnswer::Text {
        return Err(invalid("its nodes have the answers".to_owned()));
    }
    for (at, node) in graph.iter().enumerate() {
        let later = graph.iter().skip(at + 1);
        let is_later = |name: &str| later.clone().any(|node| node.name == name);
        if let Some(target) = node.routes.targets().find(|target: &&str| !is_later(target)) {
            return Err(invalid(format!("node {} leads to {target}, which is not a later node", node.name)));
        }
        if is_later(node.name) {
            return Err(invalid(format!("two nodes are named {}", node.name)));
        }
        if let Some(tool) = node.tools.iter().find(|tool| profile.tool(tool).is_none()) {
            return Err(invalid(format!("node {} has the unknown tool {tool}", node.name)));
        }
        check_kind(profile, node).map_err(invalid)?;
    }
    graph.iter().map(|node| turn_node(node, &invalid)).collect()
}

/// Checks that a turn has its answer exactly once on each path, before the memory is updated.
fn check_kind(profile: &Profile, node: &ProfileNode) -> std::result::Result<(), String> {
    let name = node.name;
    let follows = |kind: NodeKind| {
        let mut kinds = node.routes.targets().filter_map(|target| profile.node(target)).map(|node| node.kind);
        kinds.any(|next| next == kind)
    };
    match node.kind {
        NodeKind::Route if node.routes.otherwise.is_none() || follows(NodeKind::Memory) => {
            Err(format!("a path after node {name} has no answer"))
        }
        NodeKind::Answer if follows(NodeKind::Answer) || follows(NodeKind::Route) => {
            Err(format!("only nodes of the memory may follow node {name}"))
        }
        NodeKind::Answer if node.text_members.is_empty() => Err(format!("the answer of node {name} has no text")),
        NodeKind::Memory if follows(NodeKind::Answer) || follows(NodeKind::Route) || !node.tools.is_empty() => {
            Err(format!("node {name} of the memory has tools, or an answer follows"))
        }
        NodeKind::Memory if profile.graph.first().is_some_and(|first| first.name == name) => {
            Err(format!("node {name} of the memory is the first node"))
        }
        _ => Ok(()),
    }
}

fn turn_node(node: &ProfileNode, invalid: &dyn Fn(String) -> Error) -> Result<TurnNode> {
    let of_node = |problem: String| invalid(format!("node {}: {problem}", node.name));
    let names = |names: &[&'static str]| names.iter().map(|name| (*name).to_owned()).collect();
    let schema = compiled_schema(node.answer_schema, &of_node)?;
    Ok(TurnNode {
        name: node.name.to_owned(),
        kind: node.kind,
        tools: names(node.tools),
        answer_type: node.answer_type.to_owned(),
        default_answer: node.default_answer.map(|text| default_answer(&schema, text, &of_node)).transpose()?,
        schema,
        checks: node.checks.to_vec(),
        text_members: names(node.text_members),
        routes: TurnRoutes {
            member: node.routes.member.to_owned(),
            by_value: node.routes.by_value.iter().map(|(of, next)| ((*of).to_owned(), (*next).to_owned())).collect(),
            otherwise: node.routes.otherwise.map(str::to_owned),
        },
    })
}

fn default_answer(schema: &Value, text: &str, invalid: &dyn Fn(String) -> Error) -> Result<Value> {
    let answer = folio_types::json::read(text).map_err(|error| invalid(error.to_string()))?;
    let validator = Validator::compile(schema).map_err(|violations| invalid(describe(&violations)))?;
    let violations = validator.check(&answer);
    if violations.is_empty() { Ok(answer) } else { Err(invalid(describe(&violations))) }
}

#[cfg(test)]
mod tests {
    use folio_types::profile::{ASSISTANT_PROFILE, AnswerCheck, ProfileRoutes};

    use super::*;
    use crate::Registry;

    const fn node(name: &'static str, kind: NodeKind, routes: ProfileRoutes) -> ProfileNode {
        ProfileNode {
            name,
            kind,
            instructions: "",
            tools: &[],
            answer_type: "T",
            answer_schema: r#"{"type": "object"}"#,
            checks: &[AnswerCheck::Sources],
            text_members: &["answer"],
            default_answer: None,
            routes,
        }
    }

    fn problem(graph: &'static [ProfileNode]) -> Option<String> {
        let profile = Registry::standard().unwrap().profile(ASSISTANT_PROFILE).unwrap().profile.clone();
        turn_nodes(&Profile { graph, ..profile }).err().map(|error| error.message)
    }

    #[test]
    fn a_graph_that_could_end_without_an_answer_or_never_is_refused() {
        use NodeKind::{Answer, Memory, Route};
        const END: ProfileRoutes = ProfileRoutes::to(None);
        const TO_A: ProfileRoutes = ProfileRoutes::to(Some("a"));
        const TO_B: ProfileRoutes = ProfileRoutes::to(Some("b"));
        assert_eq!(problem(const { &[node("r", Route, TO_A), node("a", Answer, TO_B), node("b", Memory, END)] }), None);
        for graph in [
            const { &[node("r", Route, END)] as &[ProfileNode] },
            const { &[node("a", Answer, TO_A)] },
            const { &[node("a", Answer, TO_B)] },
            const { &[node("r", Route, TO_B), node("b", Memory, END)] },
            const { &[node("b", Memory, END)] },
            const { &[node("a", Answer, TO_B), node("b", Answer, END)] },
            const { &[node("a", Answer, END), node("a", Answer, END)] },
            const { &[ProfileNode { tools: &["no_tool"], ..node("a", Answer, END) }] },
            const { &[ProfileNode { answer_schema: "{", ..node("a", Answer, END) }] },
            const { &[ProfileNode { text_members: &[], ..node("a", Answer, END) }] },
            const { &[ProfileNode { default_answer: Some("[]"), ..node("a", Answer, END) }] },
        ] {
            assert!(problem(graph).is_some(), "{graph:?}");
        }
    }
}
