//! Calls of any operation by its name, with requests and responses as JSON.

use std::sync::LazyLock;

use bytes::{Buf as _, BufMut as _};
use folio_gateway::rpc_path;
use folio_operations::{Declaration, operations};
use folio_proto::{FILE_DESCRIPTOR_SET, status};
use folio_types::Error;
use http::uri::PathAndQuery;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, SerializeOptions};
use serde_json::Value;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status};

use crate::harness::Client;

/// Returns the declaration of an operation.
pub(crate) fn operation(name: &str) -> &'static Declaration {
    operations().find(|operation| operation.name == name).unwrap_or_else(|| panic!("no operation is named {name}"))
}

fn method(operation: &Declaration) -> MethodDescriptor {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap());
    let service = POOL.get_service_by_name(&format!("folio.v1.{}", operation.service.name)).unwrap();
    service.methods().find(|method| method.name() == operation.name).unwrap()
}

/// Calls an operation. A request to a client stream is an array of messages; of a stream of responses the first one is
/// returned.
pub(crate) async fn call(client: &Client, operation: &Declaration, request: &Value) -> Result<Value, Error> {
    let method = method(operation);
    let encode = |message: &Value| DynamicMessage::deserialize(method.input(), message).unwrap().encode_to_vec();
    let messages = match request {
        Value::Array(messages) => messages.iter().map(encode).collect(),
        message => vec![encode(message)],
    };
    let response = send(client, operation, messages).await.map_err(|status| status::to_error(&status))?;
    let response = DynamicMessage::decode(method.output(), response.as_slice()).unwrap();
    let options = SerializeOptions::new().use_proto_field_name(true);
    Ok(response.serialize_with_options(serde_json::value::Serializer, &options).unwrap())
}

/// Sends encoded messages and returns the first encoded message of the response. Empty: the response is an empty stream.
pub(crate) async fn send(client: &Client, operation: &Declaration, messages: Vec<Vec<u8>>) -> Result<Vec<u8>, Status> {
    let path: PathAndQuery = rpc_path(operation).parse().unwrap();
    let method = method(operation);
    let mut grpc = tonic::client::Grpc::new(client.authorized());
    grpc.ready().await.unwrap();
    if method.is_server_streaming() {
        let message = Request::new(messages.into_iter().next().unwrap_or_default());
        let mut responses = grpc.server_streaming(message, path, Encoded).await?.into_inner();
        return responses.message().await.map(Option::unwrap_or_default);
    }
    let messages = Request::new(tokio_stream::iter(messages));
    grpc.client_streaming(messages, path, Encoded).await.map(Response::into_inner)
}

/// A codec of encoded messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Encoded;

impl Codec for Encoded {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Encoded {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).into()))
    }
}
