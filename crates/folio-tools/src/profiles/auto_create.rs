//! The agent that makes a proposal for an uploaded document. It has the tools of conversations about a document except those
//! that reach MCP servers or change the dictionary, and works unattended: no call waits unless a rule of the organization's policy requires an approval. [`crate::auto_create`] bounds
//! what its calls may change.

use std::sync::LazyLock;

use folio_types::profile::{
    AUTO_CREATE_PROFILE, DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, SubjectKind,
};

use super::document;
use crate::auto_create::Options;
use crate::{dictionary, mcp};

/// The running time and the credit budget of a turn are settings.
pub(super) fn profile(options: &Options) -> Profile {
    let (running_time, credit_budget) = (Some(options.running_time), options.credit_budget);
    Profile {
        name: AUTO_CREATE_PROFILE,
        version: 3,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Proposal,
        has_excerpt: true,
        instructions: include_str!("auto_create.md"),
        guide: include_str!("document_guide.md"),
        tools: &TOOLS,
        delegates: &[],
        limits: ProfileLimits { model_calls: 30, running_time, credit_budget },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: true,
    }
}

/// An effect outside of Folio or on other documents needs a person, and the text of a document could cause it.
static TOOLS: LazyLock<Vec<ProfileTool>> = LazyLock::new(|| {
    let own = document::TOOLS.iter().filter(|tool| !needs_person(tool.name));
    own.map(|tool| ProfileTool { waits: false, ..*tool }).collect()
});

fn needs_person(name: &str) -> bool {
    mcp::TOOLS.contains(&name) || name == dictionary::WRITE_TOOL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn the_agent_has_the_tools_of_conversations_that_need_no_person_and_no_call_waits() {
        let registry = Registry::standard().unwrap();
        let names = |profile: &str| {
            let tools = registry.profile(profile).unwrap();
            tools.specs().map(|spec| spec.name).collect::<Vec<_>>()
        };
        let mut own = names(folio_types::profile::DOCUMENT_PROFILE);
        own.retain(|name| !needs_person(name));
        assert_eq!(own.len() + mcp::TOOLS.len() + 1, document::TOOLS.len());
        assert_eq!(names(AUTO_CREATE_PROFILE), own);
        assert!(profile(&Options::default()).tools.iter().all(|tool| !tool.waits));
        let limited = profile(&Options { credit_budget: Some(7), ..Options::default() });
        assert_eq!(limited.limits.credit_budget, Some(7), "a setting");
    }
}
