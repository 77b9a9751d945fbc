//! Descriptions of the images of documents: a model with vision writes a caption, steps and entities, which are stored with the text
//! of the document. The tool `image_annotator` describes one image, and [`describe_images`] those of a document.

mod annotator;
mod describe;
mod model_call;
mod source;

pub use describe::{DescribeCall, DescribedImages, IMAGES_PER_RUN, SkipReason, describe_images, stored_summaries};
pub use model_call::IMAGE_OPERATION;
pub use source::{ImageSource, NoImages, ReadImage};

use crate::tool::Tool;

pub(crate) fn tools() -> Vec<Tool> {
    vec![annotator::tool()]
}
