//! Serves `WebhookEndpointService`.

use folio_operations::webhook_endpoints::{
    CreateWebhookEndpoint, DeleteWebhookEndpoint, Delivery, DeliveryState, GetWebhookDelivery, GetWebhookEndpoint,
    ListWebhookDeliveries, ListWebhookEndpoints, RedeliverWebhook, TestWebhookEndpoint, UpdateWebhookEndpoint,
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

    change!(
        test_webhook_endpoint,
        TestWebhookEndpointRequest,
        TestWebhookEndpointResponse { webhook_delivery: delivery_to_proto },
        |request| TestWebhookEndpoint {
            webhook_endpoint_id: fields::id("webhook_endpoint_id", &request.webhook_endpoint_id)?
        }
    );

    list!(
        list_webhook_deliveries,
        ListWebhookDeliveriesRequest,
        ListWebhookDeliveries { webhook_endpoint_id },
        ListWebhookDeliveriesResponse { webhook_deliveries: delivery_to_proto }
    );

    get!(
        get_webhook_delivery,
        GetWebhookDeliveryRequest,
        GetWebhookDelivery { webhook_delivery_id },
        GetWebhookDeliveryResponse { webhook_delivery: delivery_to_proto }
    );

    change!(
        redeliver_webhook,
        RedeliverWebhookRequest,
        RedeliverWebhookResponse { webhook_delivery: delivery_to_proto },
        |request| RedeliverWebhook {
            webhook_delivery_id: fields::id("webhook_delivery_id", &request.webhook_delivery_id)?
        }
    );
}

fn delivery_to_proto(delivery: &Delivery) -> v1::WebhookDelivery {
    let state = match delivery.state() {
        DeliveryState::Pending => v1::WebhookDeliveryState::Pending,
        DeliveryState::Delivered => v1::WebhookDeliveryState::Delivered,
        DeliveryState::Failed => v1::WebhookDeliveryState::Failed,
    };
    let attempt = delivery.attempt.clone().unwrap_or_default();
    v1::WebhookDelivery {
        webhook_delivery_id: delivery.header.id.to_string(),
        webhook_endpoint_id: delivery.endpoint.to_string(),
        event_id: delivery.event.id.to_string(),
        event_type: delivery.event.name.clone(),
        // The size was checked when the delivery was created.
        body_json: delivery.event.body().unwrap_or_default(),
        state: state.into(),
        attempts: i32::try_from(delivery.attempts()).unwrap_or(i32::MAX),
        error: delivery.error().map(Into::into),
        status_code: attempt.status.map_or(0, i32::from),
        request_head: attempt.request_head,
        response_head: attempt.response_head,
        retry_time: delivery.retry_at().map(time::to_proto),
        create_time: Some(time::to_proto(delivery.header.created_at)),
        end_time: delivery.header.ended_at.map(time::to_proto),
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
        failing_since_time: endpoint.failing_since.map(time::to_proto),
        disabled_reason: endpoint.disabled_reason.clone().unwrap_or_default(),
    }
}
