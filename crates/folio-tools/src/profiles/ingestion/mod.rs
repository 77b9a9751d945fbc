//! The agents of the ingestion network. A job starts the planner, which delegates to the others. The run works unattended, so no
//! call waits unless a rule of the organization's policy requires an approval.
//!
//! Each agent has the tools of its step only. An agent that reads the text of a document writes nothing that takes effect on
//! another document, except `dictionary_upsert`, which a run may use for unexplained abbreviations of its document only.

use std::time::Duration;

use folio_types::limits::DAY;
use folio_types::profile::{
    CHUNK_BUILDER_PROFILE, DICTIONARY_STEWARD_PROFILE, DocumentRule, HYPERLINK_AUDITOR_PROFILE,
    IMAGE_DESCRIBER_PROFILE, INGEST_PLANNER_PROFILE, Profile, ProfileAnswer, ProfileLimits, ProfileTool,
    RAG_INGESTOR_PROFILE, STRUCTURE_SCANNER_PROFILE, SUMMARY_ORCHESTRATOR_PROFILE, SubjectKind,
};

use crate::dictionary;
use crate::tasks::RUN_TASKS;

/// Running time of an agent that the planner delegates to.
const RUNNING_TIME: Duration = Duration::from_secs(60 * 60);

pub(super) fn profiles() -> Vec<Profile> {
    let planner = agent(INGEST_PLANNER_PROFILE, include_str!("ingest_planner.md"), PLANNER, 40);
    let limits = ProfileLimits { running_time: Some(DAY), ..planner.limits };
    vec![
        Profile { delegates: DELEGATES, limits, ..planner },
        agent(STRUCTURE_SCANNER_PROFILE, include_str!("structure_scanner.md"), SCANNER, 12),
        agent(SUMMARY_ORCHESTRATOR_PROFILE, include_str!("summary_orchestrator.md"), ORCHESTRATOR, 100),
        agent(CHUNK_BUILDER_PROFILE, include_str!("chunk_builder.md"), BUILDER, 8),
        agent(DICTIONARY_STEWARD_PROFILE, include_str!("dictionary_steward.md"), STEWARD, 20),
        agent(HYPERLINK_AUDITOR_PROFILE, include_str!("hyperlink_auditor.md"), AUDITOR, 20),
        agent(IMAGE_DESCRIBER_PROFILE, include_str!("image_describer.md"), DESCRIBER, 20),
        agent(RAG_INGESTOR_PROFILE, include_str!("rag_ingestor.md"), INGESTOR, 6),
    ]
}

