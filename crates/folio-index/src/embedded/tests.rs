//! Damage, versions, memory, writers and the disk of the embedded index.

use std::collections::BTreeMap;
use std::fs;

use folio_testkit::wait_for;
use folio_types::TagId;

use super::*;
use crate::{Embedding, Filter, Gap, PartUse, Passage};

fn options() -> EmbeddedOptions {
    EmbeddedOptions { writer_idle: Duration::from_secs(3_600), ..EmbeddedOptions::default() }
}

const LIMIT: Duration = Duration::from_secs(30);

/// Opens an index. The task of an earlier value may still use the folder for a moment.
async fn open(root: &Path, options: EmbeddedOptions) -> EmbeddedIndex {
    let open = || async { EmbeddedIndex::open(root.to_owned(), options).ok() };
    wait_for("the folder is unlocked", LIMIT, open).await
}

fn org(name: &str) -> OrgId {
    OrgId::derive(&[name])
}

fn id(name: &str) -> DocumentId {
    DocumentId::derive(&[name])
}

fn passage(number: u32, text: &str, values: &[f32]) -> Passage {
    let vectors = vec![Embedding { space: "space".to_owned(), values: values.to_vec() }];
    Passage { number, text: text.to_owned(), vectors, ..Passage::default() }
}

fn document(name: &str, passages: Vec<Passage>) -> IndexedDocument {
    let tags = vec![TagId::derive(&["tag"])];
    IndexedDocument { document: id(name), generation: 1, tags, metadata: BTreeMap::new(), date: None, passages }
}

fn search(text: &str, values: &[f32]) -> Search {
    let vector = (!values.is_empty()).then(|| Embedding { space: "space".to_owned(), values: values.to_vec() });
    Search { text: text.to_owned(), vector, filter: Filter::default(), limit: 50 }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_folder_that_no_process_uses_is_abandoned() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!EmbeddedIndex::is_abandoned(folder.path(), Duration::ZERO), "a folder without an index");
    let index = open(folder.path(), options()).await;
    assert!(!EmbeddedIndex::is_abandoned(folder.path(), Duration::ZERO), "an open index");
    drop(index);
    let is_abandoned = || async { EmbeddedIndex::is_abandoned(folder.path(), Duration::ZERO).then_some(()) };
    wait_for("the end of the index", LIMIT, is_abandoned).await;
    assert!(!EmbeddedIndex::is_abandoned(folder.path(), Duration::from_secs(3_600)), "an index that was just opened");
    drop(open(folder.path(), options()).await);
}

async fn fill(index: &EmbeddedIndex, org: &OrgId, documents: Vec<IndexedDocument>) {
    if index.state(org).await.unwrap() == IndexState::Missing {
        index.begin_rebuild(org, 1).await.unwrap();
        index.finish_rebuild(org, 1).await.unwrap();
    }
    assert_eq!(index.upsert(org, documents).await.unwrap(), Written::Applied { stale: 0 });
}

