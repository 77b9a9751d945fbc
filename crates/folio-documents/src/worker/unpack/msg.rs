//! Attachments of Outlook messages (MS-OXMSG).
//!
//! A message is a compound file. An attachment is a storage with a stream of fixed properties and a stream for each other
//! property. An attached message is a storage in the storage of its attachment, and becomes a file of its own.

use std::io::{self, Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cfb::CompoundFile;

use super::{Parts, Stop, damaged};
use crate::plain;

type Message = CompoundFile<Cursor<Vec<u8>>>;

/// Stream with the properties of a fixed size.
const PROPERTIES: &str = "__properties_version1.0";
const ATTACHMENT: &str = "__attach_version1.0_#";
/// Storage of an attached message or OLE object.
const OBJECT: &str = "__substg1.0_3701000D";
/// Stream with the bytes of an attached file.
const BYTES: &str = "__substg1.0_37010102";
/// Properties with the name of an attachment: the long file name, the short one, the displayed name.
const NAMES: [u16; 3] = [0x3707, 0x3704, 0x3001];
const SUBJECT: u16 = 0x0037;
/// The method by which an attachment is stored.
const METHOD: u16 = 0x3705;
const FLAGS: u16 = 0x3714;
const IS_HIDDEN: u16 = 0x7ffe;
/// A flag of an image that the text of the message shows.
const IS_IN_TEXT: u32 = 4;
const BY_VALUE: u32 = 1;
const ATTACHED_MESSAGE: u32 = 5;
const OLE_OBJECT: u32 = 6;
/// Bytes before the properties of an attachment.
const ATTACHMENT_HEADER: usize = 8;
/// Length of the header of an attached message. The header of a file is [`HEADER_GROWTH`] bytes longer.
const MESSAGE_HEADER: usize = 24;
const HEADER_GROWTH: usize = 8;
/// Maximum size of a name and of the properties, in bytes.
const PROPERTY_BYTES: u64 = 64 * 1024;
/// Maximum number of storages and streams of an attached message.
const STREAMS_MAX: usize = 10_000;

pub(super) fn read(input: Vec<u8>, parts: &mut Parts<'_>) -> Result<(), Stop> {
    let mut message = CompoundFile::open(Cursor::new(input)).map_err(damaged)?;
    if !message.is_stream(Path::new("/").join(PROPERTIES)) {
        return Err(Stop::Refused("the file is not an Outlook message".to_owned()));
    }
    let entries = message.read_root_storage();
    let attachments = entries.filter(|entry| entry.is_storage() && entry.name().starts_with(ATTACHMENT));
    let mut attachments: Vec<PathBuf> = attachments.map(|entry| entry.path().to_owned()).collect();
    attachments.sort();
    for attachment in attachments {
        parts.count_entry()?;
        add(&mut message, &attachment, parts)?;
    }
    Ok(())
}

fn add(message: &mut Message, attachment: &Path, parts: &mut Parts<'_>) -> Result<(), Stop> {
    let properties = bytes(message, &attachment.join(PROPERTIES), PROPERTY_BYTES).unwrap_or_default();
    let property = |id| fixed_property(properties.get(ATTACHMENT_HEADER..).unwrap_or_default(), id);
    if property(IS_HIDDEN).is_some_and(|hidden| hidden & 0xffff != 0) || property(FLAGS).unwrap_or(0) & IS_IN_TEXT != 0
    {
        return Ok(());
    }
    let name = NAMES.into_iter().find_map(|id| text(message, attachment, id)).unwrap_or_default();
    match property(METHOD).unwrap_or(BY_VALUE) {
        BY_VALUE => {
            let max = parts.bytes_left().saturating_add(1);
            match bytes(message, &attachment.join(BYTES), max) {
                Ok(content) => parts.add(&name, content.as_slice(), None),
                Err(error) => parts.refuse(&name, format_args!("it cannot be read: {error}")),
            }
        }
        ATTACHED_MESSAGE => {
            let object = attachment.join(OBJECT);
            let subject = Some(name).filter(|name| !name.is_empty()).or_else(|| text(message, &object, SUBJECT));
            let name = format!("{}.msg", subject.as_deref().unwrap_or("mail").replace(['/', '\\'], " "));
            match attached_message(message, &object, parts.bytes_left()) {
                Ok(content) => parts.add(&name, content.as_slice(), None),
                Err(error) => parts.refuse(&name, format_args!("it cannot be read: {error}")),
            }
        }
        OLE_OBJECT => parts.refuse(&name, "OLE objects are not accepted"),
        _ => parts.refuse(&name, "it is a link to a file that the message does not contain"),
    }
}

/// Returns at most `max` bytes of a stream.
fn bytes(message: &mut Message, path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    message.open_stream(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the first four bytes of a property of a fixed size. None: the list has no such property.
fn fixed_property(properties: &[u8], id: u16) -> Option<u32> {
    let number = |entry: &[u8], at: usize| Some(u32::from_le_bytes(entry.get(at..at + 4)?.try_into().ok()?));
    let mut entries = properties.chunks_exact(16);
    let entry = entries.find(|entry| number(entry, 0).is_some_and(|tag| tag >> 16 == u32::from(id)))?;
    number(entry, 8)
}

/// Returns a text property. None: it is missing or blank.
fn text(message: &mut Message, storage: &Path, id: u16) -> Option<String> {
    let stream = |kind: &str| storage.join(format!("__substg1.0_{id:04X}{kind}"));
    let text = match bytes(message, &stream("001F"), PROPERTY_BYTES) {
        Ok(bytes) => {
            let units = bytes.chunks_exact(2).filter_map(|unit| Some(u16::from_le_bytes(unit.try_into().ok()?)));
            String::from_utf16_lossy(&units.collect::<Vec<_>>())
        }
        Err(_) => plain::decode(&bytes(message, &stream("001E"), PROPERTY_BYTES).ok()?).into_owned(),
    };
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns an attached message as a file.
fn attached_message(message: &mut Message, object: &Path, max: u64) -> io::Result<Vec<u8>> {
    let entries: Vec<_> = message
        .walk_storage(object)?
        .take(STREAMS_MAX + 1)
        .map(|entry| (entry.path().to_owned(), entry.is_storage()))
        .collect();
    if entries.len() > STREAMS_MAX {
        return Err(io::Error::other(format!("the message has more than {STREAMS_MAX} streams")));
    }
    let mut file = CompoundFile::create(Cursor::new(Vec::new()))?;
    let mut left = max;
    for (path, is_storage) in entries {
        let Some(relative) = path.strip_prefix(object).ok().filter(|path| !path.as_os_str().is_empty()) else {
            continue;
        };
        let to = Path::new("/").join(relative);
        if is_storage {
            file.create_storage(&to)?;
            continue;
        }
        let mut content = bytes(message, &path, left.saturating_add(1))?;
        left = left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| io::Error::other(format!("the message has more than {max} bytes")))?;
        if relative == Path::new(PROPERTIES) && content.len() >= MESSAGE_HEADER {
            content.splice(MESSAGE_HEADER..MESSAGE_HEADER, [0; HEADER_GROWTH]);
        }
        file.create_stream(&to)?.write_all(&content)?;
    }
    file.flush()?;
    Ok(file.into_inner().into_inner())
}
