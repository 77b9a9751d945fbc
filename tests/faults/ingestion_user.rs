//! A client that ingests documents, searches them, and deletes an organization.

use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;
use folio_proto::v1::organization_service_client::OrganizationServiceClient;
use folio_proto::v1::provider_service_client::ProviderServiceClient;
use folio_proto::v1::retrieval_service_client::RetrievalServiceClient;
use folio_types::Error;

use super::job_user::request_id;
use super::simulated_user::SimulatedUser;
use crate::harness::client::Client;
use crate::harness::tenant::Tenant;

impl SimulatedUser {
    /// Makes the organization compute vectors with a model.
    pub(super) async fn choose_embedding_model(&mut self, model: &str) -> Result<(), Error> {
        let request = v1::SetModelDefaultsRequest {
            embedding_model: Some(model.to_owned()),
            request_id: request_id("embedding", model),
            ..Default::default()
        };
        let call = |client: Client| {
            let request = request.clone();
            async move { ProviderServiceClient::new(client.channel).set_model_defaults(request).await }
        };
        self.retry(call).await.map(drop)
    }

    /// Starts an ingestion. Returns its job.
    pub(super) async fn start_ingestion(
        &mut self,
        documents: &[String],
        mode: v1::IngestionMode,
        name: &str,
    ) -> Result<String, Error> {
        let request = v1::StartIngestionRequest {
            document_ids: documents.to_vec(),
            mode: mode.into(),
            request_id: request_id("ingestion", name),
            ..Default::default()
        };
        let call = |client: Client| {
            let request = request.clone();
            async move { IngestionServiceClient::new(client.channel).start_ingestion(request).await }
        };
        Ok(self.retry(call).await?.into_inner().job.expect("a job").job_id)
    }

    pub(super) async fn search(&mut self, query: &str) -> Result<v1::SearchResponse, Error> {
        let request = v1::SearchRequest { query: query.to_owned(), limit: 50, ..Default::default() };
        let call = |client: Client| {
            let request = request.clone();
            async move { RetrievalServiceClient::new(client.channel).search(request).await }
        };
        Ok(self.retry(call).await?.into_inner())
    }

    /// Deletes an organization. The client has the token of a platform administrator.
    pub(super) async fn delete_organization(&mut self, tenant: &Tenant) -> Result<(), Error> {
        let request = v1::DeleteOrganizationRequest {
            organization_id: tenant.org.to_string(),
            name: tenant.marker.clone(),
            request_id: request_id("delete", tenant.org.as_str()),
        };
        let call = |client: Client| {
            let request = request.clone();
            async move { OrganizationServiceClient::new(client.channel).delete_organization(request).await }
        };
        self.retry(call).await.map(drop)
    }
}
