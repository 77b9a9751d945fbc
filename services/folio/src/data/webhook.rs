//! `folio webhook`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use folio_proto::v1;
use folio_types::System;
use folio_webhooks::{EventType, generate_secret};
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, deleted, list_items, parsed, present, set_fields, time, update_mask};
use crate::client::{Client, answer};
use crate::progress::Progress;
use crate::secret_input;
use crate::terminal::note;

/// Maximum number of endpoints that a command reads: an organization has fewer.
const ENDPOINTS_READ: usize = 100;
/// Time between two reads of a test delivery, and the number of reads.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const POLLS: u32 = 60;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List webhook endpoints, newest first.
    List(List),
    /// Print a webhook endpoint without its secret.
    Show(Item),
    /// Create a webhook endpoint, and print the generated secret that signs its events.
    #[command(visible_alias = "add")]
    Create(Create),
    /// Change the URL, the types of events or the secret of a webhook endpoint.
    Update(Update),
    /// Send events to an endpoint, also if the server disabled it.
    Enable(Item),
    /// Send no events to an endpoint until it is enabled.
    Disable(Item),
    /// Delete a webhook endpoint.
    #[command(visible_alias = "delete")]
    Rm(Item),
    /// Send a test event to an endpoint, and print the result.
    Test(Item),
    /// List the deliveries to an endpoint, newest first.
    Deliveries(Deliveries),
    /// Print a delivery with the heads of its newest request and response.
    Delivery(DeliveryItem),
    /// Deliver the event of a delivery again.
    Redeliver(DeliveryItem),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    data: DataArguments,
}

/// The secret of an endpoint.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct SecretArguments {
    /// Read the secret from the terminal or standard input.
    #[arg(long)]
    secret: bool,
    /// Do not sign events.
    #[arg(long)]
    unsigned: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The URL.
    url: String,
    /// A type of events to send, such as document.ready. Repeat the option for several types. An unknown type causes a
    /// warning that lists the known ones.
    #[arg(long = "event", value_name = "TYPE", required = true)]
    events: Vec<String>,
    #[command(flatten)]
    secret: SecretArguments,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The id or the URL.
    #[arg(value_name = "ID or URL")]
    endpoint: String,
    /// The new URL.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The new types of events. Repeat the option for several types.
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    #[command(flatten)]
    secret: SecretArguments,
    #[command(flatten)]
    data: DataArguments,
}

/// An endpoint of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The id or the URL.
    #[arg(value_name = "ID or URL")]
    endpoint: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Deliveries {
    /// The id or the URL.
    #[arg(value_name = "ID or URL")]
    endpoint: String,
    /// Only pending deliveries.
    #[arg(long)]
    open: bool,
    /// Maximum number of deliveries.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

/// A delivery of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct DeliveryItem {
    /// The id of the delivery.
    #[arg(value_name = "ID")]
    delivery: String,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| all(&client).await).await,
        Command::Show(item) => item.data.run(async |client| show(&client, &item.endpoint).await).await,
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Update(update) => update.data.run(async |client| change(&client, &update).await).await,
        Command::Enable(item) => item.data.run(async |client| set_enabled(&client, &item.endpoint, true).await).await,
        Command::Disable(item) => item.data.run(async |client| set_enabled(&client, &item.endpoint, false).await).await,
        Command::Rm(item) => item.data.run(async |client| remove(&client, &item.endpoint).await).await,
        Command::Test(item) => item.data.run(async |client| test(&client, &item.endpoint).await).await,
        Command::Deliveries(list) => list.data.run(async |client| deliveries(&client, &list).await).await,
        Command::Delivery(item) => item.data.run(async |client| delivery(&client, &item.delivery).await).await,
        Command::Redeliver(item) => item.data.run(async |client| redeliver(&client, &item.delivery).await).await,
    }
}

async fn endpoints(client: &Client) -> Result<Vec<v1::WebhookEndpoint>> {
    list_items!(
        ENDPOINTS_READ, client.webhooks().list_webhook_endpoints(ListWebhookEndpointsRequest {}) => webhook_endpoints
    )
    .await
}

