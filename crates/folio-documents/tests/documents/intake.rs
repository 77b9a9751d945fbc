//! Documents of attachments and of members of archives.

use std::io::{Cursor, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_documents::{Ingestor, NewUpload, TextReader, Uploader};
use folio_quotas::QuotaCache;
use folio_resources::quota::Quotas;
use folio_resources::{DocumentChange, DocumentFilter, Resource as _, Tag, TagChange};
use folio_types::op::{Expected, OpKey, OpRow, OpState, Write, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{RequestId, TagId, limits};
use zip::write::SimpleFileOptions;

use super::*;

/// Returns a mail with a text, and with attachments by name and content.
fn mail(attachments: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut mail = b"From: a@example.org\r\nTo: b@example.org\r\nSubject: Invoices\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nSee the files.\r\n"
        .to_vec();
    for (name, kind, content) in attachments {
        let header = format!(
            "--b\r\nContent-Type: {kind}\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}\r\n",
            STANDARD.encode(content)
        );
        mail.extend(header.into_bytes());
    }
    mail.extend(b"--b--\r\n");
    mail
}

fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn tar_gz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default()));
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // The method that sets the path refuses relative names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    tar.append_link(&mut link, "link.txt", "/etc/passwd").unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

impl Fixture {
    /// Returns the parts of a document by position.
    async fn parts(&self, parent: &DocumentId) -> Vec<Document> {
        let filter = DocumentFilter { parent: Some(parent.clone()), ..DocumentFilter::default() };
        let request = PageRequest { size: 1_000, ..PageRequest::default() };
        let documents = self.stores().of::<Document>();
        let mut parts = documents.list(&self.principal.org, &filter, &request).await.unwrap().items;
        parts.sort_by_key(|document| document.part.as_ref().unwrap().position);
        parts
    }

    /// Waits until a document and all of its parts are read. Returns the document and its parts.
    async fn taken_in(&self, id: &DocumentId) -> (Document, Vec<Document>) {
        let document = self.settled(id).await;
        let mut parts = Vec::new();
        for part in self.parts(id).await {
            parts.push(self.settled(&part.id).await);
        }
        (document, parts)
    }

