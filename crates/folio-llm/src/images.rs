//! Images of a request: their bytes by id, and their parts of a message in the format of the endpoint.

use std::collections::BTreeMap;
use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use folio_types::MessageImageId;
use folio_types::limits::MESSAGE_IMAGES_MAX;
use folio_types::message::{Message, MessageImage};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use crate::tokens::{count_tokens, image_tokens};

/// Maximum number of images of a request. Endpoints accept between 10 and 3,000.
pub const REQUEST_IMAGES_MAX: usize = 2 * MESSAGE_IMAGES_MAX;
/// The member before the data of an image in the body of a request. Its quotation marks cannot occur in a text, because a text
/// escapes them.
const URL_START: &str = "\"url\":\"data:";

/// The bytes of images by id. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestImages(BTreeMap<MessageImageId, Bytes>);

impl fmt::Debug for RequestImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl RequestImages {
    /// Returns the images of the newest messages that a request sends, at most [`REQUEST_IMAGES_MAX`], the newest first and each once.
    pub fn selected(messages: &[Message]) -> Vec<&MessageImage> {
        let mut selected: Vec<&MessageImage> = Vec::new();
        for image in messages.iter().rev().flat_map(|message| message.images().iter().rev()) {
            if selected.len() == REQUEST_IMAGES_MAX {
                break;
            }
            if selected.iter().all(|listed| listed.id != image.id) {
                selected.push(image);
            }
        }
        selected
    }

    pub fn insert(&mut self, id: MessageImageId, bytes: Bytes) {
        self.0.insert(id, bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, image: &MessageImage) -> Option<&Bytes> {
        self.0.get(&image.id)
    }

    /// Returns the bytes of the images of messages in the body of a request.
    pub(crate) fn body_bytes(&self, messages: &[Message]) -> usize {
        let images = messages.iter().flat_map(Message::images);
        images.filter_map(|image| self.get(image)).map(|bytes| bytes.len().div_ceil(3).saturating_mul(4)).sum()
    }

    /// Returns an upper estimate of the tokens of the images of messages that are sent.
    pub(crate) fn tokens(&self, messages: &[Message]) -> u64 {
        let sent = messages.iter().flat_map(Message::images).filter(|image| self.get(image).is_some());
        sent.map(|image| image_tokens(image.width, image.height)).fold(0, u64::saturating_add)
    }
}

/// The content of a message of the user: a text, or a text and its images.
pub(crate) struct UserContent<'a> {
    pub(crate) text: &'a str,
    pub(crate) images: &'a [MessageImage],
    /// None: the model has no vision.
    pub(crate) sent: Option<&'a RequestImages>,
}

impl Serialize for UserContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.images.is_empty() {
            return serializer.serialize_str(self.text);
        }
        let Some(sent) = self.sent else {
            let (text, count) = (self.text, self.images.len());
            let text =
                format!("{text}\n\n[The images of this message ({count}) were not sent: the model accepts no images.]");
            return serializer.serialize_str(&text);
        };
        let mut parts = serializer.serialize_seq(Some(self.images.len().saturating_add(1)))?;
        parts.serialize_element(&Part::Text { text: self.text })?;
        for (number, image) in (1_usize..).zip(self.images) {
            match sent.get(image) {
                Some(bytes) => {
                    let url = DataUrl { media_type: &image.media_type, bytes };
                    parts.serialize_element(&Part::ImageUrl { image_url: ImageUrl { url } })?;
                }
                None => {
                    let text = format!("[Image {number} of this message is not available.]");
                    parts.serialize_element(&Part::Text { text: &text })?;
                }
            }
        }
        parts.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

/// `url` is the only member, because [`text_tokens`] finds the data by it.
#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

struct DataUrl<'a> {
    media_type: &'a str,
    bytes: &'a [u8],
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.media_type, Base64Display::new(self.bytes, &STANDARD))
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns an upper estimate of the tokens of the body of a request, without the data of its images.
pub(crate) fn text_tokens(body: &str) -> u64 {
    let (mut tokens, mut rest) = (0_u64, body);
    while let Some((text, after)) = rest.split_once(URL_START) {
        tokens = tokens.saturating_add(count_tokens(text));
        rest = after.split_once('"').map_or("", |(_, rest)| rest);
    }
    tokens.saturating_add(count_tokens(rest))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the reference to an image of 512 x 256 pixels.
    pub(crate) fn image(name: &str) -> MessageImage {
        MessageImage {
            id: MessageImageId::derive(&[name]),
            media_type: "image/jpeg".into(),
            width: 512,
            height: 256,
            bytes: 3,
        }
    }

    fn with_images(names: &[&str]) -> Message {
        Message::User { text: "look".into(), images: names.iter().map(|name| image(name)).collect() }
    }

    #[test]
    fn the_newest_images_of_a_request_are_sent_once_each() {
        let messages = [
            with_images(&["a", "b", "c", "d"]),
            with_images(&["e", "f", "g"]),
            Message::user("x"),
            with_images(&["h", "b", "i"]),
        ];
        let selected: Vec<_> = RequestImages::selected(&messages).iter().map(|image| image.id.clone()).collect();
        let expected = ["i", "b", "h", "g", "f", "e", "d", "c"].map(|name| MessageImageId::derive(&[name]));
        assert_eq!(selected, expected);
        assert_eq!(selected.len(), REQUEST_IMAGES_MAX, "the oldest image is not sent");
    }

    #[test]
    fn the_data_of_images_is_no_text() {
        let mut sent = RequestImages::default();
        sent.insert(image("a").id, Bytes::from(vec![7; 30_000]));
        let images = [image("a"), image("lost")];
        let content =
            UserContent { text: "a \"url\":\"data:image/png;base64,quoted text", images: &images, sent: Some(&sent) };
        let body = serde_json::to_string(&content).unwrap();
        assert!(body.len() > 40_000 && body.contains("[Image 2 of this message is not available.]"), "{}", body.len());
        let tokens = text_tokens(&body);
        assert!((40..200).contains(&tokens), "the text counts, and the image does not: {tokens}");
        assert_eq!(text_tokens("no image"), count_tokens("no image"));
        let messages = [Message::User { text: String::new(), images: images.to_vec() }];
        assert_eq!((sent.body_bytes(&messages), sent.tokens(&messages)), (40_000, image_tokens(512, 256)));
    }

    #[test]
    fn the_debug_form_contains_no_bytes() {
        let mut sent = RequestImages::default();
        sent.insert(image("a").id, Bytes::from_static(b"secret"));
        assert_eq!(format!("{sent:?}"), format!("{{{}}}", image("a").id));
    }
}