async fn all(client: &Client) -> Result<View> {
    let columns = ["webhook_endpoint_id", "url", "event_types", "state"];
    Ok(View::list(columns, endpoints(client).await?.iter().map(row).collect()))
}

async fn show(client: &Client, what: &str) -> Result<View> {
    Ok(View::one(row(&find(client, what).await?)))
}

/// Returns the endpoint that is named by id or URL.
async fn find(client: &Client, what: &str) -> Result<v1::WebhookEndpoint> {
    let is_named =
        |found: &v1::WebhookEndpoint| found.webhook_endpoint_id == what || found.url.eq_ignore_ascii_case(what);
    match endpoints(client).await?.into_iter().find(is_named) {
        Some(found) => Ok(found),
        None => bail!("no webhook endpoint has the id or the URL {what:?}"),
    }
}

async fn id(client: &Client, what: &str) -> Result<String> {
    Ok(find(client, what).await?.webhook_endpoint_id)
}

async fn make(client: &Client, create: &Create) -> Result<View> {
    let is_generated = !create.secret.secret && !create.secret.unsigned;
    let secret = match is_generated {
        true => generate_secret(&System).reveal().to_owned(),
        false => read_secret(&create.secret).await?,
    };
    let endpoint = v1::WebhookEndpoint {
        url: create.url.clone(),
        event_types: create.events.clone(),
        secret: secret.clone(),
        enabled: true,
        ..v1::WebhookEndpoint::default()
    };
    let request = v1::CreateWebhookEndpointRequest { webhook_endpoint: Some(endpoint), ..Default::default() };
    let made = answer(client.webhooks().create_webhook_endpoint(request)).await?.webhook_endpoint;
    warn_of_unknown(&create.events);
    let mut made = row(&present(made)?);
    if let Some(made) = made.as_object_mut().filter(|_| is_generated) {
        made.insert("secret".to_owned(), secret.into());
    }
    Ok(View::one(made))
}

/// Returns the secret that the user types. Empty: `--unsigned`.
async fn read_secret(secret: &SecretArguments) -> Result<String> {
    if secret.unsigned {
        return Ok(String::new());
    }
    let secret = secret_input::read("Secret of the endpoint: ").await?;
    ensure!(!secret.is_empty(), "the secret is empty: pass --unsigned to send unsigned events");
    Ok(secret)
}

async fn change(client: &Client, update: &Update) -> Result<View> {
    let fields = set_fields(&[
        ("url", update.url.is_some()),
        ("event_types", !update.events.is_empty()),
        ("secret", update.secret.secret || update.secret.unsigned),
    ]);
    ensure!(!fields.is_empty(), "nothing to change: pass --url, --event, --secret or --unsigned");
    let webhook_endpoint_id = id(client, &update.endpoint).await?;
    let secret = if fields.contains(&"secret") { read_secret(&update.secret).await? } else { String::new() };
    let endpoint = v1::WebhookEndpoint {
        webhook_endpoint_id,
        url: update.url.clone().unwrap_or_default(),
        event_types: update.events.clone(),
        secret,
        ..v1::WebhookEndpoint::default()
    };
    let changed = write(client, endpoint, &fields).await?;
    warn_of_unknown(&update.events);
    Ok(changed)
}

/// Prints a warning about the event types that this version does not know. The server accepts them.
fn warn_of_unknown(events: &[String]) {
    if let Some(warning) = unknown(events) {
        note(&warning);
    }
}

/// Returns a warning that names the event types that this version does not know. None: all are known.
fn unknown(events: &[String]) -> Option<String> {
    // Each endpoint receives its tests without naming their type.
    let types = EventType::ALL.iter().copied().filter(|event_type| *event_type != EventType::Test);
    let known: Vec<&str> = types.map(EventType::as_str).collect();
    let unknown: Vec<&str> = events.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    let warning = || format!("unknown event types: {}; known types: {}", unknown.join(", "), known.join(", "));
    (!unknown.is_empty()).then(warning)
}

async fn set_enabled(client: &Client, what: &str, enabled: bool) -> Result<View> {
    let webhook_endpoint_id = id(client, what).await?;
    let endpoint = v1::WebhookEndpoint { webhook_endpoint_id, enabled, ..v1::WebhookEndpoint::default() };
    write(client, endpoint, &["enabled"]).await
}

