//! The agent that reads a document and writes one extraction. It works unattended, so no call waits unless a rule of the
//! organization's policy requires an approval.

use std::time::Duration;

use folio_types::profile::{
    DocumentRule, EXTRACTION_PROFILE, Profile, ProfileAnswer, ProfileLimits, ProfileTool, SubjectKind,
};

pub(super) fn profile() -> Profile {
    Profile {
        name: EXTRACTION_PROFILE,
        version: 1,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Extraction,
        // The agent reads the text with a tool.
        has_excerpt: false,
        instructions: include_str!("extraction.md"),
        guide: "",
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits {
            model_calls: 50,
            running_time: Some(Duration::from_secs(15 * 60)),
            credit_budget: None,
        },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    }
}

const TOOLS: &[ProfileTool] = &[
    ProfileTool::runs("get_document_text"),
    ProfileTool::runs("get_current_extraction"),
    ProfileTool::runs("identify_document"),
    ProfileTool::runs("extract_fields"),
    ProfileTool::runs("update_field"),
    ProfileTool::runs("remove_field"),
    ProfileTool::runs("complete_extraction"),
];

#[cfg(test)]
mod tests {
    use folio_types::profile::Sending;

    use super::*;
    use crate::Registry;

    #[test]
    fn no_call_waits_and_no_argument_names_a_resource() {
        let extraction = Registry::standard().unwrap().profile(EXTRACTION_PROFILE).unwrap();
        assert!(extraction.profile.tools.iter().all(|tool| !tool.waits && tool.sending == Sending::Always));
        for spec in extraction.specs() {
            let properties = spec.parameters["properties"].as_object().unwrap();
            assert!(properties.keys().all(|name| !name.ends_with("_id") && !name.ends_with("_revid")), "{}", spec.name);
        }
    }

    #[test]
    fn the_example_of_extract_fields_is_a_valid_call() {
        let extraction = Registry::standard().unwrap().profile(EXTRACTION_PROFILE).unwrap();
        let description = extraction.get("extract_fields").unwrap().spec.description;
        let example = description.split_once("Example: ").unwrap().1.split_once(". Result").unwrap().0;
        let checked = extraction.check("extract_fields", example);
        assert_eq!((checked.problem, checked.repairs), (None, Vec::new()), "{example}");
    }
}
