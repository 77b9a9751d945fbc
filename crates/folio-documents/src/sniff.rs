//! Detection of file types by content.
//!
//! | content | media type | text |
//! |---|---|---|
//! | PDF | `application/pdf` | its text layer, otherwise OCR |
//! | PNG, JPEG, TIFF | `image/…` | OCR |
//! | HTML | `text/html` | Markdown |
//! | mail with its header, name ends in `.eml` | `message/rfc822` | Markdown; attachments become documents |
//! | message of Outlook, by its class or with a name that ends in `.msg` | `application/vnd.ms-outlook` | as mail |
//! | ZIP, TAR, gzip (with a TAR archive) | `application/zip`, `application/x-tar`, `application/gzip` | the list of the members, which become documents |
//! | office documents (Microsoft, OpenDocument), RTF, EPUB | as detected | Markdown; a page for each sheet or slide |
//! | other text | `text/plain`, or by the name's extension `text/markdown`, `text/csv` | unchanged |
//! | other images, books and documents | as detected | none: stored as `no_text` |
//! | programs, other archives, audio, video, fonts, unknown content | refused with `UNSUPPORTED_TYPE` | – |
//!
//! The content determines the type. The extension only distinguishes types of text, and a media type declared by the
//! client is ignored.

use folio_types::{Error, Reason, Result};

use crate::plain;

/// Number of bytes at the start of a file that are sufficient for detection.
pub const SNIFF_BYTES: usize = 8 * 1024;

/// The method that extracts the text of a media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The text layer of a PDF, and OCR of pages without one.
    Pdf,
    /// OCR of an image with one page.
    Image,
    /// OCR of an image that may have several pages.
    Tiff,
    /// Plain text, Markdown or CSV.
    Text,
    /// An office document, HTML or mail.
    Office,
    /// The list of the members of an archive.
    Archive,
    None,
}

/// The media type of mail in the format of the internet.
pub(crate) const EML: &str = "message/rfc822";
/// The media type of a message of Outlook.
pub(crate) const MSG: &str = "application/vnd.ms-outlook";
pub(crate) const ZIP: &str = "application/zip";
pub(crate) const TAR: &str = "application/x-tar";
/// The media type of a compressed TAR archive.
pub(crate) const GZIP: &str = "application/gzip";
/// First bytes of a compound file: an office document or message of Microsoft.
const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
/// The class of the root of a compound file that is a message of Outlook.
const OUTLOOK_CLASS: &[u8] = b"\x0b\x0d\x02\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x46";
/// First bytes of a member of a ZIP archive.
const ZIP_MEMBER: &[u8] = b"PK\x03\x04";
/// The first member of most office documents.
const CONTENT_TYPES: &[u8] = b"[Content_Types].xml";

/// The media type of an office document of Microsoft whose first bytes do not determine the program.
pub(crate) const UNKNOWN_OFFICE: &str = "application/vnd.openxmlformats-officedocument";

pub fn route(media_type: &str) -> Route {
    match media_type {
        "application/pdf" => Route::Pdf,
        "image/png" | "image/jpeg" => Route::Image,
        "image/tiff" => Route::Tiff,
        "text/plain" | "text/markdown" | "text/csv" => Route::Text,
        ZIP | TAR | GZIP => Route::Archive,
        "text/html"
        | EML
        | MSG
        | "application/rtf"
        | "application/epub+zip"
        | "application/msword"
        | "application/vnd.ms-excel"
        | "application/vnd.ms-powerpoint" => Route::Office,
        office if office.starts_with(UNKNOWN_OFFICE) || office.starts_with("application/vnd.oasis.opendocument.") => {
            Route::Office
        }
        _ => Route::None,
    }
}

pub(crate) fn is_mail(media_type: &str) -> bool {
    matches!(media_type, EML | MSG)
}

/// Returns true for a file whose parts become documents.
pub(crate) fn has_parts(media_type: &str) -> bool {
    is_mail(media_type) || route(media_type) == Route::Archive
}