    async fn tag(&self) -> TagId {
        let id = TagId::generate(&*self.environment);
        let change = TagChange::Create { name: "invoices".to_owned(), color: None, description: None };
        let key: RequestId = "tag".parse().unwrap();
        let org = self.principal.org.clone();
        let write = Write::by_platform(org, key, self.environment.now(), Expected::Absent, change);
        assert!(matches!(self.stores().of::<Tag>().decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
        id
    }

    async fn upload_tagged(&self, name: &str, content: &[u8], tags: Vec<TagId>) -> DocumentId {
        let uploader = self.uploader_within(None, &options());
        let mut upload = uploader.begin(&self.principal, NewUpload { tags, ..new_upload(name, name) }).await.unwrap();
        upload.write(Bytes::copy_from_slice(content)).await.unwrap();
        upload.finish().await.unwrap().document.id
    }

    async fn page_text(&self, id: &DocumentId) -> String {
        let pages = self.stores().texts.text(&self.principal.org, id.as_str(), 1, 50).await.unwrap();
        pages.into_iter().map(|page| page.text).collect::<Vec<_>>().join("\n")
    }
}

fn refusals(document: &Document) -> Vec<(u32, &str, &str)> {
    let refused = document.refused_parts.iter();
    refused.map(|part| (part.position, part.path.as_str(), part.reason.as_str())).collect()
}

#[tokio::test]
async fn attachments_become_documents_with_the_tags_of_their_mail_once() {
    let fixture = Fixture::new();
    let tag = fixture.tag().await;
    let inner = mail(&[("deep.txt", "text/plain", b"deep 4713")]);
    let content = mail(&[
        ("invoice.pdf", "application/pdf", &sample_invoice()),
        ("list.txt", "text/plain", b"item 4711"),
        ("run.exe", "application/octet-stream", b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff"),
        ("forwarded.eml", "message/rfc822", &inner),
        ("list.txt", "text/plain", b"item 4711"),
    ]);
    let id = fixture.upload_tagged("mail.eml", &content, vec![tag.clone()]).await;
    let (_ingestor, queue) = fixture.ingestor(options());
    let (document, parts) = fixture.taken_in(&id).await;
    assert_eq!(document.state, TextState::Ready, "{document:?}");
    let refused = refusals(&document);
    let [refused] = &refused[..] else { panic!("{document:?}") };
    assert!(refused.0 == 3 && refused.1 == "run.exe" && refused.2.contains("not accepted"), "{refused:?}");

    let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["invoice.pdf", "list.txt", "forwarded.eml", "list.txt"]);
    for part in &parts {
        assert_eq!((&part.tags, &part.created_by), (&vec![tag.clone()], &fixture.principal.user));
        assert_eq!((&part.state, part.part.as_ref().unwrap().depth), (&TextState::Ready, 1), "{part:?}");
    }
    assert!(fixture.page_text(&parts[0].id).await.contains("INV-2026-0417"));
    let text = fixture.page_text(&id).await;
    assert!(text.contains("See the files.") && text.contains("list.txt") && !text.contains("4711"), "{text}");
    let (_, nested) = fixture.taken_in(&parts[2].id).await;
    assert_eq!((nested.len(), nested[0].part.as_ref().unwrap().depth), (1, 2));
    assert_eq!(fixture.page_text(&nested[0].id).await, "deep 4713");

    // A deleted part is not created again, and the others are created once.
    let delete = Write::by_platform(
        fixture.principal.org.clone(),
        "delete".parse().unwrap(),
        fixture.environment.now(),
        Expected::Version(parts[1].version),
        DocumentChange::Delete,
    );
    fixture.stores().of::<Document>().decide(&parts[1].id, delete).await.unwrap();
    fixture.environment.advance(Duration::from_secs(1));
    fixture.uploader_within(Some(queue), &options()).read_again(&document).await.unwrap();
    wait_for("the mail is read again", SOON, || async {
        let read = fixture.document(&id).await;
        (read.state == TextState::Ready && read.text_generation != document.text_generation).then_some(())
    })
    .await;
    let again: Vec<_> = fixture.parts(&id).await.into_iter().map(|part| part.id).collect();
    let kept: Vec<_> = [0, 2, 3].map(|at: usize| parts[at].id.clone()).into();
    assert_eq!(again, kept);
    assert_eq!(fixture.document(&id).await.version, document.version, "the same refusals are recorded once");
}

#[tokio::test]
async fn members_of_archives_become_documents_and_bad_ones_are_refused_by_name() {
    let fixture = Fixture::new();
    let bomb = vec![b'a'; 8 * 1024 * 1024];
    let mut content = zip_of(&[
        ("in/a.txt", b"first"),
        ("../../b.txt", b"second"),
        ("bomb.txt", &bomb),
        ("secret.txt", b"third"),
        ("__MACOSX/._a.txt", b"\0\x05\x16\x07"),
        ("empty.txt", b""),
        ("nested.zip", &zip_of(&[("c.txt", b"fourth")])),
    ]);
    encrypt(&mut content, "secret.txt");
    let id = fixture.upload_tagged("files.zip", &content, Vec::new()).await;
    let tar = tar_gz(&[("x/one.txt", b"one"), ("../two.txt", b"two")]);
    let other = fixture.upload_tagged("files.tar.gz", &tar, Vec::new()).await;
    let (_ingestor, _queue) = fixture.ingestor(options());

    let (document, parts) = fixture.taken_in(&id).await;
    assert_eq!(document.state, TextState::Ready, "{document:?}");
    let paths: Vec<_> = parts.iter().map(|part| part.part.as_ref().unwrap().path.as_str()).collect();
    assert_eq!(paths, ["in/a.txt", "b.txt", "nested.zip"]);
    let refused = refusals(&document);
    let reasons = [("bomb.txt", "times its compressed size"), ("secret.txt", "encrypted"), ("empty.txt", "empty")];
    assert_eq!(refused.len(), reasons.len(), "{refused:?}");
    for ((_, path, reason), (expected, part)) in refused.iter().zip(reasons) {
        assert!(*path == expected && reason.contains(part), "{path}: {reason}");
    }
    let text = fixture.page_text(&id).await;
    assert!(text.starts_with("in/a.txt\nb.txt\nbomb.txt (refused: "), "{text}");
    let (_, nested) = fixture.taken_in(&parts[2].id).await;
    assert_eq!(fixture.page_text(&nested[0].id).await, "fourth");
    let budget = parts[2].part.as_ref().unwrap().budget;
    assert!(budget.parts == limits::PARTS_MAX - 3 && budget.bytes < limits::PARTS_BYTES, "{budget:?}");

    let (document, parts) = fixture.taken_in(&other).await;
    let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!((document.state.clone(), names), (TextState::Ready, vec!["one.txt", "two.txt"]));
    assert_eq!(refusals(&document), [(3, "link.txt", "links and devices are not accepted")]);
}

/// Sets the flag of an encrypted member in its local header and in the central directory.
fn encrypt(zip: &mut [u8], name: &str) {
    for (mark, name_at) in [(b"PK\x03\x04", 30), (b"PK\x01\x02", 46)] {
        let flags_at = if name_at == 30 { 6 } else { 8 };
        let found = (0..zip.len() - name_at - name.len())
            .find(|at| zip[*at..].starts_with(mark) && zip[at + name_at..].starts_with(name.as_bytes()))
            .unwrap();
        zip[found + flags_at] |= 1;
    }
}

#[tokio::test]
async fn damaged_archives_and_deep_nesting_affect_only_themselves() {
    let fixture = Fixture::new();
    let whole = tar_gz(&[("one.txt", b"one")]);
    let gzip = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&[b"no archive ".as_slice(); 100].concat()).unwrap();
        gzip.finish().unwrap()
    };
    let deep = (0..limits::PART_DEPTH_MAX + 1)
        .fold(zip_of(&[("core.txt", b"core")]), |inner, level| zip_of(&[(&format!("{level}.zip"), &inner)]));
    let mut ids = Vec::new();
    for (name, content) in [("cut.tgz", &whole[..20]), ("text.gz", &gzip), ("deep.zip", &deep)] {
        ids.push(fixture.upload_tagged(name, content, Vec::new()).await);
    }
    let (_ingestor, _queue) = fixture.ingestor(options());
    for id in &ids[..2] {
        let (document, parts) = fixture.taken_in(id).await;
        assert!(parts.is_empty() && !document.refused_parts.is_empty(), "{document:?}");
    }
    let mut id = ids.pop().unwrap();
    for depth in 0..limits::PART_DEPTH_MAX {
        let (document, parts) = fixture.taken_in(&id).await;
        assert_eq!((document.state, parts.len()), (TextState::Ready, 1), "{depth}");
        id = parts[0].id.clone();
    }
    let (document, parts) = fixture.taken_in(&id).await;
    assert!(parts.is_empty() && refusals(&document)[0].2.contains("nested"), "{document:?}");
    assert!(matches!(document.state, TextState::Failed(_)), "{document:?}");
}

