//! Uploads: `multipart/form-data`, and JSON with files in Base64.
//!
//! ```text
//! body ─ limits of transfers ─┬─ multipart parser ─────────────────────┬─ temporary files ─ UploadDocument ─ blob store
//!                             └─ temporary file ─ JSON parser, Base64 ─┘
//! ```
//!
//! A form may contain the file before its name and its tags, and JSON may contain several files that are stored together or not
//! at all. Therefore files are buffered on disk before the operation runs, and memory contains only chunks. The permits of
//! [`Spools`] bound the bytes on disk.

mod body;
mod json;
mod multipart;
mod spool;

use std::collections::BTreeMap;

use folio_operations::documents::Content;
use folio_types::Secret;

pub(crate) use body::Limits;
pub(crate) use json::{JsonUpload, decode_base64};
pub(crate) use multipart::MultipartUpload;
use spool::SpooledFile;
pub(crate) use spool::Spools;

/// Maximum number of files of a request.
const FILES_MAX: usize = 100;
/// Describes the member `auto_create` of a file in the OpenAPI document.
const AUTO_CREATE: &str = "True if an agent makes a proposal for the document when its text is read. A restricted token then \
    needs the scopes `definitions` and `extractions`, too. Default: the setting of the organization.";
/// Describes the member `credit_budget` of a file in the OpenAPI document.
const CREDIT_BUDGET: &str = "Credit that the model calls of the agent that makes the proposal may cost, in SPU: 1 to 1,000,000,000,000 \
    credits. Default: the bound of the server.";
/// Maximum size of the parts of a request that are not files.
const TEXT_BYTES: u64 = 4 * 1024 * 1024;

/// A received file with its description.
#[derive(Debug)]
pub(crate) struct UploadedFile {
    pub(crate) name: String,
    /// The ids of tags, as they were sent.
    pub(crate) tag_ids: Vec<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    /// True if an agent makes a proposal for the document. `None`: as the organization states.
    pub(crate) auto_create: Option<bool>,
    /// Credits that the model calls of the agent may cost. `None`: the setting of the server is the only bound.
    pub(crate) credit_budget: Option<u64>,
    /// The password of a protected PDF. `None`: the file is not protected.
    pub(crate) password: Option<Secret>,
    file: SpooledFile,
}

impl UploadedFile {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// Returns the bytes of the file, for [`folio_operations::documents::UploadDocument`].
    pub(crate) fn into_content(self) -> Content {
        self.file.into_content()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::process::Command;
    use std::time::Duration;

    use axum::body::Body;
    use bytes::Bytes;
    use folio_types::OrgId;
    use futures::{Stream, StreamExt as _, TryStreamExt as _};

    use super::*;
    use crate::options::Options;

    /// Set in the child process that measures.
    const MEASURES: &str = "FOLIO_TEST_MEASURES_UPLOADS";
    const FILE_BYTES: u64 = 48 * 1024 * 1024;
    /// Maximum memory that an upload adds, in KiB: chunks, and the buffers of the parsers and of the files.
    const MEMORY_KIB: u64 = 8 * 1024;

    /// Returns the largest resident memory of this process so far, in KiB.
    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }

    /// Returns a body with a start, `count` times the same chunk, and an end.
    fn body(start: String, chunk: Bytes, count: usize, end: &'static str) -> Body {
        let middle = futures::stream::iter(std::iter::repeat_n(chunk, count));
        let parts =
            futures::stream::iter([Bytes::from(start)]).chain(middle).chain(futures::stream::iter([Bytes::from(end)]));
        Body::from_stream(parts.map(Ok::<_, Infallible>))
    }

    async fn count(content: impl Stream<Item = folio_types::Result<Bytes>>) -> u64 {
        content.try_fold(0, |size, chunk| async move { Ok(size + chunk.len() as u64) }).await.unwrap()
    }

    /// Receives a file of this many chunks as a form and as JSON, and reads it.
    async fn receive(chunk: &Bytes, count_of_chunks: usize) {
        let limits =
            Limits { file_bytes: FILE_BYTES, idle: Duration::from_secs(60), lifetime: Duration::from_secs(600) };
        let (spools, org) = (Spools::new(&Options::default()), OrgId::derive(&["a"]));
        let bytes = (chunk.len() * count_of_chunks) as u64;

        let start = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n";
        let form = body(start.to_owned(), chunk.clone(), count_of_chunks, "\r\n--B--\r\n");
        let file = multipart::tests::receive_form(form, &org, limits, &spools).await;
        assert_eq!(count(file.into_content().into_stream()).await, bytes);

        let start = "{\"documents\": [{\"name\": \"a.txt\", \"content\": \"".to_owned();
        let body = body(start, chunk.clone(), count_of_chunks, "\"}]}");
        let files = json::tests::receive_json(body, &org, limits, &spools).await;
        assert_eq!(count(files.into_iter().next().unwrap().into_content().into_stream()).await, bytes / 4 * 3);
    }

    async fn measure() {
        let chunk = Bytes::from(vec![b'A'; 64 * 1024]);
        // The first files load the code, which counts as memory of the process, and start the threads.
        receive(&chunk, 16).await;
        let before = peak_kib();
        receive(&chunk, FILE_BYTES as usize / chunk.len()).await;
        let added = peak_kib().saturating_sub(before);
        assert!(added < MEMORY_KIB, "{added} KiB for a file of {} KiB", FILE_BYTES / 1024);
    }

    /// A process of its own measures, because the memory of other tests would count.
    #[tokio::test]
    async fn an_upload_occupies_the_memory_of_its_chunks_only() {
        if std::env::var_os(MEASURES).is_some() {
            return measure().await;
        }
        let name = "rest::upload::tests::an_upload_occupies_the_memory_of_its_chunks_only";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture"]).env(MEASURES, "1");
        let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
