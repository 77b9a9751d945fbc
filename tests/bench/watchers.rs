//! Effect of a tenant with many streams on a quiet one: latency of the quiet tenant's calls alone, and while another
//! tenant follows its pending approvals with as many streams as an organization may have.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use folio_proto::v1;
use folio_proto::v1::organization_service_client::OrganizationServiceClient;
use folio_tests::harness::client::Client;
use serde_json::{Value, json};

use crate::client::{request, together, upload};
use crate::fairness::millis;
use crate::format::{Aims, Percentiles};
use crate::process::{Folio, start_model};

/// Streams of the loud tenant, on two connections.
const STREAMS: usize = 2_000;
/// Pending turns of the loud tenant, which each of its streams reports.
const PENDING: usize = 20;
/// Maximum 99th percentile of a call of the quiet tenant while the other tenant has its streams, as a multiple of the
/// 99th percentile alone.
const AIM: f64 = 2.0;
const SCRIPT: &str = "rules:\n  - answer:\n      calls: [{name: create_tag, arguments: {name: '{{user}}'}}]\n";

/// Measures this number of calls of the quiet tenant.
pub(crate) async fn measure(calls: usize, aims: &mut Aims) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), SCRIPT)?;
    let folio = Folio::start(&endpoint.url(), &[("FOLIO_GATEWAY__LONG_CALLS_PER_USER", "2048")])?;
    let admin = folio.client().await;
    let mut tenants = Vec::new();
    for name in ["quiet", "loud"] {
        let organization = v1::Organization { name: name.to_owned(), ..v1::Organization::default() };
        let create = v1::CreateOrganizationRequest {
            organization: Some(organization),
            admin_name: name.to_owned(),
            ..v1::CreateOrganizationRequest::default()
        };
        let mut organizations = OrganizationServiceClient::new(admin.channel.clone());
        tenants.push(organizations.create_organization(create).await?.into_inner().admin_token);
    }
    let client = async |at: usize| Client::connect(&folio.process.url(), tenants.get(at).map(String::as_str)).await;
    let (quiet, loud) = (client(0).await, client(1).await);
    let document = upload(&loud).await;
    for number in 0..PENDING {
        let chat = request(&document, "", &format!("tag {number}"));
        let mut turn = loud.conversations.clone().chat(chat).await?.into_inner();
        while turn.message().await?.is_some() {}
    }
    let alone = times(&quiet, calls).await?;

    let mut streams = Vec::new();
    for _ in 0..2 {
        let client = client(1).await;
        for _ in 0..STREAMS / 2 {
            let mut conversations = client.conversations.clone();
            streams.push(async move {
                let watch = v1::WatchPendingApprovalsRequest::default();
                let mut stream = conversations.watch_pending_approvals(watch).await?.into_inner();
                for _ in 0..=PENDING {
                    stream.message().await?.context("a stream ended")?;
                }
                anyhow::Ok(stream)
            });
        }
    }
    // The streams stay open during the measurement.
    let streams = together(streams).await?;
    ensure!(streams.len() == STREAMS, "some streams were not opened");
    let watched = times(&quiet, calls).await?;
    drop(streams);

    eprintln!("\n{:<60}{:>10}{:>10}", "call of a quiet tenant", "p50", "p99");
    for (what, times) in [("alone", &alone), ("while another tenant has 2,000 streams", &watched)] {
        eprintln!("{what:<60}{:>7.1} ms{:>7.1} ms", millis(times.p50), millis(times.p99));
    }
    let ratio = millis(watched.p99) / millis(alone.p99);
    let missed = aims.check("99th percentile while another tenant has 2,000 streams", ratio <= AIM);
    eprintln!("99th percentile: {ratio:.2} times the one alone (aim: at most {AIM}){missed}");
    Ok(json!({
        "streams": STREAMS,
        "calls": calls,
        "alone_p99_ms": millis(alone.p99),
        "watched_p99_ms": millis(watched.p99),
        "aim_ratio": AIM,
    }))
}

/// Returns the latencies of sequential calls.
async fn times(client: &Client, calls: usize) -> Result<Percentiles> {
    let mut taken = Vec::new();
    for _ in 0..calls {
        let begun = Instant::now();
        client.tags.clone().list_tags(v1::ListTagsRequest::default()).await?;
        taken.push(begun.elapsed());
    }
    Ok(Percentiles::of(taken))
}
