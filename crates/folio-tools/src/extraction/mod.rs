//! Extractions: the engine that runs a prompt on a document (used by the tool and by the API), the tools, and the tools of the
//! agent that writes an extraction step by step.

mod agent;
mod answer_size;
mod batch_tool;
mod check;
mod citation;
mod edit;
mod engine;
mod evidence;
mod examples;
mod job;
mod location;
mod merge;
mod message;
mod metered;
mod metered_stream;
mod model_evidence;
mod normalize;
mod options;
mod page_index;
mod quote;
pub(crate) mod rational;
mod result;
mod review;
mod rule;
mod run_tool;
mod schema_walk;
mod shared_location;
mod similar_proposal;
mod similarity;
mod summands;
mod tag_run;
mod update_field;
mod window_record;
mod windows;

pub use crate::document_text::check_ready;
pub use agent::{
    AGENT_JOB_KIND, AgentRunInput, PAGE_TEXT_TOOL, RunEnd, agent_model, end_run, new_agent_extraction,
    page_text_removed,
};
pub(crate) use agent::{
    CheckedQuotes, PageQuote, check_quotes, page_arguments, read_pages, stated_confidence, stated_quote,
};
pub use citation::{Cited, check_again, cite};
pub use edit::{apply_edit, check_replacement};
pub use engine::{Extracted, PlannedRun, Request, plan, run, unfenced};
pub use job::{ItemProgress, JOB_KIND, JobInput, agent_run_of_item, check_succeeded, run_job_item};
pub use message::marked;
pub use metered::complete_metered;
pub(crate) use metered::{Answer, metered};
pub use metered_stream::stream_metered;
pub use options::Options;
pub use quote::contains_quote;
pub use review::{check_review, plan_review};
pub use rule::check_rule;
pub use similar_proposal::SimilarPrompt;
pub(crate) use similar_proposal::similar_prompt;
pub(crate) use tag_run::{CauseState, STORED_WITHIN, cause_state};

use crate::tool::Tool;

pub(crate) fn tools() -> Vec<Tool> {
    let tools = vec![run_tool::tool(), batch_tool::tool(), result::tool(), update_field::tool()];
    tools.into_iter().chain(agent::tools()).collect()
}
