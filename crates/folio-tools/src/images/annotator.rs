//! The tool `image_annotator`.

use async_trait::async_trait;
use folio_resources::{Document, IMAGE_ANNOTATIONS_MAX, ImageAnnotation, ImageId};
use folio_types::Reason;
use serde::Deserialize;
use serde_json::{Value, json};

use super::describe::{DescribeCall, SkipReason, describe, text_of};
use super::model_call::NEIGHBOR_CHARS;
use crate::arguments::{self, optional, required, text};
use crate::call::{ReadCall, read_tool};
use crate::subject::find;
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tool() -> Tool {
    let neighbor =
        "Text near the image that explains it, such as its caption, at most 2,000 characters. Default: none.";
    let tool = read_tool::<AnnotateImage>(
        "image_annotator",
        "Describes an image of a document with a model that sees it, and stores the description for searches. Call it for an image that \
         shows more than its text says, after pdf_outline returned its image_id. The server reads the image. Costs a model call; a stored \
         description is returned without one. Result: image_id, page, caption, steps, entities (names and labels in the image), model \
         (it wrote the description, which is data and may be wrong).",
        vec![
            required("image_id", text("Id from pdf_outline, such as doc_….….p2i1.")),
            optional("neighbor_text", text(neighbor)).or_blank(),
        ],
    );
    Tool { calls_models: true, ..tool }
}

#[derive(Deserialize)]
struct AnnotateImage {
    image_id: String,
    neighbor_text: Option<String>,
}

#[async_trait]
impl ReadCall for AnnotateImage {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let hint = "expected an image_id such as doc_….….p2i1; call pdf_outline to find it.";
        let id: ImageId = arguments::id("image_id", &self.image_id, hint)?;
        let document: Document = find(context, &id.text.document).await?;
        let text = text_of(&document)?;
        id.text.check_current(&document).map_err(|_| {
            let message = "is of an earlier text: the document was read again. Call pdf_outline for the current ids.";
            ToolError::ForModel(format!("image_id {id} {message}"))
        })?;
        let (resources, org) = (&context.resources, &document.org);
        let pages = resources.stores.texts.elements(org, document.id.as_str(), id.page, 1).await?;
        if !pages.iter().flat_map(|page| &page.images).any(|image| image.number == id.number) {
            let message = format!("image_id {id} does not exist. Call pdf_outline for the ids of images.");
            return Err(ToolError::ForModel(message));
        }
        let stored = resources.stores.image_annotations().list(org, &document.id, text).await?;
        if let Some(found) = stored.iter().find(|found| (found.page, found.number) == (id.page, id.number)) {
            return Ok(result(&id, found));
        }
        let skipped = |reason: SkipReason| {
            ToolError::ForModel(format!("The image is not described: {reason}. Continue without the description."))
        };
        if stored.len() >= IMAGE_ANNOTATIONS_MAX {
            return Err(skipped(SkipReason::TooMany));
        }
        let catalogue = resources.models.catalogue(org).await?;
        let model = catalogue.image_model().ok_or_else(|| skipped(SkipReason::NoModel))?;
        let neighbor: String = self.neighbor_text.unwrap_or_default().chars().take(NEIGHBOR_CHARS).collect();
        let call =
            DescribeCall { user: context.principal.user.clone(), key: format!("{}.{}", context.call, context.epoch) };
        let image = (id.page, id.number);
        let (described, _) = describe(resources, model, &call, (&document, text), image, &neighbor).await;
        match described {
            Ok(annotation) => Ok(result(&id, &annotation)),
            Err(error) if error.reason == Reason::UnsupportedType => Err(skipped(SkipReason::Format)),
            Err(error) => Err(match error.reason {
                Reason::ModelFailed
                | Reason::ModelTimeout
                | Reason::ModelRefused
                | Reason::ModelRateLimited
                | Reason::ModelUnavailable => ToolError::ForModel(format!(
                    "The image was not described: {}. The call can be repeated.",
                    error.message
                )),
                _ => error.into(),
            }),
        }
    }
}

fn result(id: &ImageId, annotation: &ImageAnnotation) -> Value {
    json!({
        "image_id": id.to_string(),
        "page": annotation.page,
        "caption": annotation.description.caption,
        "steps": annotation.description.steps,
        "entities": annotation.description.entities,
        "model": annotation.model,
    })
}
