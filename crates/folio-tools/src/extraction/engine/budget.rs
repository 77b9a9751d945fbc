//! The token budget of a model call, its maximum price, and the schema of an answer.

use folio_llm::{MESSAGE_OVERHEAD_TOKENS, count_tokens};
use folio_metering::MeteredCall;
use serde_json::Value;

use super::super::message::{self, Position};
use super::super::model_evidence;
use super::{ATTEMPTS, Run};

/// Tokens of the context that are reserved for the violations of the first answer.
const CORRECTION_TOKENS: u64 = 1_500;
/// Position with the longest text.
const LAST_POSITION: Position = Position { window: 64, windows: 64, first_page: 100_000, last_page: 100_000 };

/// Token budget of a model call.
pub(super) struct Budget {
    /// Text of a window.
    pub(super) text: u64,
    pub(super) answer: u64,
    /// Part of the first answer that the correction call repeats.
    pub(super) first_answer: u64,
    pub(super) schema: u64,
    /// System message, instructions, and separators of the messages.
    overhead: u64,
}

impl Run<'_> {
    /// Divides the model's context.
    pub(super) fn budget(&self) -> Budget {
        let context = u64::from(self.model.options.context_tokens);
        let output = u64::from(self.model.options.max_output_tokens);
        let (answer, first_answer) = (output.min(context / 2), output.min(context / 8));
        let schema = self.schema.as_ref().map_or(0, |schema| count_tokens(&schema.response_format.to_string()));
        let evidence = self.extended_schema().map(|_| {
            count_tokens(&model_evidence::member_schema().to_string()) + count_tokens(model_evidence::INSTRUCTIONS)
        });
        let schema = schema + evidence.unwrap_or_default();
        let overhead = count_tokens(message::SYSTEM)
            + count_tokens(&message::user(&self.prompt.content, &self.document.name, Some(LAST_POSITION), ""))
            + 4 * MESSAGE_OVERHEAD_TOKENS;
        let reserved = answer + first_answer + CORRECTION_TOKENS + schema + overhead;
        Budget { text: context.saturating_sub(reserved), answer, first_answer, schema, overhead }
    }

    /// Returns the schema of an answer with quotes and confidences. None: the model or the schema does not permit them.
    pub(super) fn extended_schema(&self) -> Option<Value> {
        let schema = self.schema.as_ref().filter(|_| self.model.options.evidence)?.schema()?;
        model_evidence::extended(schema)
    }

    /// Returns the maximum price of the calls for a text: the first call and the correction.
    pub(super) fn max_price(&self, budget: &Budget, text_tokens: u64) -> u64 {
        let input_tokens = text_tokens.saturating_add(budget.overhead).saturating_add(budget.schema);
        let call = self.metered_call(String::new(), input_tokens, budget.answer);
        self.resources.meter.max_price(&call).saturating_mul(u64::from(ATTEMPTS))
    }

    pub(super) fn metered_call(&self, key: String, input_tokens: u64, max_output_tokens: u64) -> MeteredCall {
        MeteredCall {
            org: self.request.principal.org.clone(),
            user: self.request.principal.user.clone(),
            key,
            // The model calls of a job are a batch.
            operation: if self.request.steps.is_some() { "batch" } else { "extraction" },
            model: self.model.name.clone(),
            prices: self.model.prices(),
            document: Some(self.document.id.clone()),
            input_tokens,
            max_output_tokens,
        }
    }
}
