//! The agent that divides a request about one document into tasks for the document agent. Its own tools only read, except
//! `run_tasks`: the calls of a child turn wait as those of a conversation about a document.

use folio_types::profile::{
    COORDINATOR_PROFILE, DOCUMENT_PROFILE, DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool,
    SubjectKind,
};

use crate::tasks::RUN_TASKS;

pub(super) fn profile() -> Profile {
    Profile {
        name: COORDINATOR_PROFILE,
        version: 1,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Document,
        has_excerpt: true,
        instructions: include_str!("coordinator.md"),
        guide: "",
        tools: TOOLS,
        delegates: &[DOCUMENT_PROFILE],
        limits: ProfileLimits { model_calls: 10, running_time: None, credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    }
}

const TOOLS: &[ProfileTool] = &[
    ProfileTool::runs(RUN_TASKS),
    ProfileTool::runs("get_ocr_text"),
    ProfileTool::runs("retrieve_documents"),
    ProfileTool::runs("list_prompts"),
    ProfileTool::runs("list_schemas"),
    ProfileTool::runs("list_tags"),
    ProfileTool::runs("get_schema"),
    ProfileTool::runs("get_prompt"),
    ProfileTool::waits("create_tag"),
];

#[cfg(test)]
mod tests {
    use folio_history::journal::Access;

    use super::*;
    use crate::Registry;

    #[test]
    fn every_call_that_writes_waits_except_the_start_of_tasks() {
        let coordinator = Registry::standard().unwrap().profile(COORDINATOR_PROFILE).unwrap();
        for spec in coordinator.specs() {
            let waits = profile().tool(spec.name).is_some_and(|tool| tool.waits);
            assert_eq!(waits, spec.access == Access::ReadWrite && spec.name != RUN_TASKS, "{}", spec.name);
        }
    }
}
