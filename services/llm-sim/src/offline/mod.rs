//! The offline model: rules, no LLM.

use crate::answer::Answer;
use crate::brain::{Brain, Decision, Refusal};
use crate::request::ChatRequest;

/// The name under which the offline model is listed.
pub const MODEL: &str = "folio-offline";

/// The offline model.
#[derive(Debug, Default)]
pub struct OfflineModel(());

impl OfflineModel {
    /// The model. It keeps nothing between requests.
    pub fn new() -> Self {
        Self(())
    }
}

impl Brain for OfflineModel {
    fn decide(&self, _request: &ChatRequest, _number: u64) -> Result<Decision, Refusal> {
        Ok(Answer::text("I am an offline model that follows rules, no LLM.").into())
    }
}
