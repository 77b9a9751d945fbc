//! Latency of lists and searches over many documents of one organization in CQL, on the server in `FOLIO_TEST_CQL` or
//! on a new one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use folio_resources::{Document, DocumentChange, DocumentFilter, NewDocument, Tag, TagChange};
use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_storage_embedded::EmbeddedStore;
use folio_types::op::{Expected, OpKey, Write, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{BlobId, CallId, Code, Digest, DocumentId, OrgId, TagId, ThreadId, Timestamp, TurnId, UserId};
use futures::stream::TryStreamExt as _;
use serde_json::{Map, Value, json};

use crate::format::{Aims, Percentiles};

/// Number of documents for which the latency goal is defined.
pub(crate) const DOCUMENTS: usize = 100_000;
/// Concurrent writes.
const WRITES: usize = 48;
/// Number of reads of each page.
const TIMES: usize = 300;
/// Latency goal: maximum 99th percentile of reading a page.
const AIM: Duration = Duration::from_millis(50);
/// One in `TAGGED` documents has the tag, and one in `RARE` has the rare city.
const TAGGED: usize = 50;
const RARE: usize = 97;

struct Fixture {
    stores: Stores,
    org: OrgId,
}

/// Writes `count` documents, and reads a page of each kind repeatedly.
pub(crate) async fn measure(count: usize) -> Result<()> {
    let servers = tokio::task::spawn_blocking(folio_test_servers::cql).await??;
    let contact_points = servers.split(',').map(str::to_owned).collect();
    let options = Options { keyspace: "folio_bench".into(), replication_factor: 1, ..Options::at(contact_points) };
    let folder = tempfile::tempdir()?;
    let embedded = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path()))?;
    let stores = CqlStore::open(options).await?.stores(embedded.stores().blobs);
    let fixture = Fixture { stores, org: OrgId::derive(&["bench lists", &Timestamp::now().to_string()]) };
    let begun = Instant::now();
    let tag = fixture.tag().await?;
    futures::stream::iter((0..count).map(Ok))
        .try_for_each_concurrent(WRITES, |number| fixture.document(number, &tag))
        .await?;
    let written = begun.elapsed();
    eprintln!("\n{count} documents written in {written:.1?} ({:.0}/s)", per_second(count, written));
    let mut aims = Aims::default();
    let measurements = fixture.measure(count, &tag, &mut aims).await?;
    let rate = per_second(count, written);
    println!(
        "{}",
        json!({ "documents": count, "written_per_second": rate, "lists": measurements, "missed": aims.missed() })
    );
    aims.finish()
}

fn per_second(count: usize, took: Duration) -> f64 {
    (count as f64 / took.as_secs_f64()).round()
}

impl Fixture {
    fn write<C>(&self, name: &str, change: C) -> Write<C> {
        let turn = TurnId::new(ThreadId::derive(&[name]), 1);
        Write {
            org: self.org.clone(),
            op: OpKey::Call(CallId::new(turn, 1, 1)),
            digest: Digest::of(name.as_bytes()),
            by: UserId::derive(&["user"]),
            at: Timestamp::now(),
            expected: Expected::Absent,
            change,
        }
    }

    async fn tag(&self) -> Result<TagId> {
        let id = TagId::derive(&[self.org.as_str()]);
        let change = TagChange::Create { name: "paid".to_owned(), color: None, description: None };
        self.stores.of::<Tag>().decide(&id, self.write("tag", change)).await?;
        Ok(id)
    }

    async fn document(&self, number: usize, tag: &TagId) -> Result<()> {
        let city = if number.is_multiple_of(RARE) { "Castrop-Rauxel" } else { "Berlin" };
        let new = NewDocument {
            tags: if number.is_multiple_of(TAGGED) { vec![tag.clone()] } else { vec![] },
            metadata: BTreeMap::from([("city".to_owned(), city.to_owned())]),
            ..NewDocument::file(format!("invoice-{number:06}.pdf"), "application/pdf", b"x", BlobId::derive(&["x"]))
        };
        let name = number.to_string();
        let (id, write) =
            (DocumentId::derive(&[self.org.as_str(), &name]), self.write(&name, DocumentChange::Create(new)));
        loop {
            match self.stores.of::<Document>().decide(&id, write.clone()).await {
                Ok(WriteOutcome::Row(_)) => return Ok(()),
                // The tag is contended, or the server is slow.
                Err(error) if matches!(error.code, Code::Aborted | Code::Unavailable) => {}
                other => anyhow::bail!("document {number}: {other:?}"),
            }
        }
    }

    async fn measure(&self, count: usize, tag: &TagId, aims: &mut Aims) -> Result<Map<String, Value>> {
        let all = DocumentFilter::default;
        let named = |part: &str| DocumentFilter { name_search: Some(part.to_owned()), ..all() };
        let in_city = |city: &str| DocumentFilter { metadata: [("city".into(), city.into())].into(), ..all() };
        let tagged = DocumentFilter { all_tags: vec![tag.clone()], ..all() };
        let one = format!("{:06}", count / 2);
        let mut measurements = Map::new();
        let title = format!("page of 50 (aim for p99: {AIM:?})");
        eprintln!("{title:<44}{:>10}{:>10}{:>10}{:>10}", "first", "p50", "p99", "total");
        for (what, filter, expected) in [
            ("newest", all(), Some(count)),
            ("a tag", tagged.clone(), Some(count.div_ceil(TAGGED))),
            ("a part of one name", named(&one), Some(1)),
            ("a part of every name", named("VOICE-"), None),
            ("a metadata value of some", in_city("castrop"), None),
            ("a metadata value of most", in_city("Berlin"), None),
            ("a tag and a metadata value", DocumentFilter { all_tags: tagged.all_tags, ..in_city("castrop") }, None),
        ] {
            let (mut times, mut total) = (Vec::new(), 0);
            for _ in 0..TIMES {
                let begun = Instant::now();
                let page = self.stores.of::<Document>().list(&self.org, &filter, &PageRequest::default()).await?;
                times.push(begun.elapsed());
                total = page.total;
                ensure!(!page.items.is_empty(), "{what}: nothing was found");
                ensure!(expected.is_none_or(|expected| total == expected as u64), "{what}: {total}");
            }
            let first = times[0];
            let Percentiles { p50, p99 } = Percentiles::of(times);
            let missed = aims.check(what, p99 < AIM);
            eprintln!("{what:<44}{:>10}{:>10}{:>10}{total:>10}{missed}", shown(first), shown(p50), shown(p99));
            let micros = |time: Duration| time.as_micros() as u64;
            let row =
                json!({ "first_us": micros(first), "p50_us": micros(p50), "p99_us": micros(p99), "total": total });
            measurements.insert(what.to_owned(), row);
        }
        Ok(measurements)
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