#[tokio::test]
async fn parts_beyond_a_quota_are_refused_and_created_when_the_parent_is_read_again() {
    let fixture = Fixture::new();
    let content = mail(&[("a.txt", "text/plain", b"one"), ("b.txt", "text/plain", b"two")]);
    let id = fixture.upload_tagged("mail.eml", &content, Vec::new()).await;
    let queue = fixture.queue(&options());
    let limited = |documents| {
        let quotas = QuotaCache::new(fixture.stores().of(), Quotas { documents, ..Quotas::default() });
        fixture.uploader_within(Some(queue.clone()), &options()).with_quotas(quotas)
    };
    let start = |uploader: Uploader| {
        let (stores, environment) = (fixture.stores(), fixture.environment.clone());
        Ingestor::start(stores, queue.clone(), environment, TextReader::new(options()), uploader)
    };
    let ingestor = start(limited(2));
    let (document, parts) = fixture.taken_in(&id).await;
    assert_eq!((document.state.clone(), parts.len()), (TextState::Ready, 1));
    let [(2, "b.txt", reason)] = refusals(&document)[..] else { panic!("{document:?}") };
    assert!(reason.contains("quota of 2 documents"), "{reason}");
    ingestor.drain(Duration::from_secs(5)).await;

    fixture.environment.advance(Duration::from_secs(1));
    limited(0).read_again(&document).await.unwrap();
    let _ingestor = start(limited(0));
    wait_for("the refused part is a document", SOON, || async {
        let document = fixture.document(&id).await;
        (document.state == TextState::Ready && document.refused_parts.is_empty()).then_some(())
    })
    .await;
    assert_eq!(fixture.parts(&id).await.len(), 2);
}

