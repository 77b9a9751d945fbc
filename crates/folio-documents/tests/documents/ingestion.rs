//! Background ingestion: document states, restarts, and malicious files.

use folio_documents::IngestLoad;
use folio_storage::TextWait;
use folio_types::Principal;

use super::malformed::deep_html;
use super::*;

#[tokio::test]
async fn uploaded_documents_become_ready_and_a_malicious_one_affects_no_other() {
    let fixture = Fixture::new();
    let (ingestor, handle) = fixture.ingestor(options());
    let uploader = fixture.uploader_within(Some(handle), &Options { max_bytes: 8 * 1024 * 1024, ..options() });
    let mut ids = Vec::new();
    for at in 0..6 {
        let (kind, content) = if at % 3 == 1 { ("html", deep_html()) } else { ("pdf", sample_invoice()) };
        let name = format!("{at}.{kind}");
        ids.push(fixture.upload(&uploader, &format!("r{at}"), &name, &content).await.unwrap().document.id);
    }
    for (at, id) in ids.iter().enumerate() {
        let document = fixture.settled(id).await;
        match at % 3 {
            1 => assert!(matches!(document.state, TextState::Failed(_)), "{:?}", document.state),
            _ => {
                assert_eq!((document.state, document.pages), (TextState::Ready, 1));
                let text = fixture.stores().texts.text(&fixture.principal.org, id.as_str(), 1, 5).await.unwrap();
                assert!(text[0].text.contains("INV-2026-0417"));
            }
        }
    }
    assert!(fixture.stores().texts.waiting_texts(TextWait::Worker, None, 10).await.unwrap().is_empty());
    ingestor.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn pending_documents_are_read_after_a_restart() {
    let fixture = Fixture::new();
    let uploaded = fixture.stored("r1", "a.txt", b"some text").await;
    let interrupted = fixture.stored("r2", "b.txt", b"other text").await;
    store(&fixture, &interrupted, TextState::Processing).await;
    let (_ingestor, _handle) = fixture.ingestor(options());
    for id in [&uploaded, &interrupted] {
        assert_eq!(fixture.settled(id).await.state, TextState::Ready);
    }
}

async fn store(fixture: &Fixture, id: &DocumentId, state: TextState) {
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: fixture.environment.now() };
    fixture.stores().texts.ingest(&fixture.principal.org, id.as_str(), update).await.unwrap();
}

#[tokio::test]
async fn a_file_that_crashes_the_process_repeatedly_fails() {
    let fixture = Fixture::new();
    let uploaded = fixture.stored("r1", "a.txt", b"some text").await;
    for _ in 0..3 {
        store(&fixture, &uploaded, TextState::Processing).await;
    }
    let (_ingestor, _handle) = fixture.ingestor(Options { attempts: 3, ..options() });
    let document = fixture.settled(&uploaded).await;
    assert_eq!(document.state, TextState::Failed("reading the file was interrupted 3 times".to_owned()));
}

#[tokio::test]
async fn more_uploads_than_the_queue_holds_are_all_read() {
    let fixture = Fixture::new();
    let (_ingestor, handle) = fixture.ingestor(Options { queue: 1, concurrency: 1, ..options() });
    let uploader = fixture.uploader(Some(handle));
    let mut ids = Vec::new();
    for at in 0..40 {
        ids.push(fixture.upload(&uploader, &format!("r{at}"), "a.txt", b"some text").await.unwrap().document.id);
    }
    for id in &ids {
        assert_eq!(fixture.settled(id).await.state, TextState::Ready);
    }
}

#[tokio::test]
async fn bytes_that_changed_on_disk_are_not_read() {
    let fixture = Fixture::new();
    let uploaded = fixture.stored("r1", "a.txt", b"some text").await;
    fixture.store_blob(&fixture.document(&uploaded).await.blob_key(), b"other text").await;
    let (_ingestor, _handle) = fixture.ingestor(options());
    let document = fixture.settled(&uploaded).await;
    assert!(matches!(&document.state, TextState::Failed(reason) if reason.contains("differs from")), "{document:?}");
}

