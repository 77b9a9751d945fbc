//! Images for models: checked and encoded again in the confined child process, so that no model receives the bytes or the metadata of
//! a user's file.

use std::path::Path;

use bytes::Bytes;
use folio_types::{Error, Reason, Result, limits};

use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::options::Options;
use crate::reader;
use crate::worker::{Job, Line, Task};

/// Media type of an image for models.
pub const MODEL_IMAGE_TYPE: &str = "image/jpeg";
/// Maximum length of the first line of a child's output.
const LINE_BYTES: u64 = 4 * 1024;
const MAX_BYTES: u64 = limits::MODEL_IMAGE_BYTES as u64;

/// An image of the type [`MODEL_IMAGE_TYPE`] within [`limits::MODEL_IMAGE_BYTES`] and [`limits::MODEL_IMAGE_PIXELS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelImage {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    pub bytes: Bytes,
}

/// Makes the image for models of a PNG, JPEG or WebP file. `folder` is for temporary files. `field`: the field of a request that errors
/// name.
///
/// # Errors
/// `INVALID_FIELD` if the file is no such image, or its limits of memory and time are exceeded. `OVERLOADED` if the child process
/// cannot be started.
pub(crate) async fn model_image(options: &Options, folder: &Path, file: &Path, field: &str) -> Result<ModelImage> {
    let children = ChildProcesses::new(options.worker.clone(), folder.to_owned());
    let job = Job::ModelImage { max_pixels: limits::MODEL_IMAGE_PIXELS, max_bytes: MAX_BYTES };
    let task = Task { cpu_seconds: options.page_image_seconds, ..reader::task(options, job) };
    let files = Files { input: Some(file), ..Files::default() };
    let refused = |reason: String| Error::invalid_field(field, format!("the image cannot be read: {reason}"));
    let output = match children.run(&task, files, options.page_image_timeout(), MAX_BYTES + LINE_BYTES).await {
        Ok(output) => output,
        Err(error @ ChildError::Start(_)) => {
            return Err(Error::unavailable(Reason::Overloaded, error.to_string()));
        }
        Err(error) => return Err(refused(error.to_string())),
    };
    let mut parts = output.splitn(2, |byte| *byte == b'\n');
    let (line, bytes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match serde_json::from_slice(line) {
        Ok(Line::ModelImage { width, height }) if !bytes.is_empty() => {
            Ok(ModelImage { width, height, bytes: Bytes::copy_from_slice(bytes) })
        }
        Ok(Line::Refused { reason }) => Err(refused(reason)),
        _ => Err(refused("the process that reads images failed".to_owned())),
    }
}