/// Closes an op of a document, as a store does after the failure of a write that may still be applied.
async fn close(fixture: &Fixture, id: &DocumentId, op: OpKey) {
    let row = OpRow { op, digest: Digest::of(b""), state: OpState::Aborted, at: fixture.environment.now() };
    let target = Document::target(id);
    let stored = fixture.stores().ops.close(&fixture.principal.org, &target, row).await.unwrap();
    assert_eq!(stored.state, OpState::Aborted);
}

#[tokio::test]
async fn writes_of_an_intake_that_failed_and_were_closed_are_made_by_the_next_attempt() {
    let fixture = Fixture::new();
    let org = fixture.principal.org.clone();
    let refused = b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff";
    let content =
        mail(&[("a.txt", "text/plain", b"one 4711"), ("run.exe", "application/octet-stream", refused.as_slice())]);
    let id = fixture.upload_tagged("mail.eml", &content, Vec::new()).await;
    let sha256 = Digest::of(b"one 4711");
    let part = DocumentId::derive(&["part", org.as_str(), id.as_str(), sha256.as_str(), "1"]);
    let request: RequestId = format!("part-{part}").parse().unwrap();
    close(&fixture, &part, OpKey::Request { user: fixture.principal.user.clone(), request }).await;
    let document = fixture.document(&id).await;
    let key: RequestId = format!("refused-parts-{id}-{}", document.version).parse().unwrap();
    let expected = Expected::Version(document.version);
    let record = Write::by_platform(org, key, fixture.environment.now(), expected, DocumentChange::Delete);
    close(&fixture, &id, record.op).await;

    let (_ingestor, _queue) = fixture.ingestor(options());
    let (document, parts) = fixture.taken_in(&id).await;
    assert_eq!(parts.iter().map(|part| part.id.clone()).collect::<Vec<_>>(), [part]);
    assert_eq!(fixture.page_text(&parts[0].id).await, "one 4711");
    let [(2, "run.exe", _)] = refusals(&document)[..] else { panic!("{document:?}") };
}

#[tokio::test]
async fn a_part_whose_requests_are_all_closed_does_not_affect_the_others() {
    let fixture = Fixture::new();
    let content = mail(&[("a.txt", "text/plain", b"one"), ("b.txt", "text/plain", b"two")]);
    let id = fixture.upload_tagged("mail.eml", &content, Vec::new()).await;
    let (org, sha256) = (fixture.principal.org.clone(), Digest::of(b"one"));
    let part = DocumentId::derive(&["part", org.as_str(), id.as_str(), sha256.as_str(), "1"]);
    for number in 1..=8 {
        let end = if number == 1 { String::new() } else { format!("-{number}") };
        let request: RequestId = format!("part-{part}{end}").parse().unwrap();
        close(&fixture, &part, OpKey::Request { user: fixture.principal.user.clone(), request }).await;
    }
    let (_ingestor, _queue) = fixture.ingestor(options());
    let (document, parts) = fixture.taken_in(&id).await;
    assert_eq!((document.state.clone(), parts.len(), parts[0].name.as_str()), (TextState::Ready, 1, "b.txt"));
    let [(1, "a.txt", reason)] = refusals(&document)[..] else { panic!("{document:?}") };
    assert!(reason.contains("8 attempts"), "{reason}");
}

