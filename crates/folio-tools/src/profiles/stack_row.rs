//! The agent that fills the row of one document of a stack. It works unattended: it cannot change columns, and no call reaches
//! the row of another document.

use std::time::Duration;

use folio_types::profile::{
    DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, STACK_ROW_PROFILE, SubjectKind,
};

pub(super) fn profile() -> Profile {
    Profile {
        name: STACK_ROW_PROFILE,
        version: 1,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Stack,
        has_excerpt: false,
        instructions: include_str!("stack_row.md"),
        guide: "",
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits {
            model_calls: 30,
            running_time: Some(Duration::from_secs(10 * 60)),
            credit_budget: None,
        },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    }
}

const TOOLS: &[ProfileTool] = &[
    ProfileTool::runs("get_table_state"),
    ProfileTool::runs("get_document_text"),
    ProfileTool::runs("extract_row"),
    ProfileTool::runs("update_cell"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn no_call_waits_and_no_tool_changes_the_columns() {
        let row = Registry::standard().unwrap().profile(STACK_ROW_PROFILE).unwrap();
        assert!(row.profile.tools.iter().all(|tool| !tool.waits));
        assert!(row.get("define_columns").is_none() && row.get("complete_table").is_none());
    }
}
