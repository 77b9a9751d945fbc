//! Uploads: idempotency, refusals, and bounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use folio_documents::{NewUpload, Uploaded};
use folio_permits::Amount;
use folio_types::{Code, Reason, Result, TagId};

use super::*;

#[tokio::test]
async fn an_upload_is_stored_unchanged_with_its_detected_type() {
    let fixture = Fixture::new();
    let uploaded = fixture.upload(&fixture.uploader(None), "r1", "looks-like.txt", &sample_invoice()).await.unwrap();
    let document = uploaded.document;
    assert!(uploaded.created);
    assert_eq!((document.name.as_str(), document.media_type.as_str()), ("looks-like.txt", "application/pdf"));
    assert_eq!(document.size, sample_invoice().len() as u64);
    assert_eq!(document.sha256, Digest::of(&sample_invoice()).as_str());
    assert_eq!(document.state, TextState::Uploaded);
    assert_eq!(fixture.bytes(&document.blob_key()).await.unwrap(), sample_invoice());
}

#[tokio::test]
async fn a_repeated_request_gives_the_same_document_and_other_content_a_conflict() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let first = fixture.upload(&uploader, "r1", "a.txt", b"one").await.unwrap();
    let again = fixture.upload(&uploader, "r1", "a.txt", b"one").await.unwrap();
    assert_eq!((again.created, &again.document), (false, &first.document));
    for (name, content) in [("a.txt", b"two"), ("b.txt", b"one")] {
        let refused = fixture.upload(&uploader, "r1", name, content).await.unwrap_err();
        assert_eq!(refused.reason, Reason::RequestIdConflict);
    }
    assert_eq!(fixture.bytes(&first.document.blob_key()).await.unwrap(), b"one");
    let other = fixture.upload(&uploader, "r2", "a.txt", b"one").await.unwrap();
    assert_ne!(other.document.id, first.document.id);
}

#[tokio::test]
async fn a_refused_upload_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let large = vec![b'a'; 1024 * 1024 + 1];
    let cases: [(&str, &str, &[u8], Reason); 4] = [
        ("large", "a.txt", &large, Reason::TooLarge),
        ("program", "a.pdf", b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff", Reason::UnsupportedType),
        ("empty", "a.txt", b"", Reason::InvalidField),
        ("nameless", " ", b"text", Reason::InvalidField),
    ];
    for (request, name, content, reason) in cases {
        let refused = fixture.upload(&uploader, request, name, content).await.unwrap_err();
        assert_eq!(refused.reason, reason, "{request}");
        assert_nothing(&fixture, request).await;
    }
    // A client disconnects during an upload.
    let mut upload = uploader.begin(&fixture.principal, new_upload("left", "a.txt")).await.unwrap();
    upload.write(Bytes::from_static(b"half of it")).await.unwrap();
    drop(upload);
    assert_nothing(&fixture, "left").await;
    // A tag does not exist.
    let mut new = new_upload("tagged", "a.txt");
    new.tags = vec![TagId::generate(&*fixture.environment)];
    let mut upload = uploader.begin(&fixture.principal, new).await.unwrap();
    upload.write(Bytes::from_static(b"text")).await.unwrap();
    assert_eq!(upload.finish().await.unwrap_err().reason, Reason::NotFound);
    assert_nothing(&fixture, "tagged").await;
}

async fn assert_nothing(fixture: &Fixture, request: &str) {
    let principal = &fixture.principal;
    let id = DocumentId::derive(&["upload", principal.org.as_str(), principal.user.as_str(), request]);
    assert_eq!(fixture.stores().of::<Document>().get(&principal.org, &id).await.unwrap(), None, "{request}");
    assert_eq!(stored_files(fixture), Vec::<PathBuf>::new(), "{request}");
}

fn stored_files(fixture: &Fixture) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(&fixture.folder.path().join("data/blobs"), &mut files);
    files
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => walk(&path, files),
            false => files.push(path),
        }
    }
}

