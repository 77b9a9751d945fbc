//! The agent for conversations about one document. Every call that writes waits for a decision.

use folio_types::profile::{
    DOCUMENT_PROFILE, DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, SubjectKind,
};

pub(super) fn profile() -> Profile {
    Profile {
        name: DOCUMENT_PROFILE,
        version: 4,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Document,
        has_excerpt: true,
        instructions: include_str!("document.md"),
        guide: include_str!("document_guide.md"),
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits { model_calls: 10, running_time: None, credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    }
}

/// The tools of the usual work precede the others, in its order: a small model follows the order of the list. Tools that
/// change or read earlier work are not sent while there is none, and rarely used tools are sent on request.
pub(super) const TOOLS: &[ProfileTool] = &[
    ProfileTool::waits("create_schema"),
    ProfileTool::waits("create_prompt"),
    ProfileTool::waits("run_extraction"),
    ProfileTool::runs("get_ocr_text"),
    ProfileTool::runs("list_prompts"),
    ProfileTool::runs("find_tools"),
    ProfileTool::runs("get_extraction_result").with_work(),
    ProfileTool::waits("update_extraction_field").with_work(),
    ProfileTool::waits("update_schema").with_work(),
    ProfileTool::runs("validate_schema").with_work(),
    ProfileTool::waits("update_prompt").with_work(),
    ProfileTool::runs("help_schemas").with_work(),
    ProfileTool::runs("help_prompts").with_work(),
    ProfileTool::waits("run_extractions").on_request(),
    ProfileTool::runs("pdf_outline").on_request(),
    ProfileTool::runs("section_reader").on_request(),
    ProfileTool::runs("retrieve_documents").on_request(),
    ProfileTool::runs("image_annotator").on_request(),
    ProfileTool::runs("list_documents").on_request(),
    ProfileTool::waits("update_document").on_request(),
    ProfileTool::waits("delete_document").on_request(),
    ProfileTool::runs("get_schema").on_request(),
    ProfileTool::runs("list_schemas").on_request(),
    ProfileTool::waits("delete_schema").on_request(),
    ProfileTool::runs("validate_against_schema").on_request(),
    ProfileTool::runs("get_prompt").on_request(),
    ProfileTool::waits("delete_prompt").on_request(),
    ProfileTool::waits("create_tag").on_request(),
    ProfileTool::runs("get_tag").on_request(),
    ProfileTool::runs("list_tags").on_request(),
    ProfileTool::waits("update_tag").on_request(),
    ProfileTool::waits("delete_tag").on_request(),
    ProfileTool::runs("dictionary_lookup").on_request(),
    ProfileTool::waits("dictionary_upsert").on_request(),
    ProfileTool::runs("dictionary_suggest").on_request(),
    ProfileTool::runs("list_llm_models").on_request(),
    ProfileTool::runs("list_server_tools").on_request(),
    ProfileTool::runs("read_from_server").on_request(),
    ProfileTool::needs_rule("write_to_server").on_request(),
];

#[cfg(test)]
mod tests {
    use folio_history::journal::Access;
    use folio_llm::schema::Rules;

    use super::*;
    use crate::Registry;

    #[test]
    fn the_example_of_the_guide_is_a_valid_schema() {
        let guide = profile().guide;
        let example = guide.split("\n\n").find(|paragraph| paragraph.starts_with('{')).unwrap();
        let format: serde_json::Value = serde_json::from_str(example).unwrap();
        crate::rules::check_format("example", &format, Rules::Strict).unwrap();
        assert!(guide.len() < 2_000, "the guide is a part of each request: {} bytes", guide.len());
    }

    #[test]
    fn every_call_that_writes_waits() {
        let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        for spec in document.specs() {
            let waits = profile().tool(spec.name).is_some_and(|tool| tool.waits);
            assert_eq!(waits, spec.access == Access::ReadWrite, "{}", spec.name);
        }
    }
}