/// Returns the largest file of a kind in the folder of an organization.
fn file(root: &Path, org: &OrgId, extension: &str) -> PathBuf {
    let entries = fs::read_dir(root.join(org.as_str()).join("segments")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let of_kind = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    of_kind.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_index_is_reported_and_rebuilt() {
    let root = tempfile::tempdir().unwrap();
    let damages: [fn(&Path, &OrgId); 6] = [
        |root, org| fs::write(root.join(org.as_str()).join("index.json"), "{").unwrap(),
        |root, org| fs::remove_file(root.join(org.as_str()).join("segments/meta.json")).unwrap(),
        |root, org| fs::write(root.join(org.as_str()).join("segments/meta.json"), "{}").unwrap(),
        |root, org| fs::remove_file(file(root, org, "term")).unwrap(),
        |root, org| {
            let path = file(root, org, "idx");
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        },
        |root, org| {
            let path = file(root, org, "store");
            let mut bytes = fs::read(&path).unwrap();
            bytes[3] ^= 0xff;
            fs::write(&path, bytes).unwrap();
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let org = org(&format!("damaged {number}"));
        let new = || vec![document("a", vec![passage(0, "alpha", &[1.0, 0.0])])];
        let index = open(root.path(), options()).await;
        fill(&index, &org, new()).await;
        drop(index);
        damage(root.path(), &org);
        let index = open(root.path(), options()).await;
        assert_eq!(index.state(&org).await.unwrap(), IndexState::Torn, "damage {number}");
        let answer = index.search(&org, &search("alpha", &[1.0, 0.0])).await.unwrap();
        assert_eq!(answer.lexical, PartUse { is_used: false, gaps: vec![Gap::State(IndexState::Torn)] });
        assert_eq!(index.upsert(&org, new()).await.unwrap(), Written::NotUsable(IndexState::Torn));
        index.begin_rebuild(&org, 1).await.unwrap();
        fill(&index, &org, new()).await;
        index.finish_rebuild(&org, 1).await.unwrap();
        assert_eq!(index.search(&org, &search("alpha", &[])).await.unwrap().hits.len(), 1, "damage {number}");
        assert_eq!(index.state(&org).await.unwrap(), IndexState::Ready);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_a_search_finds_is_recorded() {
    let (root, org) = (tempfile::tempdir().unwrap(), org("a"));
    let index = open(root.path(), options()).await;
    fill(&index, &org, vec![document("a", vec![passage(0, "alpha", &[1.0])])]).await;
    let failed = index.run(Kind::Read, &org, |_, _| -> Result<(), Failure> { panic!("a damaged file") }).await;
    assert_eq!(failed.unwrap(), Err(IndexState::Torn));
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Torn);
    drop(index);
    let index = open(root.path(), options()).await;
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Torn, "the state after a restart");
    index.delete_organization(&org).await.unwrap();
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Missing);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_another_version_is_reported() {
    let (root, org) = (tempfile::tempdir().unwrap(), org("a"));
    let index = open(root.path(), options()).await;
    fill(&index, &org, vec![document("a", vec![passage(0, "alpha", &[1.0])])]).await;
    drop(index);
    let path = root.path().join(org.as_str()).join("index.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"format\":1", "\"format\":0")).unwrap();
    let index = open(root.path(), options()).await;
    assert_eq!(index.state(&org).await.unwrap(), IndexState::OtherVersion);
    let answer = index.search(&org, &search("alpha", &[])).await.unwrap();
    assert_eq!(answer.lexical.gaps, [Gap::State(IndexState::OtherVersion)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_beyond_the_memory_are_named() {
    let (root, org, other) = (tempfile::tempdir().unwrap(), org("a"), org("b"));
    // A vector of four numbers uses 24 bytes.
    let index = open(root.path(), EmbeddedOptions { memory_bytes: 24 * 10, ..options() }).await;
    let many = |count: u32| (0..count).map(|number| passage(number, "alpha", &[1.0, 0.0, 0.0, 0.0])).collect();
    fill(&index, &org, vec![document("a", many(8))]).await;
    let both = search("alpha", &[1.0, 0.0, 0.0, 0.0]);
    let answer = index.search(&org, &both).await.unwrap();
    assert_eq!(answer.dense, PartUse { is_used: true, gaps: vec![] });
    assert_eq!(index.statistics(&org).await.unwrap().memory_bytes, 24 * 8);
    // The vectors of the other organization are evicted.
    fill(&index, &other, vec![document("a", many(9))]).await;
    assert_eq!(index.search(&other, &both).await.unwrap().dense.gaps, []);
    assert_eq!(index.statistics(&org).await.unwrap().memory_bytes, 0);
    fill(&index, &org, vec![document("b", many(20))]).await;
    let answer = index.search(&org, &both).await.unwrap();
    let dense: Vec<_> = answer.dense.gaps;
    assert!(matches!(dense[..], [Gap::Memory { passages: 20 | 28 }]), "{dense:?}");
    assert_eq!(answer.hits.len(), 28, "the lexical part is complete");
    assert_eq!(answer.lexical, PartUse { is_used: true, gaps: vec![] });
}

/// Returns true if a file of an organization contains these bytes.
fn is_on_disk(root: &Path, org: &OrgId, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(root.join(org.as_str()).join("segments")).unwrap();
    entries
        .filter_map(|entry| fs::read(entry.unwrap().path()).ok())
        .any(|file| file.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_passages_leave_the_disk_when_the_writer_closes() {
    let (root, org) = (tempfile::tempdir().unwrap(), org("a"));
    let index = open(root.path(), EmbeddedOptions { writer_idle: Duration::from_millis(100), ..options() }).await;
    let secret = passage(0, "confidential", &[0.6, 0.8]);
    let bytes: Vec<u8> = secret.vectors[0].unit().into_iter().flat_map(f32::to_le_bytes).collect();
    let public = passage(0, "public", &[1.0, 0.0]);
    fill(&index, &org, vec![document("a", vec![secret]), document("b", vec![public])]).await;
    assert!(is_on_disk(root.path(), &org, &bytes));
    index.delete_documents(&org, &[id("a")]).await.unwrap();
    wait_for("the passages are removed", LIMIT, || async {
        let deleted = index.statistics(&org).await.unwrap().deleted_passages;
        (deleted == 0 && !is_on_disk(root.path(), &org, &bytes)).then_some(())
    })
    .await;
    assert_eq!(index.search(&org, &search("public", &[1.0, 0.0])).await.unwrap().hits.len(), 1);
    let listed = index.documents(&org, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|listed| listed.document.clone()).collect::<Vec<_>>(), [id("b")]);
    let is_closed = || async { (index.shared.writers.load(Ordering::Relaxed) == 0).then_some(()) };
    wait_for("the writer is closed", LIMIT, is_closed).await;
    index.delete_organization(&org).await.unwrap();
    assert!(!root.path().join(org.as_str()).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_passages_leave_the_disk_although_their_index_is_no_longer_used() {
    let (root, org, other) = (tempfile::tempdir().unwrap(), org("a"), org("b"));
    let index = open(root.path(), EmbeddedOptions { readers_max: 1, writers_max: 1, ..options() }).await;
    let secret = passage(0, "confidential", &[0.6, 0.8]);
    let bytes: Vec<u8> = secret.vectors[0].unit().into_iter().flat_map(f32::to_le_bytes).collect();
    let public = passage(0, "public", &[1.0, 0.0]);
    fill(&index, &org, vec![document("a", vec![secret]), document("b", vec![public])]).await;
    index.delete_documents(&org, &[id("a")]).await.unwrap();
    // The first write of the other organization closes the writer, and the operations after it would close the index.
    fill(&index, &other, vec![document("a", vec![passage(0, "alpha", &[1.0])])]).await;
    let is_removed = || async { (!is_on_disk(root.path(), &org, &bytes)).then_some(()) };
    wait_for("the passages are removed", LIMIT, is_removed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_without_disk_space_is_incomplete_and_rebuilt_later() {
    let (root, org, other) = (tempfile::tempdir().unwrap(), org("a"), org("b"));
    let bounds = EmbeddedOptions { disk_bytes: 4 * 1024 * 1024, ..options() };
    let index = open(root.path(), bounds).await;
    fill(&index, &org, vec![document("a", vec![passage(0, "alpha", &[1.0])])]).await;
    let text = "beta ".repeat(2_000);
    let large = || vec![document("b", (0..200).map(|number| passage(number, &text, &[1.0])).collect())];
    let refused = index.upsert(&org, large()).await.unwrap_err();
    assert!(refused.reason == Reason::QuotaExceeded && refused.message.contains("index.disk_bytes"), "{refused}");
    let gap = [Gap::State(IndexState::Rebuilding)];
    let is_incomplete = async |index: &EmbeddedIndex| {
        let found = index.search(&org, &search("alpha", &[])).await.unwrap();
        assert_eq!((found.hits.len(), &found.lexical.gaps[..]), (1, &gap[..]));
        assert_eq!(index.state(&org).await.unwrap(), IndexState::Rebuilding);
    };
    is_incomplete(&index).await;
    assert_eq!(index.begin_rebuild(&org, 2).await.unwrap_err().reason, Reason::QuotaExceeded);
    is_incomplete(&index).await;
    // Small writes and those of others are accepted.
    fill(&index, &org, vec![document("c", vec![passage(0, "gamma", &[1.0])])]).await;
    fill(&index, &other, vec![document("a", vec![passage(0, "alpha", &[1.0])])]).await;
    assert_eq!(index.state(&other).await.unwrap(), IndexState::Ready);
    drop(index);
    let index = open(root.path(), bounds).await;
    is_incomplete(&index).await;
    // A refused write ends the rebuild in progress.
    index.begin_rebuild(&org, 3).await.unwrap();
    assert_eq!(index.upsert(&org, large()).await.unwrap_err().reason, Reason::QuotaExceeded);
    let finished = index.finish_rebuild(&org, 3).await.unwrap();
    assert_eq!(finished, Written::NotUsable(IndexState::Rebuilding));
    index.delete_organization(&org).await.unwrap();
    fill(&index, &org, vec![document("a", vec![passage(0, "alpha", &[1.0])])]).await;
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_readers_and_writers_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    let bounds = EmbeddedOptions { readers_max: 3, writers_max: 2, ..options() };
    let index = open(root.path(), bounds).await;
    for round in 0..2 {
        for number in 0..8 {
            let org = org(&format!("org {number}"));
            fill(&index, &org, vec![document(&format!("a {round}"), vec![passage(0, "alpha", &[1.0])])]).await;
            assert!(index.shared.writers.load(Ordering::Relaxed) <= 2);
            assert!(index.shared.tenants().by_org.len() <= 3);
        }
    }
    for number in 0..8 {
        let found = index.search(&org(&format!("org {number}")), &search("alpha", &[1.0])).await.unwrap();
        assert_eq!(found.hits.len(), 2);
    }
    assert_eq!(index.organizations().await.unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_beyond_the_queue_are_refused() {
    let (root, org) = (tempfile::tempdir().unwrap(), org("a"));
    let bounds = EmbeddedOptions { searches_max: 1, waiting_max: 0, ..options() };
    let index = open(root.path(), bounds).await;
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let blocked = index.run(Kind::Read, &org, move |_, _| {
        _ = receiver.recv();
        Ok(())
    });
    let refused = async {
        let is_taken = || async { (index.searches.load().permits == 1).then_some(()) };
        wait_for("the permit is taken", LIMIT, is_taken).await;
        let refused = index.search(&org, &search("alpha", &[])).await;
        drop(sender);
        refused.unwrap_err()
    };
    let (_, error) = tokio::join!(blocked, refused);
    assert_eq!(error.reason, Reason::Overloaded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_in_use_delays_writes_of_other_organizations_for_a_short_time_only() {
    let (root, org, other) = (tempfile::tempdir().unwrap(), org("a"), org("b"));
    let index = open(root.path(), options()).await;
    let new = || vec![document("a", vec![passage(0, "alpha", &[1.0])])];
    fill(&index, &org, new()).await;
    // Long maintenance of one organization.
    let (tenant, (end, ended), (start, started)) =
        (index.shared.tenant(&org), std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel());
    let maintenance = std::thread::spawn(move || {
        let _writer = tenant.writer.lock().unwrap();
        start.send(()).unwrap();
        _ = ended.recv();
    });
    started.recv().unwrap();
    let deleted = [id("a")];
    let both = async { tokio::join!(index.delete_documents(&org, &deleted), fill(&index, &other, new())) };
    let (refused, ()) = tokio::time::timeout(LIMIT, both).await.unwrap();
    assert_eq!(refused.unwrap_err().reason, Reason::Overloaded);
    drop(end);
    maintenance.join().unwrap();
    assert_eq!(index.delete_documents(&org, &deleted).await.unwrap(), Written::Applied { stale: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_process() {
    let root = tempfile::tempdir().unwrap();
    let index = open(root.path(), options()).await;
    let error = EmbeddedIndex::open(root.path().to_owned(), options()).err().unwrap();
    assert!(error.message.contains("another process"), "{error}");
    drop(index);
    let invalid = EmbeddedOptions { writes_max: 5, ..options() };
    assert!(EmbeddedIndex::open(root.path().to_owned(), invalid).is_err());
}

/// The order of quantized vectors is close to that of exact ones.
#[tokio::test(flavor = "multi_thread")]
async fn quantized_searches_find_most_of_the_nearest_passages() {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let mut vector = || (0..64).map(|_| random()).collect::<Vec<f32>>();
    let passages: Vec<_> = (0..2_000).map(|number| passage(number, "alpha", &vector())).collect();
    let queries: Vec<_> = (0..10).map(|_| vector()).collect();
    let mut found = Vec::new();
    for quantize_above in [u64::MAX, 100] {
        let root = tempfile::tempdir().unwrap();
        let index = open(root.path(), EmbeddedOptions { quantize_above, ..options() }).await;
        fill(&index, &org("a"), vec![document("a", passages.clone())]).await;
        let mut numbers = Vec::new();
        for query in &queries {
            let answer = index.search(&org("a"), &Search { limit: 10, ..search("", query) }).await.unwrap();
            numbers.push(answer.hits.iter().map(|hit| hit.number).collect::<Vec<_>>());
        }
        found.push(numbers);
    }
    let common: usize = found[0]
        .iter()
        .zip(&found[1])
        .map(|(exact, quantized)| exact.iter().filter(|number| quantized.contains(number)).count())
        .sum();
    assert!(common >= 85, "{common} of 100");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_free_space_passages_are_refused_and_deleted() {
    let (root, org) = (tempfile::tempdir().unwrap(), org("a"));
    let is_full = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let checked = Arc::clone(&is_full);
    let check: SpaceCheck = Arc::new(move || match checked.load(Ordering::SeqCst) {
        true => Err(Error::exhausted(Reason::Overloaded, "the disk has too little free space")),
        false => Ok(()),
    });
    let index = open(root.path(), options()).await.with_space_check(check);
    let text = |name: &str| document(name, vec![passage(0, "alpha", &[1.0])]);
    fill(&index, &org, vec![text("a"), text("b")]).await;
    is_full.store(true, Ordering::SeqCst);
    let refused = |error: Error| assert_eq!(error.reason, Reason::Overloaded, "{error}");
    refused(index.upsert(&org, vec![text("c")]).await.unwrap_err());
    refused(index.begin_rebuild(&org, 2).await.unwrap_err());
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Ready);
    let without_passages = IndexedDocument { generation: 2, ..document("b", Vec::new()) };
    assert_eq!(index.upsert(&org, vec![without_passages]).await.unwrap(), Written::Applied { stale: 0 });
    assert_eq!(index.search(&org, &search("alpha", &[1.0])).await.unwrap().hits.len(), 1);
    assert_eq!(index.delete_documents(&org, &[id("a")]).await.unwrap(), Written::Applied { stale: 0 });
    assert!(index.search(&org, &search("alpha", &[1.0])).await.unwrap().hits.is_empty());
    is_full.store(false, Ordering::SeqCst);
    fill(&index, &org, vec![text("c")]).await;
    is_full.store(true, Ordering::SeqCst);
    index.delete_organization(&org).await.unwrap();
}
