//! The agent that defines and fills the table of a stack with a person. The columns wait for the approval of the person.

use folio_types::profile::{
    DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, STACK_PROFILE, SubjectKind,
};

pub(super) fn profile() -> Profile {
    Profile {
        name: STACK_PROFILE,
        version: 1,
        documents: DocumentRule { min: 0, max: 0, media_types: &[] },
        subject: SubjectKind::Stack,
        // The agent reads texts with a tool.
        has_excerpt: false,
        instructions: include_str!("stack.md"),
        guide: "",
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits { model_calls: 50, running_time: None, credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    }
}

const TOOLS: &[ProfileTool] = &[
    ProfileTool::runs("list_documents"),
    ProfileTool::runs("get_document_text"),
    ProfileTool::waits("define_columns"),
    ProfileTool::runs("extract_row"),
    ProfileTool::runs("update_cell"),
    ProfileTool::runs("get_table_state"),
    ProfileTool::runs("complete_table"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn only_the_columns_wait_and_no_argument_names_a_stack() {
        let stack = Registry::standard().unwrap().profile(STACK_PROFILE).unwrap();
        assert_eq!(stack.specs().count(), TOOLS.len());
        for spec in stack.specs() {
            let waits = profile().tool(spec.name).is_some_and(|tool| tool.waits);
            assert_eq!(waits, spec.name == "define_columns", "{}", spec.name);
            let properties = spec.parameters["properties"].as_object().unwrap();
            assert!(properties.keys().all(|name| !name.ends_with("_id") || name == "document_id"), "{}", spec.name);
        }
        let text = stack.get("get_document_text").unwrap();
        assert!(text.spec.parameters["required"].as_array().unwrap().contains(&"document_id".into()));
    }
}