/// Changes the named fields of an endpoint, and returns the changed endpoint.
async fn write(client: &Client, endpoint: v1::WebhookEndpoint, fields: &[&str]) -> Result<View> {
    let request = v1::UpdateWebhookEndpointRequest {
        webhook_endpoint: Some(endpoint),
        update_mask: update_mask(fields),
        ..Default::default()
    };
    let changed = answer(client.webhooks().update_webhook_endpoint(request)).await?.webhook_endpoint;
    Ok(View::one(row(&present(changed)?)))
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let webhook_endpoint_id = id(client, what).await?;
    let request =
        v1::DeleteWebhookEndpointRequest { webhook_endpoint_id: webhook_endpoint_id.clone(), ..Default::default() };
    answer(client.webhooks().delete_webhook_endpoint(request)).await?;
    Ok(deleted(&webhook_endpoint_id))
}

/// Sends a test event and waits for the first attempt.
async fn test(client: &Client, what: &str) -> Result<View> {
    let request = v1::TestWebhookEndpointRequest { webhook_endpoint_id: id(client, what).await?, ..Default::default() };
    let sent = present(answer(client.webhooks().test_webhook_endpoint(request)).await?.webhook_delivery)?;
    let mut found = sent;
    let progress = Progress::stderr().line(what);
    progress.step("waiting for the first attempt");
    for _ in 0..POLLS {
        if found.attempts > 0 && (found.end_time.is_some() || found.error.is_some()) {
            break;
        }
        // The server sends no notification about a delivery.
        tokio::time::sleep(POLL_INTERVAL).await;
        found = read(client, &found.webhook_delivery_id).await?;
    }
    drop(progress);
    let view = View::one(delivery_row(&found));
    Ok(match found.state() {
        v1::WebhookDeliveryState::Delivered => view,
        _ => view.failing(failure(&found)),
    })
}

/// Returns the failure of a test event that was not delivered.
fn failure(delivery: &v1::WebhookDelivery) -> String {
    match problem(delivery) {
        "" => {
            let id = &delivery.webhook_delivery_id;
            format!("no attempt of the delivery {id} has ended: run `folio webhook delivery {id}` later")
        }
        problem => format!("the test event was not delivered: {problem}"),
    }
}

async fn deliveries(client: &Client, list: &Deliveries) -> Result<View> {
    let webhook_endpoint_id = &id(client, &list.endpoint).await?;
    let filter = if list.open { "open:true" } else { "" };
    let found = list_items! {
        list.limit, client.webhooks().list_webhook_deliveries(ListWebhookDeliveriesRequest {
            webhook_endpoint_id: webhook_endpoint_id.clone(), filter: filter.to_owned()
        }) => webhook_deliveries
    };
    let columns = ["webhook_delivery_id", "event_type", "state", "attempts", "error", "create_time"];
    Ok(View::list(columns, found.await?.iter().map(delivery_row).collect()))
}

async fn read(client: &Client, webhook_delivery_id: &str) -> Result<v1::WebhookDelivery> {
    let request = v1::GetWebhookDeliveryRequest { webhook_delivery_id: webhook_delivery_id.to_owned() };
    present(answer(client.webhooks().get_webhook_delivery(request)).await?.webhook_delivery)
}

async fn delivery(client: &Client, webhook_delivery_id: &str) -> Result<View> {
    Ok(View::one(delivery_row(&read(client, webhook_delivery_id).await?)))
}

async fn redeliver(client: &Client, webhook_delivery_id: &str) -> Result<View> {
    let request =
        v1::RedeliverWebhookRequest { webhook_delivery_id: webhook_delivery_id.to_owned(), ..Default::default() };
    let made = answer(client.webhooks().redeliver_webhook(request)).await?.webhook_delivery;
    Ok(View::one(delivery_row(&present(made).context("the event was not delivered again")?)))
}