/// Returns true if the PDF rendition of a file shows the images of the file.
pub(crate) fn is_image(media_type: &str) -> bool {
    matches!(route(media_type), Route::Image | Route::Tiff)
        || matches!(media_type, "image/gif" | "image/webp" | "image/bmp")
}

/// Returns the media type of a file. `beginning`: its first [`SNIFF_BYTES`], or the whole shorter file.
///
/// # Errors
/// `UNSUPPORTED_TYPE`, and `INVALID_FIELD` for an empty file.
pub fn sniff(name: &str, beginning: &[u8]) -> Result<&'static str> {
    if beginning.is_empty() {
        return Err(Error::invalid_field("chunk", "the file is empty"));
    }
    // PDF readers accept bytes before the mark. A text that mentions the mark is not a PDF.
    let is_text = plain::looks_like_text(beginning);
    let first = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    let start = beginning.get(..1024).unwrap_or(beginning);
    // An archive may start with a PDF.
    let has_members = has_members(beginning);
    if first.starts_with(b"%PDF-") || (!is_text && !has_members && contains(start, b"%PDF-")) {
        return Ok("application/pdf");
    }
    if beginning.starts_with(COMPOUND) && is_message(name, beginning) {
        return Ok(MSG);
    }
    if beginning.starts_with(b"{\\rtf") {
        return Ok("application/rtf");
    }
    if beginning.starts_with(b"%!PS") {
        return Ok("application/postscript");
    }
    if is_text {
        return Ok(text_media_type(name, beginning));
    }
    binary_media_type(beginning)
}

fn text_media_type(name: &str, beginning: &[u8]) -> &'static str {
    let text = plain::decode(beginning);
    let head = text.trim_start().get(..15).unwrap_or(text.trim_start()).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
    match extension.as_str() {
        _ if head.starts_with("<!doctype html") || head.starts_with("<html") => "text/html",
        "eml" if begins_with_header(text.trim_start()) => EML,
        "md" | "markdown" => "text/markdown",
        "csv" | "tsv" => "text/csv",
        "html" | "htm" | "xhtml" if text.contains("</") || text.contains("/>") => "text/html",
        "txt" | "text" | "log" => "text/plain",
        _ if infer::text::is_html(beginning) => "text/html",
        _ => "text/plain",
    }
}

/// Returns true if the first line is a field of a mail header.
fn begins_with_header(text: &str) -> bool {
    let name = text.lines().next().and_then(|line| line.split_once(':')).map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}

fn binary_media_type(beginning: &[u8]) -> Result<&'static str> {
    use infer::MatcherType;
    let Some(found) = infer::get(beginning) else {
        return Err(unsupported("an unknown kind of binary file"));
    };
    match (found.matcher_type(), found.mime_type()) {
        (MatcherType::Image | MatcherType::Doc | MatcherType::Book, media_type) => Ok(media_type),
        (_, ZIP) if is_office_package(beginning) => Ok(UNKNOWN_OFFICE),
        (_, archive @ (ZIP | TAR | GZIP)) => Ok(archive),
        (_, media_type) => Err(unsupported(media_type)),
    }
}

/// Returns true for an archive, and for a compound file.
fn has_members(beginning: &[u8]) -> bool {
    beginning.starts_with(ZIP_MEMBER)
        || beginning.starts_with(COMPOUND)
        || beginning.starts_with(b"\x1f\x8b")
        || infer::archive::is_tar(beginning)
}

/// Returns true if a compound file is a message of Outlook. Without a class in its beginning, the name decides.
fn is_message(name: &str, beginning: &[u8]) -> bool {
    match root_class(beginning) {
        Some(class) if class.iter().any(|byte| *byte != 0) => class == OUTLOOK_CLASS,
        _ => name.to_ascii_lowercase().ends_with(".msg"),
    }
}

