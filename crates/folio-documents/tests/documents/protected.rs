//! PDF files that are protected by a password.

use folio_documents::NewUpload;
use folio_types::{Reason, Result, Secret};
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
    let new = NewUpload { password: Some(Secret::new(password)), ..new_upload(request, "a.pdf") };
    let mut upload = fixture.uploader(None).begin(&fixture.principal, new).await?;
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