fn row(endpoint: &v1::WebhookEndpoint) -> Value {
    json!({
        "webhook_endpoint_id": endpoint.webhook_endpoint_id, "url": endpoint.url, "event_types": endpoint.event_types,
        "state": state(endpoint), "has_secret": endpoint.has_secret, "created_by": endpoint.created_by,
        "failing_since_time": time(endpoint.failing_since_time.as_ref()),
        "create_time": time(endpoint.create_time.as_ref()), "update_time": time(endpoint.update_time.as_ref()),
        "etag": endpoint.etag,
    })
}

/// Returns the state of an endpoint for people.
fn state(endpoint: &v1::WebhookEndpoint) -> String {
    match (endpoint.enabled, endpoint.disabled_reason.as_str(), endpoint.failing_since_time.as_ref()) {
        (true, _, None) => "enabled".to_owned(),
        (true, _, Some(since)) => format!("failing since {since}"),
        (false, "", _) => "disabled".to_owned(),
        (false, reason, _) => format!("disabled by the server: {reason}"),
    }
}

fn delivery_row(delivery: &v1::WebhookDelivery) -> Value {
    json!({
        "webhook_delivery_id": delivery.webhook_delivery_id, "webhook_endpoint_id": delivery.webhook_endpoint_id,
        "event_id": delivery.event_id, "event_type": delivery.event_type, "body": parsed(&delivery.body_json),
        "state": word(delivery.state().as_str_name(), "WEBHOOK_DELIVERY_STATE_"), "attempts": delivery.attempts,
        "error": problem(delivery), "status_code": delivery.status_code, "request_head": delivery.request_head,
        "response_head": delivery.response_head, "retry_time": time(delivery.retry_time.as_ref()),
        "create_time": time(delivery.create_time.as_ref()), "end_time": time(delivery.end_time.as_ref()),
    })
}

/// Returns the error of a delivery. Empty: none.
fn problem(delivery: &v1::WebhookDelivery) -> &str {
    delivery.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_endpoint_names_the_reason_of_the_server() {
        let mut endpoint = v1::WebhookEndpoint { enabled: true, ..v1::WebhookEndpoint::default() };
        assert_eq!(row(&endpoint)["state"], "enabled");
        endpoint.failing_since_time = Some(prost_types::Timestamp { seconds: 1_790_000_000, nanos: 0 });
        assert_eq!(row(&endpoint)["state"], "failing since 2026-09-21T14:13:20Z");
        endpoint.enabled = false;
        assert_eq!(row(&endpoint)["state"], "disabled");
        endpoint.disabled_reason = "every delivery failed for 5 days".to_owned();
        assert_eq!(row(&endpoint)["state"], "disabled by the server: every delivery failed for 5 days");
    }

    #[test]
    fn unknown_event_types_are_named_with_the_known_ones() {
        let of = |names: &[&str]| unknown(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["document.ready", "batch.finished"]), None);
        let warning = of(&["document.redy", "turn.failed", "webhook.test"]).unwrap();
        assert!(warning.starts_with("unknown event types: document.redy, webhook.test; known types: "), "{warning}");
        assert!(warning.contains("document.ready, document.failed"), "{warning}");
        assert!(!warning.ends_with("webhook.test"), "{warning}");
    }

    #[test]
    fn a_row_of_a_delivery_states_its_error() {
        let error = v1::Error { message: "the endpoint returned 503".to_owned(), ..v1::Error::default() };
        let delivery = v1::WebhookDelivery {
            state: v1::WebhookDeliveryState::Pending.into(),
            body_json: r#"{"type":"document.ready"}"#.to_owned(),
            error: Some(error),
            attempts: 2,
            ..v1::WebhookDelivery::default()
        };
        let row = delivery_row(&delivery);
        assert_eq!((&row["state"], &row["error"]), (&json!("pending"), &json!("the endpoint returned 503")));
        assert_eq!(row["body"]["type"], "document.ready");
        assert_eq!(failure(&delivery), "the test event was not delivered: the endpoint returned 503");
        let waiting = v1::WebhookDelivery { webhook_delivery_id: "job_1".to_owned(), ..Default::default() };
        assert!(failure(&waiting).contains("folio webhook delivery job_1"), "{}", failure(&waiting));
    }
}