/// Returns the class of the root of a compound file. None: the directory is not in the beginning of the file.
fn root_class(beginning: &[u8]) -> Option<&[u8]> {
    let shift = u16::from_le_bytes(beginning.get(30..32)?.try_into().ok()?);
    let sector = u32::from_le_bytes(beginning.get(48..52)?.try_into().ok()?);
    // Sectors have 512 or 4,096 bytes; the header has the length of one.
    let size = 1_usize << shift.min(16);
    let directory = usize::try_from(sector).ok()?.checked_add(1)?.checked_mul(size)?;
    beginning.get(directory.checked_add(80)?..directory.checked_add(96)?)
}

/// Returns true if a ZIP archive is an office document: one of its own members is the list of content types. A member that is an
/// office document has such a list, too.
fn is_office_package(beginning: &[u8]) -> bool {
    let mut at = 0;
    while let Some((name, next)) = zip_member(beginning, at) {
        if name == CONTENT_TYPES {
            return true;
        }
        match next {
            Some(next) => at = next,
            // The size of the member follows its content.
            None => {
                return !name.to_ascii_lowercase().ends_with(b"x") && contains(beginning, CONTENT_TYPES);
            }
        }
    }
    false
}

/// Returns the name of the member at a position, and the position of the next member if it is known.
fn zip_member(beginning: &[u8], at: usize) -> Option<(&[u8], Option<usize>)> {
    let header = beginning.get(at..)?;
    let number = |at: usize| Some(usize::from(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?)));
    if !header.starts_with(ZIP_MEMBER) {
        return None;
    }
    let (flags, name, extra) = (number(6)?, number(26)?, number(28)?);
    let size = u32::from_le_bytes(header.get(18..22)?.try_into().ok()?);
    let end = at.checked_add(30 + name + extra)?.checked_add(usize::try_from(size).ok()?)?;
    Some((header.get(30..30 + name)?, (flags & 8 == 0).then_some(end)))
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn unsupported(what: &str) -> Error {
    Error::invalid_field(
        "chunk",
        format!(
            "{what} is not accepted; send PDF, PNG, JPEG, TIFF, text, Markdown, CSV, HTML, mail (EML, MSG), an archive (ZIP, \
             TAR, TAR.GZ) or an office document (other images are kept without text)"
        ),
    )
    .with_reason(Reason::UnsupportedType)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

    #[test]
    fn content_determines_the_type_and_names_do_not() {
        let cases: [(&str, &[u8], &str); 24] = [
            ("a.txt", b"%PDF-1.4\n%\xe2\xe3", "application/pdf"),
            ("a.txt", b"\xef\xbb\xbf\n%PDF-1.4\n1 0 obj", "application/pdf"),
            ("a.txt", b"Received: by mail\n\n%PDF-1.4\n\0\x01", "application/pdf"),
            ("notes.md", b"# PDF\n\nA file begins with %PDF-1.7.\n", "text/markdown"),
            ("scanner.log", b"08:01 no %PDF- in it\n", "text/plain"),
            ("a.pdf", b"just text", "text/plain"),
            ("a.pdf", PNG, "image/png"),
            ("a", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
            ("a", b"II*\0\x08\0\0\0\0\0\0\0\0\0", "image/tiff"),
            ("a.md", b"# Title\n\nText", "text/markdown"),
            ("a.MD", b"<b>bold</b> and more", "text/markdown"),
            ("a.csv", b"a,b\n1,2\n", "text/csv"),
            ("a.html", b"<p>hello</p>", "text/html"),
            ("a.txt", b" <!DOCTYPE html><title>x</title>", "text/html"),
            ("a.html", b"no markup at all", "text/plain"),
            ("BMW.txt", b"BMW invoice, MZ and PK and GIF8", "text/plain"),
            ("a.txt", b"Gr\xfc\xdfe aus K\xf6ln", "text/plain"),
            ("a.txt", b"\xff\xfeH\0i\0", "text/plain"),
            ("a.rtf", b"{\\rtf1\\ansi hello}", "application/rtf"),
            ("a.sh", b"#!/bin/sh\necho hi\n", "text/plain"),
            ("a.eml", b"Received: by mail\nFrom: a@example.org\n\nHello", "message/rfc822"),
            ("a.EML", b"\r\nDate: Mon, 2 Nov 2026 10:00:00 +0100\r\n\r\nHello", "message/rfc822"),
            ("a.eml", b"Dear reader: a text\n", "text/plain"),
            ("a.gif", b"GIF89a\x01\0\x01\0\0\0\0", "image/gif"),
        ];
        for (name, content, expected) in cases {
            assert_eq!(sniff(name, content), Ok(expected), "{name}");
        }
    }

    #[test]
    fn programs_archives_and_unknown_files_are_refused() {
        let elf: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let seven_zip: &[u8] = b"7z\xbc\xaf\x27\x1c\0\x04\0\0\0\0\0\0\0\0";
        for content in
            [elf, b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff", seven_zip, b"\x01\x02\x03\x04\x05\0\0\0", b"\0asm\x01\0\0\0"]
        {
            let refused = sniff("invoice.pdf", content).unwrap_err();
            assert_eq!(refused.reason, Reason::UnsupportedType, "{content:?}");
        }
        assert_eq!(sniff("a.txt", b"").unwrap_err().reason, Reason::InvalidField);
    }

    /// Returns the header of a stored member of a ZIP archive, and its content.
    fn member(name: &str, content: &[u8]) -> Vec<u8> {
        let size = u32::try_from(content.len()).unwrap().to_le_bytes();
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let start = [ZIP_MEMBER, &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &size, &size, &length, &[0, 0]].concat();
        [start.as_slice(), name.as_bytes(), content].concat()
    }

    #[test]
    fn archives_and_messages_are_accepted_with_files_of_other_types_in_them() {
        let office = [member("[Content_Types].xml", b"<Types/>"), member("word/document.xml", b"<d/>")].concat();
        let zip = [member("a.docx", &office), member("b.pdf", b"%PDF-1.4\n\0")].concat();
        assert_eq!(sniff("a.zip", &zip), Ok(ZIP), "the office document is a member");
        assert_eq!(sniff("a.zip", &member("b.pdf", b"%PDF-1.4\n\0")), Ok(ZIP));
        let late = [member("docs/app.xml", b"<a/>"), office].concat();
        assert_eq!(sniff("a.docx", &late), Ok(UNKNOWN_OFFICE));

        let mut tar = vec![0; 1024];
        tar[..5].copy_from_slice(b"b.pdf");
        tar[257..262].copy_from_slice(b"ustar");
        tar[512..520].copy_from_slice(b"%PDF-1.4");
        assert_eq!(sniff("a.tar", &tar), Ok(TAR));
        assert_eq!(sniff("a.tgz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03"), Ok(GZIP));

        let mut message = vec![0; 2048];
        message[..8].copy_from_slice(COMPOUND);
        message[30] = 9;
        message[48] = 1;
        assert_eq!(sniff("a.msg", &message), Ok(MSG), "the name decides without a class");
        assert!(sniff("a.bin", &message).is_err());
        message[1024 + 80..1024 + 96].copy_from_slice(OUTLOOK_CLASS);
        assert_eq!(sniff("a.bin", &message), Ok(MSG));
        message[1024 + 80] = 0x20;
        assert!(sniff("a.msg", &message).is_err(), "the class of another program");
        for media_type in [EML, MSG, ZIP, TAR, GZIP] {
            assert!(has_parts(media_type), "{media_type}");
        }
        assert!(!has_parts("application/pdf") && route(ZIP) == Route::Archive && route(MSG) == Route::Office);
    }

    #[test]
    fn office_documents_are_accepted() {
        let mut docx =
            b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0\x13\0\0\0[Content_Types].xml".to_vec();
        docx.extend(b"\0".repeat(64));
        let kind = sniff("a.docx", &docx).unwrap();
        assert!(kind.starts_with("application/vnd.openxmlformats-officedocument"), "{kind}");
        assert_eq!(route(kind), Route::Office);
        for (media_type, expected) in [
            ("application/rtf", Route::Office),
            ("application/vnd.oasis.opendocument.text", Route::Office),
            ("image/gif", Route::None),
            ("application/postscript", Route::None),
        ] {
            assert_eq!(route(media_type), expected, "{media_type}");
        }
    }
}
