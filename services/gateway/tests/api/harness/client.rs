//! A caller of a test server.

use std::time::Duration;

use folio_proto::v1;
use folio_types::{Error, OrgId, UserId};
use serde_json::{Value, json};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::calls;

/// The headers of a caller.
#[derive(Clone)]
pub(crate) struct Bearer {
    authorization: Option<MetadataValue<Ascii>>,
    organization: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in [("authorization", &self.authorization), ("folio-organization", &self.organization)] {
            if let Some(value) = value {
                request.metadata_mut().insert(name, value.clone());
            }
        }
        Ok(request)
    }
}

pub(crate) type Authorized = InterceptedService<Channel, Bearer>;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) org: OrgId,
    pub(crate) user: UserId,
    pub(crate) channel: Channel,
    bearer: Bearer,
}

macro_rules! services {
    ($($name:ident: $module:ident :: $client:ident),+ $(,)?) => {
        $(pub(crate) fn $name(&self) -> v1::$module::$client<Authorized> {
            v1::$module::$client::new(self.authorized()).max_decoding_message_size(64 * 1024 * 1024)
        })+
    };
}

impl Client {
    pub(super) fn new(channel: Channel, org: OrgId, user: UserId, token: Option<&str>) -> Self {
        Self::with_authorization(channel, org, user, token.map(|token| format!("Bearer {token}")).as_deref())
    }

    /// Returns a caller with any header `authorization`.
    pub(super) fn with_authorization(channel: Channel, org: OrgId, user: UserId, authorization: Option<&str>) -> Self {
        let authorization = authorization.map(|value| value.parse().unwrap());
        Self { org, user, channel, bearer: Bearer { authorization, organization: None } }
    }

    /// Returns the same caller with another selected organization.
    pub(crate) fn in_organization(&self, org: Option<&OrgId>) -> Self {
        let mut client = self.clone();
        client.bearer.organization = org.map(|org| org.as_str().parse().unwrap());
        client
    }

    /// Returns the same caller on another connection.
    pub(crate) fn on(&self, channel: Channel) -> Self {
        Self { channel, ..self.clone() }
    }

    /// Returns the header `authorization` of the caller.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.bearer.authorization.as_ref().map(|value| value.to_str().unwrap().to_owned())
    }

    /// Returns the header `folio-organization` of the caller.
    pub(crate) fn organization(&self) -> Option<String> {
        self.bearer.organization.as_ref().map(|value| value.to_str().unwrap().to_owned())
    }

    pub(crate) fn authorized(&self) -> Authorized {
        InterceptedService::new(self.channel.clone(), self.bearer.clone())
    }

    services! {
        conversations: conversation_service_client::ConversationServiceClient,
        inbox: inbox_service_client::InboxServiceClient,
        documents: document_service_client::DocumentServiceClient,
        tags: tag_service_client::TagServiceClient,
        audits: audit_service_client::AuditServiceClient,
    }

    /// Calls an operation by its name. Fields of the response that have their default value are absent.
    pub(crate) async fn call(&self, name: &str, request: Value) -> Result<Value, Error> {
        calls::call(self, calls::operation(name), &request).await
    }

    pub(crate) async fn call_ok(&self, name: &str, request: Value) -> Value {
        self.call(name, request).await.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) async fn refusal(&self, name: &str, request: Value) -> Error {
        self.call(name, request).await.expect_err(name)
    }

    /// Calls an operation with a stream of responses that succeeds, and returns all responses.
    pub(crate) async fn stream(&self, name: &str, request: Value) -> Vec<Value> {
        let responses = calls::call_fully(self, calls::operation(name), &request).await;
        let mut responses = responses.unwrap_or_else(|error| panic!("{name}: {error}"));
        std::mem::take(responses.as_array_mut().unwrap())
    }

    pub(crate) async fn upload(&self, name: &str, text: &str, request_id: &str) -> Result<v1::Document, Status> {
        let description = v1::DocumentDescription {
            name: name.into(),
            request_id: request_id.into(),
            size_bytes: text.len() as u64,
            ..Default::default()
        };
        let parts = [
            v1::upload_document_request::Part::Description(description),
            v1::upload_document_request::Part::Chunk(text.as_bytes().to_vec()),
        ];
        let parts = parts.map(|part| v1::UploadDocumentRequest { part: Some(part) });
        let answer = self.documents().upload_document(tokio_stream::iter(parts)).await?;
        Ok(answer.into_inner().document.unwrap())
    }

    /// Uploads a text file and waits for its text.
    pub(crate) async fn ready_document(&self, name: &str, text: &str) -> v1::Document {
        let document = self.upload(name, text, "").await.unwrap();
        folio_testkit::wait_for("the text of a document", Duration::from_secs(60), || async {
            let request = v1::GetDocumentRequest { document_id: document.document_id.clone() };
            let found = self.documents().get_document(request).await.unwrap().into_inner().document.unwrap();
            (found.state() == v1::DocumentState::Ready).then_some(found)
        })
        .await
    }

    pub(crate) async fn tag(&self, name: &str) -> String {
        id(self.call_ok("CreateTag", json!({"tag": {"name": name}})).await, "/tag/tag_id")
    }

    /// Creates a schema with one property.
    pub(crate) async fn schema(&self, name: &str, property: &str) -> String {
        let request = json!({"schema": {"name": name, "response_format_json": format(property)}});
        id(self.call_ok("CreateSchema", request).await, "/schema/schema_id")
    }

    pub(crate) async fn prompt(&self, name: &str, schema: &str) -> String {
        let request = json!({"prompt": {"name": name, "content": "Read the total.", "schema_revid": schema}});
        id(self.call_ok("CreatePrompt", request).await, "/prompt/prompt_revid")
    }
}

fn id(response: Value, pointer: &str) -> String {
    response.pointer(pointer).unwrap().as_str().unwrap().to_owned()
}

/// A strict response format with one number.
pub(crate) fn format(property: &str) -> String {
    json!({
        "type": "json_schema",
        "json_schema": {
            "name": "invoice",
            "strict": true,
            "schema": {
                "type": "object",
                "properties": { property: { "type": "number" } },
                "required": [property],
                "additionalProperties": false
            }
        }
    })
    .to_string()
}
