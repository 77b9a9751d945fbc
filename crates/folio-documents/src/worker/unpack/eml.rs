//! Attachments of mails in the format of the internet.

use mail_parser::{MessageParser, MessagePart, MimeHeaders as _, PartType};

use super::{Parts, Stop};

pub(super) fn read(input: &[u8], parts: &mut Parts<'_>) -> Result<(), Stop> {
    let Some(mail) = MessageParser::default().parse(input) else {
        return Err(Stop::Refused("the file is damaged: it cannot be read as a mail".to_owned()));
    };
    for attachment in mail.attachments().filter(|attachment| !is_image_of_text(attachment)) {
        parts.count_entry()?;
        parts.add(&name(attachment), attachment.contents(), None)?;
    }
    Ok(())
}

/// Returns true for an image that the text of the mail shows, such as a logo.
fn is_image_of_text(attachment: &MessagePart<'_>) -> bool {
    let is_attachment = attachment.content_disposition().is_some_and(|disposition| disposition.is_attachment());
    let is_image = attachment.content_type().is_some_and(|kind| kind.ctype().eq_ignore_ascii_case("image"));
    is_image && !is_attachment && attachment.content_id().is_some()
}

/// Returns the file name. A mail without one has its subject.
fn name(attachment: &MessagePart<'_>) -> String {
    let name = attachment.attachment_name().unwrap_or_default();
    match &attachment.body {
        // The extension makes the document a mail.
        PartType::Message(mail) if !name.to_ascii_lowercase().ends_with(".eml") => {
            let name = Some(name).filter(|name| !name.is_empty()).or_else(|| mail.subject()).unwrap_or("mail");
            format!("{}.eml", name.replace(['/', '\\'], " "))
        }
        _ => name.to_owned(),
    }
}