const PROPERTIES: &str = "__properties_version1.0";

/// Writes a text property of a message.
fn text_property(file: &mut cfb::CompoundFile<Cursor<Vec<u8>>>, storage: &str, id: &str, text: &str) {
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    file.create_stream(format!("{storage}/__substg1.0_{id}001F")).unwrap().write_all(&bytes).unwrap();
}

/// Returns the properties of an attachment that is stored by a method.
fn method(method: u8) -> Vec<u8> {
    let property = [3, 0, 0x05, 0x37, 6, 0, 0, 0, method, 0, 0, 0, 0, 0, 0, 0];
    [[0; 8].as_slice(), &property].concat()
}

/// Returns a message of Outlook with a file, a message with a file, and a link.
fn outlook_message() -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    file.create_stream(format!("/{PROPERTIES}")).unwrap().write_all(&[0; 32]).unwrap();
    text_property(&mut file, "", "0037", "Outer");
    text_property(&mut file, "", "1000", "Outer text 17");
    let attachment = |number: u32| format!("/__attach_version1.0_#{number:08X}");
    for (number, kind) in [(0, 1), (1, 5), (2, 4)] {
        file.create_storage(attachment(number)).unwrap();
        file.create_stream(format!("{}/{PROPERTIES}", attachment(number))).unwrap().write_all(&method(kind)).unwrap();
    }
    text_property(&mut file, &attachment(0), "3707", "Übersicht.txt");
    file.create_stream(format!("{}/__substg1.0_37010102", attachment(0))).unwrap().write_all(b"list 18").unwrap();
    let inner = format!("{}/__substg1.0_3701000D", attachment(1));
    file.create_storage(&inner).unwrap();
    file.create_stream(format!("{inner}/{PROPERTIES}")).unwrap().write_all(&[0; 24]).unwrap();
    text_property(&mut file, &inner, "0037", "Inner");
    text_property(&mut file, &inner, "1000", "Inner text 19");
    let deep = format!("{inner}/__attach_version1.0_#00000000");
    file.create_storage(&deep).unwrap();
    file.create_stream(format!("{deep}/{PROPERTIES}")).unwrap().write_all(&method(1)).unwrap();
    text_property(&mut file, &deep, "3704", "deep.txt");
    file.create_stream(format!("{deep}/__substg1.0_37010102")).unwrap().write_all(b"deep 20").unwrap();
    text_property(&mut file, &attachment(2), "3707", "linked.txt");
    file.flush().unwrap();
    file.into_inner().into_inner()
}

#[tokio::test]
async fn messages_of_outlook_have_a_text_and_attachments() {
    let fixture = Fixture::new();
    let id = fixture.upload_tagged("a.msg", &outlook_message(), Vec::new()).await;
    let (_ingestor, _queue) = fixture.ingestor(options());
    let (document, parts) = fixture.taken_in(&id).await;
    assert_eq!(document.media_type, "application/vnd.ms-outlook");
    assert_eq!(document.state, TextState::Ready, "{document:?}");
    let text = fixture.page_text(&id).await;
    assert!(text.contains("Outer text 17"), "{text}");
    let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["Übersicht.txt", "Inner.msg"]);
    let [(3, "linked.txt", reason)] = refusals(&document)[..] else { panic!("{document:?}") };
    assert!(reason.contains("link"), "{reason}");
    assert_eq!(fixture.page_text(&parts[0].id).await, "list 18");
    let (inner, nested) = fixture.taken_in(&parts[1].id).await;
    assert_eq!((inner.state, nested.len()), (TextState::Ready, 1));
    assert!(fixture.page_text(&inner.id).await.contains("Inner text 19"));
    assert_eq!(fixture.page_text(&nested[0].id).await, "deep 20");
}
