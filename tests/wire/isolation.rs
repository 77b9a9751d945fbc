//! The confinement of the processes that read documents, with the real server as their parent.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use folio_proto::v1;
use v1::DocumentState;

use crate::process::Process;
use crate::sandbox::Setup;

const SCRIPT: &str = "
rules:
  - when: {user: hello}
    answer: {text: Hello.}
";

/// An image that consists of its header only. The program of the test does not decode it.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

#[tokio::test]
async fn a_hostile_file_reaches_no_secret_of_the_server_no_other_document_and_no_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("tesseract");
    let setup = Setup::new(SCRIPT).with("FOLIO_DOCUMENTS__TESSERACT", program.display());
    let sandbox = setup.with("FOLIO_DOCUMENTS__ISOLATION", "required").start().await;
    let data = sandbox.data().canonicalize().expect("the data folder");
    let other = data.join("scratch/folio-read-other");
    std::fs::create_dir_all(&other).expect("the scratch folder of another document");
    std::fs::write(other.join("document"), "another tenant\n").expect("another document");
    // The stand-in for Redis.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let (port, data, server) =
        (listener.local_addr().expect("an address").port(), data.display(), sandbox.server().id());
    let text = format!(
        r#"#!/bin/bash
say() {{ rows=$((rows + 1)); printf '5\t1\t1\t1\t%s\t1\t0\t0\t9\t9\t96\t%s\n' "$rows" "$*"; }}
try() {{ if eval "$2" 2>/dev/null; then say "$1: succeeded"; else say "$1: refused"; fi; }}
[ "$PPID" = {server} ] && say "parent: server"
try environment 'IFS= read -r -d "" variable </proc/{server}/environ'
try memory ': </proc/{server}/mem'
try token 'read -r line <{data}/admin.token'
try tenant 'read -r line <{data}/scratch/folio-read-other/document'
try connect ': <>/dev/tcp/127.0.0.1/{port}'
try signal 'kill -0 {server}'
say recognized text
"#
    );
    std::fs::write(&program, text).expect("a program is written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("the program is executable");

    let client = sandbox.client().await;
    let id = client.try_upload("scan.png", PNG).await.expect("an upload").document_id;
    let document = folio_testkit::wait_for("the text", crate::LIMIT, || async {
        let request = v1::GetDocumentRequest { document_id: id.clone() };
        let found = client.documents.clone().get_document(request).await.expect("the document exists");
        let document = found.into_inner().document.expect("a document");
        (![DocumentState::Uploaded, DocumentState::Processing].contains(&document.state())).then_some(document)
    })
    .await;
    assert_eq!(document.state(), DocumentState::Ready, "{document:?}\n{}", sandbox.server().errors());
    let request = v1::GetDocumentTextRequest { document_id: id, from_page: 1, page_count: 0 };
    let read = client.documents.clone().get_document_text(request).await.expect("the text exists").into_inner();
    assert_eq!(
        read.pages[0].text,
        "parent: server\nenvironment: refused\nmemory: refused\ntoken: refused\ntenant: refused\nconnect: refused\n\
         signal: refused\nrecognized text"
    );
}

#[tokio::test]
async fn a_node_whose_child_processes_exceed_the_memory_of_the_machine_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    // 1 TiB for each child process.
    let settings = [("FOLIO_DOCUMENTS__CHILD_MEMORY_BYTES", "1099511627776")];
    let started = Process::try_start("folio", folder.path(), &["serve", "--listen", "127.0.0.1:0"], &settings);
    let errors = started.err().expect("the start is refused");
    let problem = "documents.child_memory_bytes: 6 child processes (documents.concurrency + documents.slow_concurrency + \
                   documents.page_images + documents.protected_uploads) with 1048576 MiB each exceed the memory budget";
    assert!(errors.contains(problem), "{errors}");
}
