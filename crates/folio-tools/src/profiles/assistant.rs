//! The agent that answers questions about all documents of an organization, or about the documents of its thread. Each turn
//! runs a graph: the intent is classified, an agent answers, and the memory of the thread is updated. Its tools only read.

use folio_types::profile::{
    ASSISTANT_PROFILE, AnswerCheck, DocumentRule, NodeKind, Profile, ProfileAnswer, ProfileLimits, ProfileNode,
    ProfileRoutes, ProfileTool, SubjectKind,
};

use crate::calculator::CALCULATOR;
use crate::stack::{ASK_TABLE, LIST_TABLES};

const CLASSIFY_INTENT: &str = "classify_intent";
const QA_AGENT: &str = "qa_agent";
const SUMMARIZATION_AGENT: &str = "summarization_agent";
const CALCULATION_AGENT: &str = "calculation_agent";
const UPDATE_MEMORY: &str = "update_memory";

pub(super) fn profile() -> Profile {
    Profile {
        name: ASSISTANT_PROFILE,
        version: 1,
        documents: DocumentRule { min: 0, max: 100, media_types: &[] },
        subject: SubjectKind::Organization,
        // The agent retrieves passages instead.
        has_excerpt: false,
        instructions: include_str!("assistant/assistant.md"),
        guide: "",
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits { model_calls: 12, running_time: None, credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: GRAPH,
        has_own_usage: true,
    }
}

const TOOLS: &[ProfileTool] = &[
    ProfileTool::runs("retrieve_documents"),
    ProfileTool::runs("section_reader"),
    ProfileTool::runs(CALCULATOR),
    ProfileTool::runs(LIST_TABLES),
    ProfileTool::runs(ASK_TABLE),
];

const CALCULATION_TOOLS: &[&str] = &["retrieve_documents", "section_reader", CALCULATOR, LIST_TABLES, ASK_TABLE];

const GRAPH: &[ProfileNode] = &[
    ProfileNode {
        name: CLASSIFY_INTENT,
        kind: NodeKind::Route,
        instructions: include_str!("assistant/classify_intent.md"),
        tools: &[],
        answer_type: "UserIntent",
        answer_schema: include_str!("assistant/user_intent.json"),
        checks: &[],
        text_members: &[],
        default_answer: Some(
            r#"{"intent_type": "unknown", "confidence": 0, "reasoning": "The model gave no valid classification."}"#,
        ),
        routes: ProfileRoutes {
            member: "intent_type",
            by_value: &[("qa", QA_AGENT), ("summarization", SUMMARIZATION_AGENT), ("calculation", CALCULATION_AGENT)],
            otherwise: Some(QA_AGENT),
        },
    },
    agent(
        (QA_AGENT, include_str!("assistant/qa_agent.md")),
        ("AnswerResponse", include_str!("assistant/answer_response.json")),
        (&["retrieve_documents", "section_reader"], &[AnswerCheck::Sources]),
        &["answer"],
    ),
    agent(
        (SUMMARIZATION_AGENT, include_str!("assistant/summarization_agent.md")),
        ("SummarizationResponse", include_str!("assistant/summarization_response.json")),
        (&["retrieve_documents", "section_reader"], &[AnswerCheck::Sources]),
        &["summary"],
    ),
    agent(
        (CALCULATION_AGENT, include_str!("assistant/calculation_agent.md")),
        ("CalculationResponse", include_str!("assistant/calculation_response.json")),
        (CALCULATION_TOOLS, &[AnswerCheck::Sources, AnswerCheck::Calculated]),
        &["expression", "result"],
    ),
    ProfileNode {
        name: UPDATE_MEMORY,
        kind: NodeKind::Memory,
        instructions: include_str!("assistant/update_memory.md"),
        tools: &[],
        answer_type: "ConversationSummary",
        answer_schema: include_str!("assistant/conversation_summary.json"),
        checks: &[],
        text_members: &[],
        default_answer: None,
        routes: ProfileRoutes::to(None),
    },
];

/// Returns a node that answers, after which the memory is updated.
const fn agent(
    (name, instructions): (&'static str, &'static str),
    (answer_type, answer_schema): (&'static str, &'static str),
    (tools, checks): (&'static [&'static str], &'static [AnswerCheck]),
    text_members: &'static [&'static str],
) -> ProfileNode {
    ProfileNode {
        name,
        kind: NodeKind::Answer,
        instructions,
        tools,
        answer_type,
        answer_schema,
        checks,
        text_members,
        default_answer: None,
        routes: ProfileRoutes::to(Some(UPDATE_MEMORY)),
    }
}

#[cfg(test)]
mod tests {
    use folio_history::journal::Access;
    use serde_json::json;

    use super::*;
    use crate::Registry;

    #[test]
    fn no_tool_writes() {
        let assistant = Registry::standard().unwrap().profile(ASSISTANT_PROFILE).unwrap();
        assert!(assistant.specs().all(|spec| spec.access == Access::ReadOnly));
        assert!(profile().tools.iter().all(|tool| !tool.waits));
    }

    #[test]
    fn each_intent_leads_to_its_agent_and_each_agent_to_the_memory() {
        let assistant = Registry::standard().unwrap().profile(ASSISTANT_PROFILE).unwrap();
        let graph = assistant.graph();
        let classify = graph.first().unwrap();
        for (intent, expected) in [
            (json!("qa"), QA_AGENT),
            (json!("summarization"), SUMMARIZATION_AGENT),
            (json!("calculation"), CALCULATION_AGENT),
            (json!("unknown"), QA_AGENT),
            (json!(7), QA_AGENT),
        ] {
            assert_eq!(classify.next(&json!({ "intent_type": intent })).as_deref(), Some(expected), "{intent}");
        }
        assert_eq!(classify.next(&json!({})).as_deref(), Some(QA_AGENT));
        let agents: Vec<_> = graph.iter().filter(|node| node.kind == NodeKind::Answer).collect();
        assert_eq!(agents.len(), 3);
        assert!(agents.iter().all(|node| node.next(&json!({})).as_deref() == Some(UPDATE_MEMORY)));
        let calculation = graph.iter().find(|node| node.name == CALCULATION_AGENT).unwrap();
        assert_eq!(calculation.text(&json!({ "expression": "1+1", "result": 2 })), "1+1 = 2");
    }

    #[test]
    fn the_texts_for_models_are_reviewed() {
        let profile = profile();
        let mut texts = format!("{}\n", profile.instructions);
        for node in profile.graph {
            texts.push_str(&format!("# {}\n{}\n{}\n", node.name, node.instructions, node.answer_schema));
        }
        insta::assert_snapshot!(texts);
    }
}
