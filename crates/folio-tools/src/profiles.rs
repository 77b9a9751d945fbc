//! The profiles: one agent each.

use folio_types::limits;
use folio_types::profile::{DOCUMENT_PROFILE, DocumentCount, Profile};

pub(crate) fn all() -> Vec<Profile> {
    vec![document()]
}

/// The agent for conversations about one document.
fn document() -> Profile {
    Profile {
        name: DOCUMENT_PROFILE,
        documents: DocumentCount { min: 1, max: 1 },
        instructions: include_str!("profiles/document.md"),
        guide: include_str!("profiles/document_guide.md"),
        tools: DOCUMENT_TOOLS,
        tools_on_request: DOCUMENT_TOOLS_ON_REQUEST,
        rounds_max: limits::ROUNDS_MAX,
    }
}

const DOCUMENT_TOOLS: &[&str] = &[
    "get_ocr_text",
    "run_extraction",
    "get_extraction_result",
    "update_extraction_field",
    "run_extractions",
    "list_documents",
    "update_document",
    "delete_document",
    "create_schema",
    "get_schema",
    "list_schemas",
    "update_schema",
    "delete_schema",
    "validate_schema",
    "validate_against_schema",
    "create_prompt",
    "get_prompt",
    "list_prompts",
    "update_prompt",
    "delete_prompt",
    "create_tag",
    "get_tag",
    "list_tags",
    "update_tag",
    "delete_tag",
    "help_schemas",
    "help_prompts",
    "list_llm_models",
    "find_tools",
];

/// Rarely used tools, so that the tools of each request stay small.
const DOCUMENT_TOOLS_ON_REQUEST: &[&str] = &[
    "run_extractions",
    "list_documents",
    "update_document",
    "delete_document",
    "get_schema",
    "list_schemas",
    "delete_schema",
    "validate_against_schema",
    "get_prompt",
    "delete_prompt",
    "create_tag",
    "get_tag",
    "list_tags",
    "update_tag",
    "delete_tag",
    "list_llm_models",
];

#[cfg(test)]
mod tests {
    use folio_llm::schema::Rules;

    use super::*;

    #[test]
    fn the_example_of_the_guide_is_a_valid_schema() {
        let guide = document().guide;
        let example = guide.split("\n\n").find(|paragraph| paragraph.starts_with('{')).unwrap();
        let format: serde_json::Value = serde_json::from_str(example).unwrap();
        crate::rules::check_format("example", &format, Rules::Strict).unwrap();
        assert!(guide.len() < 2_000, "the guide is a part of each request: {} bytes", guide.len());
    }
}