fn agent(name: &'static str, instructions: &'static str, tools: &'static [ProfileTool], model_calls: u32) -> Profile {
    Profile {
        name,
        version: 1,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Ingestion,
        // The agents read the parts that they need with tools.
        has_excerpt: false,
        instructions,
        guide: "",
        tools,
        delegates: &[],
        limits: ProfileLimits { model_calls, running_time: Some(RUNNING_TIME), credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: true,
    }
}

const DELEGATES: &[&str] = &[
    STRUCTURE_SCANNER_PROFILE,
    SUMMARY_ORCHESTRATOR_PROFILE,
    CHUNK_BUILDER_PROFILE,
    DICTIONARY_STEWARD_PROFILE,
    HYPERLINK_AUDITOR_PROFILE,
    IMAGE_DESCRIBER_PROFILE,
    RAG_INGESTOR_PROFILE,
];

const PLANNER: &[ProfileTool] = &[
    ProfileTool::runs("ingestion_status"),
    ProfileTool::runs("pdf_outline"),
    ProfileTool::runs("dictionary_suggest"),
    ProfileTool::runs("hyperlink_resolver"),
    ProfileTool::runs(RUN_TASKS),
];

const SCANNER: &[ProfileTool] = &[ProfileTool::runs("pdf_outline"), ProfileTool::runs("section_reader")];

const ORCHESTRATOR: &[ProfileTool] = &[
    ProfileTool::runs("ingestion_status"),
    ProfileTool::runs("section_reader"),
    ProfileTool::runs("summary_store"),
    ProfileTool::runs("dictionary_lookup"),
];

const BUILDER: &[ProfileTool] = &[ProfileTool::runs("chunk_generate"), ProfileTool::runs("ingestion_status")];

const STEWARD: &[ProfileTool] = &[
    ProfileTool::runs("dictionary_suggest"),
    ProfileTool::runs("dictionary_lookup"),
    ProfileTool::runs("pdf_outline"),
    ProfileTool::runs("section_reader"),
    ProfileTool::runs(dictionary::WRITE_TOOL),
];

const AUDITOR: &[ProfileTool] = &[ProfileTool::runs("pdf_outline"), ProfileTool::runs("hyperlink_resolver")];

const DESCRIBER: &[ProfileTool] = &[ProfileTool::runs("pdf_outline"), ProfileTool::runs("image_annotator")];

const INGESTOR: &[ProfileTool] = &[ProfileTool::runs("ingestion_status"), ProfileTool::runs("rag_chunk_index")];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use folio_history::journal::Access;
    use serde_json::{Value, json};

    use super::*;
    use crate::Registry;

    #[test]
    fn the_agents_and_their_tools_match_the_snapshot() {
        let registry = Registry::standard().unwrap();
        let mut tools = BTreeSet::new();
        let mut specs = Vec::new();
        for profile in profiles() {
            for spec in registry.profile(profile.name).unwrap().specs() {
                if spec.name == RUN_TASKS || tools.insert(spec.name) {
                    specs.push(json!({
                        "name": spec.name,
                        "access": spec.access,
                        "description": spec.description,
                        "parameters": spec.parameters,
                    }));
                }
            }
        }
        let agents: Vec<Value> = profiles()
            .into_iter()
            .map(|profile| {
                let tools: Vec<&str> = profile.tools.iter().map(|tool| tool.name).collect();
                json!({ "name": profile.name, "tools": tools, "instructions": profile.instructions })
            })
            .collect();
        insta::assert_json_snapshot!(json!({ "agents": agents, "tools": specs }));
    }

    #[test]
    fn no_call_waits_and_only_the_steward_writes_beyond_its_document() {
        let registry = Registry::standard().unwrap();
        let mut writes = BTreeSet::new();
        for profile in profiles() {
            assert!(profile.tools.iter().all(|tool| !tool.waits), "{}", profile.name);
            let tools = registry.profile(profile.name).unwrap();
            let written = tools.specs().filter(|spec| spec.access == Access::ReadWrite);
            writes.extend(written.map(|spec| (profile.name, spec.name)));
        }
        let expected = [
            (DICTIONARY_STEWARD_PROFILE, dictionary::WRITE_TOOL),
            (INGEST_PLANNER_PROFILE, RUN_TASKS),
            (RAG_INGESTOR_PROFILE, "rag_chunk_index"),
            (SUMMARY_ORCHESTRATOR_PROFILE, "summary_store"),
        ];
        assert_eq!(writes, BTreeSet::from(expected));
    }

    #[test]
    fn only_the_planner_delegates_and_to_every_other_agent() {
        let (planner, others): (Vec<_>, Vec<_>) =
            profiles().into_iter().partition(|profile| profile.name == INGEST_PLANNER_PROFILE);
        let names: Vec<&str> = others.iter().map(|profile| profile.name).collect();
        assert_eq!(planner[0].delegates, names);
        assert!(others.iter().all(|profile| profile.delegates.is_empty()));
        for name in names {
            assert!(planner[0].instructions.contains(name), "the planner must know when to run {name}");
        }
    }

    #[test]
    fn instructions_are_short_enough_for_each_request() {
        for profile in profiles() {
            assert!(profile.instructions.len() < 3_500, "{}: {}", profile.name, profile.instructions.len());
            assert!(profile.instructions.contains("data"), "{} must treat texts as data", profile.name);
        }
    }
}