#[tokio::test]
async fn draining_cancels_slow_documents_and_a_restart_reads_them() {
    let fixture = Fixture::new();
    let scratch = fixture.folder.path().join("scratch");
    let slow = fixture.folder.path().join("slow");
    script(&slow, SLOW);
    let (ingestor, handle) = fixture.ingestor(Options {
        tesseract: slow,
        scratch: Some(scratch.clone()),
        ocr_page_seconds: 500,
        ..options()
    });
    let uploaded = fixture.upload(&fixture.uploader(Some(handle)), "r1", "a.png", PNG).await.unwrap().document.id;
    wait_for("it is being read", SOON, || async {
        let folders = std::fs::read_dir(&scratch).map_or(0, Iterator::count);
        (folders > 0 && fixture.document(&uploaded).await.state == TextState::Processing).then_some(())
    })
    .await;
    tokio::time::timeout(SOON, ingestor.drain(Duration::from_millis(50))).await.unwrap();
    assert_eq!(fixture.document(&uploaded).await.state, TextState::Uploaded);
    let pending = fixture.stores().texts.waiting_texts(TextWait::Worker, None, 10).await.unwrap();
    assert_eq!((pending.len(), pending[0].attempts), (1, 0), "a cancelled attempt does not count");
    let (_ingestor, _handle) = fixture.ingestor(Options {
        tesseract: "no-such-tesseract".into(),
        scratch: Some(scratch.clone()),
        ..options()
    });
    let document = fixture.settled(&uploaded).await;
    assert!(matches!(document.state, TextState::NoText(_)), "{document:?}");
    wait_for("the scratch folder is empty", SOON, || async {
        (std::fs::read_dir(&scratch).unwrap().count() == 0).then_some(())
    })
    .await;
}

/// A program that recognizes the same text in every image.
const RECOGNIZER: &str = "say recognized text";

#[tokio::test]
async fn an_image_that_lacked_tesseract_is_read_after_its_installation() {
    let fixture = Fixture::new();
    let tesseract = fixture.folder.path().join("tesseract");
    let options = Options { tesseract: tesseract.clone(), pdftoppm: "no-such-pdftoppm".into(), ..options() };
    let (ingestor, handle) = fixture.ingestor(options.clone());
    let uploader = fixture.uploader(Some(handle));
    let image = fixture.upload(&uploader, "r1", "a.png", PNG).await.unwrap().document.id;
    let other = fixture.upload(&uploader, "r2", "a.docx", b"PK\x03\x04 no text").await;
    let document = fixture.settled(&image).await;
    assert!(matches!(&document.state, TextState::NoText(reason) if reason.contains("Tesseract")), "{document:?}");
    ingestor.drain(Duration::from_secs(5)).await;
    // A start without Tesseract changes nothing.
    let (ingestor, _handle) = fixture.ingestor(options.clone());
    let still = fixture.upload(&uploader, "r3", "b.txt", b"some text").await.unwrap().document.id;
    ingestor.drain(Duration::from_secs(5)).await;
    assert_eq!(fixture.document(&image).await.state, document.state);
    recognizer(&tesseract, RECOGNIZER);
    let (_ingestor, _handle) = fixture.ingestor(options);
    let read = async || Some(fixture.document(&image).await).filter(|found| found.state == TextState::Ready);
    wait_for("the image is read", SOON, read).await;
    let text = fixture.stores().texts.text(&fixture.principal.org, image.as_str(), 1, 5).await.unwrap();
    assert!(text[0].text.contains("recognized text"), "{text:?}");
    assert!(fixture.stores().texts.waiting_texts(TextWait::Program, None, 10).await.unwrap().is_empty());
    assert_eq!(fixture.settled(&still).await.state, TextState::Ready);
    drop(other);
}

