//! Answers of the offline model in a chat.

mod assistant;
mod create;
mod extraction;
mod history;
mod memory;
mod questions;
mod requests;

use crate::answer::Answer;
use crate::offline::reading::{self, Reading};
use crate::offline::view::SystemMessage;
use crate::request::ChatRequest;
use history::{Step, Steps};

pub(super) fn answer(request: &ChatRequest) -> Answer {
    if let Some(answer) = assistant::next(request).or_else(|| memory::summary(request)) {
        return answer;
    }
    if extraction::is_offered(request) {
        return extraction::next(request);
    }
    let context = Context::of(request);
    if let Some(rejected) = context.steps.rejected() {
        return Answer::text(format!(
            "You rejected `{}`, so I stopped there and changed nothing by it. Tell me what you want instead; I am an offline \
             model of fixed rules, so I cannot work out another way by myself.",
            rejected.tool
        ));
    }
    let message = request.user();
    if let Some(goal) = create::Goal::of(message, &context) {
        return create::next(&context, &goal);
    }
    requests::next(&context, message).unwrap_or_else(|| questions::answer(&context, message))
}

/// Input of a decision: the request, the parsed system message, the read document, the previous calls.
struct Context<'a> {
    request: &'a ChatRequest,
    view: SystemMessage,
    /// Text of the document. Empty if neither the system message nor a tool result contains it.
    text: String,
    reading: Reading,
    steps: Steps<'a>,
}

impl<'a> Context<'a> {
    fn of(request: &'a ChatRequest) -> Self {
        let view = SystemMessage::of(&request.system());
        let steps = Steps::of(request);
        let fetched = steps.last("get_ocr_text").and_then(Step::document_text);
        let text = view.text.clone().or(fetched).unwrap_or_default();
        let reading = reading::read(&text);
        Self { request, view, text, reading, steps }
    }

    /// Returns a noun phrase for the document.
    fn document_name(&self) -> String {
        self.view.file_name.clone().unwrap_or_else(|| "the document".to_owned())
    }

    fn offers(&self, tool: &str) -> bool {
        // Tools that are sent on request may be called at once.
        self.request.offers(tool) || self.request.offers("find_tools")
    }
}
