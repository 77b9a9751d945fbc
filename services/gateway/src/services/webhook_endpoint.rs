//! Serves `WebhookEndpointService`.

use folio_operations::webhook_endpoints::{
    CreateWebhookEndpoint, DeleteWebhookEndpoint, GetWebhookEndpoint, ListWebhookEndpoints, UpdateWebhookEndpoint,
};
use folio_proto::{fields, time, v1};
use folio_resources::WebhookEndpoint;
use folio_types::{Etag, Secret};
use v1::webhook_endpoint_service_server::WebhookEndpointService;

use super::Api;
use super::handler::{change, delete, get, list};

#[tonic::async_trait]
impl WebhookEndpointService for Api {
    change!(
        create_webhook_endpoint,
        CreateWebhookEndpointRequest,
        CreateWebhookEndpointResponse { webhook_endpoint: to_proto },
        |request| {
            let endpoint = fields::required("webhook_endpoint", request.webhook_endpoint)?;
            CreateWebhookEndpoint {
                url: endpoint.url,
                event_types: endpoint.event_types,
                secret: Some(Secret::new(&endpoint.secret)),
                enabled: endpoint.enabled,
            }
        }
    );

    get!(
        get_webhook_endpoint,
        GetWebhookEndpointRequest,
        GetWebhookEndpoint { webhook_endpoint_id },
        GetWebhookEndpointResponse { webhook_endpoint: to_proto }
    );

    list!(
        list_webhook_endpoints,
        ListWebhookEndpointsRequest,
        ListWebhookEndpoints {},
        ListWebhookEndpointsResponse { webhook_endpoints: to_proto }
    );

    change!(
        update_webhook_endpoint,
        UpdateWebhookEndpointRequest,
        UpdateWebhookEndpointResponse { webhook_endpoint: to_proto },
        |request| {
            let endpoint = fields::required("webhook_endpoint", request.webhook_endpoint)?;
            let set = [
                ("url", !endpoint.url.is_empty()),
                ("event_types", !endpoint.event_types.is_empty()),
                ("secret", !endpoint.secret.is_empty()),
                ("enabled", endpoint.enabled),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            UpdateWebhookEndpoint {
                webhook_endpoint_id: fields::id("webhook_endpoint.webhook_endpoint_id", &endpoint.webhook_endpoint_id)?,
                etag: fields::etag("webhook_endpoint.etag", &endpoint.etag)?,
                url: mask.take("url", endpoint.url),
                event_types: mask.take("event_types", endpoint.event_types),
                secret: mask.take("secret", endpoint.secret.as_str()).map(Secret::new),
                enabled: mask.take("enabled", endpoint.enabled),
            }
        }
    );

    delete!(
        delete_webhook_endpoint,
        DeleteWebhookEndpointRequest,
        DeleteWebhookEndpoint { webhook_endpoint_id },
        DeleteWebhookEndpointResponse
    );
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
