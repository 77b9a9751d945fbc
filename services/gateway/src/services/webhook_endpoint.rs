//! WebhookEndpointService.

use folio_operations::webhook_endpoints::{
    CreateWebhookEndpoint, DeleteWebhookEndpoint, GetWebhookEndpoint, ListWebhookEndpoints, UpdateWebhookEndpoint,
};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, time, v1};
use folio_resources::WebhookEndpoint;
use folio_types::{Etag, Secret};
use tonic::Request;
use v1::webhook_endpoint_service_server::WebhookEndpointService;

use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl WebhookEndpointService for Api {
    async fn create_webhook_endpoint(
        &self,
        request: Request<v1::CreateWebhookEndpointRequest>,
    ) -> Reply<v1::CreateWebhookEndpointResponse> {
        let call = |request: v1::CreateWebhookEndpointRequest| {
            let endpoint = fields::required("webhook_endpoint", request.webhook_endpoint)?;
            let operation = CreateWebhookEndpoint {
                url: endpoint.url,
                event_types: endpoint.event_types,
                secret: Some(Secret::new(&endpoint.secret)),
                enabled: endpoint.enabled,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |created| v1::CreateWebhookEndpointResponse { webhook_endpoint: Some(to_proto(&created)) };
        self.call(request, call, response).await
    }

    async fn get_webhook_endpoint(
        &self,
        request: Request<v1::GetWebhookEndpointRequest>,
    ) -> Reply<v1::GetWebhookEndpointResponse> {
        let call = |request: v1::GetWebhookEndpointRequest| {
            let webhook_endpoint_id = fields::id("webhook_endpoint_id", &request.webhook_endpoint_id)?;
            Ok(Call::new(GetWebhookEndpoint { webhook_endpoint_id }))
        };
        let response = |found| v1::GetWebhookEndpointResponse { webhook_endpoint: Some(to_proto(&found)) };
        self.call(request, call, response).await
    }

    async fn list_webhook_endpoints(
        &self,
        request: Request<v1::ListWebhookEndpointsRequest>,
    ) -> Reply<v1::ListWebhookEndpointsResponse> {
        let call = |request: v1::ListWebhookEndpointsRequest| {
            Ok(Call::new(ListWebhookEndpoints { list: list_request!(request) }))
        };
        let response = |page: ListPage<WebhookEndpoint>| v1::ListWebhookEndpointsResponse {
            webhook_endpoints: page.items.iter().map(to_proto).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_webhook_endpoint(
        &self,
        request: Request<v1::UpdateWebhookEndpointRequest>,
    ) -> Reply<v1::UpdateWebhookEndpointResponse> {
        let call = |request: v1::UpdateWebhookEndpointRequest| {
            let endpoint = fields::required("webhook_endpoint", request.webhook_endpoint)?;
            let set = [
                ("url", !endpoint.url.is_empty()),
                ("event_types", !endpoint.event_types.is_empty()),
                ("secret", !endpoint.secret.is_empty()),
                ("enabled", endpoint.enabled),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let operation = UpdateWebhookEndpoint {
                webhook_endpoint_id: fields::id("webhook_endpoint.webhook_endpoint_id", &endpoint.webhook_endpoint_id)?,
                etag: fields::etag("webhook_endpoint.etag", &endpoint.etag)?,
                url: mask.take("url", endpoint.url),
                event_types: mask.take("event_types", endpoint.event_types),
                secret: mask.take("secret", endpoint.secret.as_str()).map(Secret::new),
                enabled: mask.take("enabled", endpoint.enabled),
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |updated| v1::UpdateWebhookEndpointResponse { webhook_endpoint: Some(to_proto(&updated)) };
        self.call(request, call, response).await
    }

    async fn delete_webhook_endpoint(
        &self,
        request: Request<v1::DeleteWebhookEndpointRequest>,
    ) -> Reply<v1::DeleteWebhookEndpointResponse> {
        let call = |request: v1::DeleteWebhookEndpointRequest| {
            let webhook_endpoint_id = fields::id("webhook_endpoint_id", &request.webhook_endpoint_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            let operation = DeleteWebhookEndpoint { webhook_endpoint_id, etag };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |()| v1::DeleteWebhookEndpointResponse {}).await
    }
}

/// Converts an endpoint, without its secret.
fn to_proto(endpoint: &WebhookEndpoint) -> v1::WebhookEndpoint {
    v1::WebhookEndpoint {
        webhook_endpoint_id: endpoint.id.to_string(),
        url: endpoint.url.clone(),
        event_types: endpoint.event_types.iter().cloned().collect(),
        secret: String::new(),
        has_secret: endpoint.secret.is_some(),
        enabled: endpoint.enabled,
        created_by: endpoint.created_by.to_string(),
        create_time: Some(time::to_proto(endpoint.created_at)),
        update_time: Some(time::to_proto(endpoint.updated_at)),
        etag: Etag::new(endpoint.version).to_string(),
    }
}
