//! The JSON form of the messages of the public API, with the names of the proto files.

use folio_proto::v1;
use folio_types::{Error, Result};
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};

use crate::descriptors::POOL;

/// A message that handlers write as JSON.
pub(crate) trait ApiMessage: prost::Message {
    /// The full name of the message.
    const NAME: &'static str;
}

macro_rules! described {
    ($($message:ident),+) => {
        $(impl ApiMessage for v1::$message {
            const NAME: &'static str = concat!("folio.v1.", stringify!($message));
        })+
    };
}
described!(ApproveResponse, Event, Turn);

/// Returns a message with its descriptor.
pub(crate) fn describe<M: ApiMessage>(message: &M) -> Result<DynamicMessage> {
    let unknown = || Error::internal(format!("{} is not described", M::NAME));
    let descriptor = POOL.get_message_by_name(M::NAME).ok_or_else(unknown)?;
    decode(descriptor, &message.encode_to_vec())
}

/// Decodes a message.
pub(crate) fn decode(descriptor: MessageDescriptor, message: &[u8]) -> Result<DynamicMessage> {
    DynamicMessage::decode(descriptor, message).map_err(|error| unreadable(&error))
}

/// Returns a message as JSON. Fields with their default value are left out.
pub(crate) fn to_json(message: &DynamicMessage) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    let options = SerializeOptions::new().use_proto_field_name(true);
    let mut serializer = serde_json::Serializer::new(&mut json);
    message.serialize_with_options(&mut serializer, &options).map_err(|error| unreadable(&error))?;
    Ok(json)
}

fn unreadable(error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("a response cannot be translated: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_a_handler_is_described() {
        for name in [v1::ApproveResponse::NAME, v1::Event::NAME, v1::Turn::NAME] {
            assert!(POOL.get_message_by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn names_are_those_of_the_proto_files() {
        let event = v1::Event { turn_id: "thr_1.1".into(), number: 7, ..v1::Event::default() };
        let json = to_json(&describe(&event).unwrap()).unwrap();
        let expected = serde_json::json!({ "turn_id": "thr_1.1", "number": "7" });
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap(), expected);
    }
}
