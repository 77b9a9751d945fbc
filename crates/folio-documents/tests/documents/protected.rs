//! PDF files that are protected by a password.

use std::sync::Mutex;

use folio_documents::{NewUpload, Uploader};
use folio_types::{OrgId, Principal, Reason, Result, Secret};
use lopdf::{EncryptionState, EncryptionVersion, Object, Permissions};

use super::*;

const PASSWORD: &str = "open sesame";

/// Returns a PDF with these pages that only the password opens.
pub(crate) fn protected(pages: &[Page]) -> Vec<u8> {
    let mut pdf = lopdf::Document::load_mem(&document(pages)).unwrap();
    let id = Object::string_literal("0123456789abcdef");
    pdf.trailer.set("ID", Object::Array(vec![id.clone(), id]));
    let version = EncryptionVersion::V2 {
        document: &pdf,
        owner_password: "owner",
        user_password: PASSWORD,
        key_length: 128,
        permissions: Permissions::all(),
    };
    let state = EncryptionState::try_from(version).unwrap();
    pdf.encrypt(&state).unwrap();
    let mut bytes = Vec::new();
    pdf.save_to(&mut bytes).unwrap();
    bytes
}

/// Uploads a file with a password.
async fn upload(fixture: &Fixture, request: &str, content: &[u8], password: &str) -> Result<Document> {
    upload_as(&fixture.uploader(None), &fixture.principal, request, (content, password)).await
}

async fn upload_as(
    uploader: &Uploader,
    principal: &Principal,
    request: &str,
    (content, password): (&[u8], &str),
) -> Result<Document> {
    let new = NewUpload { password: Some(Secret::new(password)), ..new_upload(request, "a.pdf") };
    let mut upload = uploader.begin(principal, new).await?;
    upload.write(Bytes::copy_from_slice(content)).await?;
    Ok(upload.finish().await?.document)
}

#[tokio::test]
async fn a_protected_pdf_without_its_password_fails_with_the_reason() {
    let reading = read("a.pdf", &protected(&[Page::of_lines(&["secret plan"])])).await;
    assert!(
        matches!(&reading.state, TextState::Failed(reason) if reason.contains("protected by a password")),
        "{reading:?}"
    );
}

#[tokio::test]
async fn the_password_of_an_upload_opens_the_file_and_is_not_stored() {
    let fixture = Fixture::new();
    let file = protected(&[Page::of_lines(&["secret plan"]), Page::new()]);
    let document = upload(&fixture, "r1", &file, PASSWORD).await.unwrap();
    assert_eq!(document.state, TextState::Ready);
    let pages = fixture.stores().texts.text(&document.org, document.id.as_str(), 1, 9).await.unwrap();
    let texts: Vec<_> = pages.iter().map(|page| page.text.as_str()).collect();
    assert!(texts.len() == 2 && texts[0] == "secret plan" && texts[1].contains("no text layer"), "{texts:?}");
    assert_eq!(fixture.bytes(&document.blob_key()).await.unwrap(), file, "the stored file remains protected");
    let stored = format!("{document:?}");
    assert!(!stored.contains(PASSWORD), "{stored}");
}

#[tokio::test]
async fn a_wrong_or_useless_password_refuses_the_upload() {
    let fixture = Fixture::new();
    let page = [Page::of_lines(&["secret plan"])];
    let too_long = "x".repeat(128);
    for (content, password, word) in [
        (protected(&page), "wrong", "does not open the PDF"),
        (document(&page), PASSWORD, "is not needed"),
        (b"plain text".to_vec(), PASSWORD, "only a PDF has a password"),
        (protected(&page), "a\0b", "no NUL"),
        (protected(&page), &too_long, "1 to 127 bytes"),
        (protected(&page), " ", "1 to 127 bytes"),
    ] {
        let refused = upload(&fixture, "r1", &content, password).await.unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidField, "{refused}");
        assert!(refused.message.contains(word), "{refused}");
        assert!(!refused.to_string().contains(PASSWORD), "{refused}");
    }
}

#[tokio::test]
async fn a_repeated_upload_stores_the_text_that_the_first_one_did_not() {
    let fixture = Fixture::new();
    let file = protected(&[Page::of_lines(&["secret plan"])]);
    let id = fixture.stored("r1", "a.pdf", &file).await;
    let document = upload(&fixture, "r1", &file, PASSWORD).await.unwrap();
    assert_eq!((document.id, document.state), (id, TextState::Ready));
    let again = upload(&fixture, "r1", &file, PASSWORD).await.unwrap();
    assert_eq!(fixture.bytes(&again.blob_key()).await.unwrap(), file, "the bytes of the first upload remain");
}

#[tokio::test]
async fn organizations_take_turns_at_uploads_of_protected_pdfs() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let file = protected(&[Page::of_lines(&["secret plan"])]);
    let quiet = Principal { org: OrgId::generate(&*fixture.environment), ..fixture.principal.clone() };
    let requests: Vec<String> = (0..8).map(|number| format!("r{number}")).collect();
    let principals = requests.iter().map(|request| if request == "r7" { &quiet } else { &fixture.principal });
    let order = Mutex::new(Vec::new());
    let uploads = requests.iter().zip(principals).map(async |(request, principal)| {
        let document = upload_as(&uploader, principal, request, (&file, PASSWORD)).await.unwrap();
        assert_eq!(document.state, TextState::Ready);
        order.lock().unwrap().push(request.clone());
    });
    futures::future::join_all(uploads).await;
    let order = order.into_inner().unwrap();
    let position = order.iter().position(|request| request == "r7").unwrap();
    assert!(position <= 2, "{order:?}");
}
