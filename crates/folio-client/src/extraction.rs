//! Runs of prompts on one document and on many documents.

use folio_proto::v1;
use folio_types::Code;

use crate::connection::Client;
use crate::error::{Error, Result};
use crate::job::extraction_of;
use crate::turn::set_request_id;

impl Client {
    /// Runs a prompt on a document and returns the stored extraction. A long document, and a prompt that an agent runs, are extracted by
    /// a job; `progress` receives its states. A request without a `request_id` gets one.
    ///
    /// # Errors
    /// The server refuses the request, the job fails, or the connection is lost and cannot be restored.
    pub async fn extract(
        &self,
        mut request: v1::RunExtractionRequest,
        progress: impl FnMut(&v1::Job),
    ) -> Result<v1::Extraction> {
        set_request_id(&mut request.request_id);
        let started = self.repeat(|| {
            let (mut service, request) = (self.extractions(), request.clone());
            async move { service.run_extraction(request).await }
        });
        let v1::RunExtractionResponse { extraction, job } = started.await?;
        let Some(job) = job else { return present(extraction) };
        let extraction_id = extraction_of(&self.wait_for_job(&job.job_id, progress).await?)?;
        let request = v1::GetExtractionRequest { extraction_id };
        let found = self.repeat(|| {
            let (mut service, request) = (self.extractions(), request.clone());
            async move { service.get_extraction(request).await }
        });
        present(found.await?.extraction)
    }

    /// Starts a job that runs a prompt on documents. [`Client::wait_for_job`] waits for the job, and [`Client::list_job_items`] returns
    /// its results. A request without a `request_id` gets one.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn batch(&self, mut request: v1::RunExtractionsRequest) -> Result<v1::Job> {
        set_request_id(&mut request.request_id);
        let started = self.repeat(|| {
            let (mut service, request) = (self.extractions(), request.clone());
            async move { service.run_extractions(request).await }
        });
        present(started.await?.job)
    }
}

/// Returns a field of a response that the API guarantees.
///
/// # Errors
/// `Internal`: the field is missing.
pub(crate) fn present<T>(part: Option<T>) -> Result<T> {
    part.ok_or_else(|| Error::new(Code::Internal, "invalid response of the server: a required field is missing"))
}