/// Uploads two files under one request id through two gateways at once, and returns both answers.
async fn upload_twice(fixture: &Fixture, request: &str, contents: [&'static [u8]; 2]) -> [Result<Uploaded>; 2] {
    let gateways = [fixture.uploader(None), fixture.uploader(None)];
    let [one, other] = [0, 1].map(|at| fixture.upload(&gateways[at], request, "a.txt", contents[at]));
    tokio::join!(one, other).into()
}

#[tokio::test]
async fn invariant_3_two_gateways_with_different_files_under_one_request_id_keep_the_bytes_of_the_document() {
    let fixture = Fixture::new();
    for number in 1..=20 {
        let contents: [&[u8]; 2] = [b"one", b"two"];
        let answers = upload_twice(&fixture, &format!("r{number}"), contents).await;
        let (stored, refused) = match answers {
            [Ok(stored), Err(refused)] => ((stored, contents[0]), refused),
            [Err(refused), Ok(stored)] => ((stored, contents[1]), refused),
            answers => panic!("{answers:?}"),
        };
        assert_eq!(refused.reason, Reason::RequestIdConflict);
        let (uploaded, content) = stored;
        assert!(uploaded.created);
        assert_eq!(fixture.bytes(&uploaded.document.blob_key()).await.as_deref(), Some(content));
        assert_eq!(stored_files(&fixture).len(), number, "each refused upload removes its bytes");
    }
}

#[tokio::test]
async fn invariant_3_two_gateways_with_one_file_under_one_request_id_create_one_document() {
    let fixture = Fixture::new();
    for number in 1..=20 {
        let [one, other] = upload_twice(&fixture, &format!("r{number}"), [b"one", b"one"]).await.map(Result::unwrap);
        assert_eq!(one.document, other.document);
        assert_ne!(one.created, other.created);
        assert_eq!(fixture.bytes(&one.document.blob_key()).await.unwrap(), b"one");
        assert_eq!(stored_files(&fixture).len(), number, "only the bytes of the document remain");
    }
}

#[tokio::test]
async fn metadata_and_tags_are_bounded() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let mut new = new_upload("r1", "a.txt");
    new.metadata = BTreeMap::from([("k".to_owned(), "v".repeat(2_000))]);
    assert!(uploader.begin(&fixture.principal, new).await.is_err_and(|error| error.reason == Reason::TooLarge));
}

#[tokio::test]
async fn invariant_10_active_uploads_are_bounded_and_release_their_permit_on_every_exit() {
    let fixture = Fixture::new();
    let options = Options { max_bytes: 1_000, uploads: 3, upload_bytes: 2_500, ..Options::default() };
    let uploader = fixture.uploader_within(None, &options);
    let begin = async |request: &str, size: Option<u64>| {
        uploader.begin(&fixture.principal, NewUpload { size, ..new_upload(request, "a.txt") }).await
    };
    // An upload without a declared size counts with the maximum size.
    let one = begin("r1", None).await.unwrap();
    let two = begin("r2", None).await.unwrap();
    let refused = begin("r3", Some(501)).await.err().unwrap();
    assert!(refused.code == Code::ResourceExhausted && refused.retry_after.is_some(), "{refused:?}");
    let mut three = begin("r3", Some(4)).await.unwrap();
    assert!(begin("r4", Some(1)).await.is_err_and(|error| error.reason == Reason::Overloaded));
    assert_eq!(uploader.active_uploads().load(), Amount { permits: 3, bytes: 2_004 });
    drop((one, two));
    three.write(Bytes::from_static(b"text")).await.unwrap();
    assert!(three.write(Bytes::from_static(b"more")).await.is_err_and(|error| error.reason == Reason::InvalidField));
    drop(three);
    let mut short = begin("r3", Some(4)).await.unwrap();
    short.write(Bytes::from_static(b"tex")).await.unwrap();
    assert_eq!(short.finish().await.unwrap_err().reason, Reason::InvalidField);
    assert_eq!(uploader.active_uploads().load(), Amount::default());
    assert!(begin("r5", Some(1_001)).await.is_err_and(|error| error.reason == Reason::TooLarge));
}
