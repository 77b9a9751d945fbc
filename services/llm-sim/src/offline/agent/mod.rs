//! What the offline model does in a chat.

mod create;
mod history;
mod questions;
mod requests;

use crate::answer::Answer;
use crate::offline::reading::{self, Reading};
use crate::offline::view::View;
use crate::request::ChatRequest;
use history::{Step, Steps};

/// The one step that comes next.
pub(super) fn answer(request: &ChatRequest) -> Answer {
    let desk = Desk::of(request);
    if let Some(rejected) = desk.steps.rejected() {
        return Answer::text(format!(
            "You rejected `{}`, so I stopped there and changed nothing by it. Tell me what you want instead; I am an offline \
             model of fixed rules, so I cannot work out another way by myself.",
            rejected.tool
        ));
    }
    let said = request.user();
    if let Some(wish) = create::Wish::of(said, &desk) {
        return create::next(&desk, &wish);
    }
    requests::next(&desk, said).unwrap_or_else(|| questions::answer(&desk, said))
}

/// What lies before the model: the request, what the system message says, what was read, what was done.
struct Desk<'a> {
    request: &'a ChatRequest,
    view: View,
    /// The document's text, as much as is known.
    text: String,
    reading: Reading,
    steps: Steps<'a>,
}

impl<'a> Desk<'a> {
    fn of(request: &'a ChatRequest) -> Self {
        let view = View::of(&request.system());
        let steps = Steps::of(request);
        let fetched = steps.last("get_ocr_text").and_then(Step::document_text);
        let text = view.text.clone().or(fetched).unwrap_or_default();
        let reading = reading::read(&text);
        Self { request, view, text, reading, steps }
    }

    /// How the document is called in a sentence.
    fn document_name(&self) -> String {
        self.view.file_name.clone().unwrap_or_else(|| "the document".to_owned())
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.offers(tool)
    }
}