#[tokio::test]
async fn tesseract_that_is_installed_while_the_server_runs_is_detected() {
    let fixture = Fixture::new();
    let tesseract = fixture.folder.path().join("tesseract");
    let lacking = Options { tesseract: tesseract.clone(), rescan_seconds: 1, ..options() };
    let image = fixture.stored("r1", "a.png", PNG).await;
    let update = IngestUpdate {
        state: TextState::NoText("Tesseract is not installed".to_owned()),
        pages: Vec::new(),
        lacks_program: true,
        at: fixture.environment.now(),
    };
    fixture.stores().texts.ingest(&fixture.principal.org, image.as_str(), update).await.unwrap();
    let (_ingestor, handle) = fixture.ingestor(lacking);
    // The first check finds no program.
    let text = fixture.upload(&fixture.uploader(Some(handle)), "r2", "a.txt", b"some text").await.unwrap().document.id;
    fixture.settled(&text).await;
    recognizer(&tesseract, RECOGNIZER);
    let read = async || Some(fixture.document(&image).await).filter(|found| found.state == TextState::Ready);
    wait_for("the image is read", SOON, read).await;
}

#[tokio::test]
async fn slow_documents_do_not_block_others() {
    let fixture = Fixture::new();
    let slow = fixture.folder.path().join("slow");
    script(&slow, SLOW);
    let limits = Options { concurrency: 1, slow_after_seconds: 1, slow_concurrency: 2, ..options() };
    let (_ingestor, handle) = fixture.ingestor(Options { tesseract: slow, ocr_page_seconds: 500, ..limits });
    let uploader = fixture.uploader(Some(handle.clone()));
    let mut images = Vec::new();
    for request in ["s1", "s2"] {
        images.push(fixture.upload(&uploader, request, "a.png", PNG).await.unwrap().document.id);
    }
    let mut others = Vec::new();
    for at in 0..8 {
        let content = if at % 2 == 0 { sample_invoice() } else { b"some text".to_vec() };
        others.push(fixture.upload(&uploader, &format!("r{at}"), "a", &content).await.unwrap().document.id);
    }
    for id in &others {
        assert_eq!(fixture.settled(id).await.state, TextState::Ready);
    }
    for id in &images {
        assert_eq!(fixture.document(id).await.state, TextState::Processing);
    }
    // The third document takes the last permit, and the fourth waits.
    for request in ["s3", "s4"] {
        fixture.upload(&uploader, request, "a.png", PNG).await.unwrap();
    }
    let counted = || async { (handle.load() == IngestLoad { reading: 3, waiting: 1 }).then_some(()) };
    wait_for("the load is as expected", SOON, counted).await;
}

#[tokio::test]
async fn organizations_take_turns() {
    let mut fixture = Fixture::new();
    let (worker, order) = (fixture.folder.path().join("worker"), fixture.folder.path().join("order"));
    // Records the first line of each file in the order of their reading.
    let child = env!("CARGO_BIN_EXE_folio-read-file");
    script(&worker, &format!(r#"read -r line; echo "$line" >>{}; exec {child} "$@""#, order.display()));
    let options = Options { worker: Some(worker), concurrency: 1, ..options() };
    let queue = fixture.queue(&options);
    let uploader = fixture.uploader(Some(queue.clone()));
    for at in 0..50 {
        fixture.upload(&uploader, &format!("r{at}"), "a.txt", b"busy\nsome text").await.unwrap();
    }
    let org = OrgId::generate(&*fixture.environment);
    fixture.principal = Principal { org, ..fixture.principal };
    let id = fixture.upload(&uploader, "r", "a.txt", b"quiet\nsome text").await.unwrap().document.id;
    let _ingestor = fixture.start(queue, options);
    assert_eq!(fixture.settled(&id).await.state, TextState::Ready);
    let order = std::fs::read_to_string(order).unwrap();
    let position = order.lines().position(|line| line == "quiet").unwrap();
    assert!(position <= 2, "{order}");
}
