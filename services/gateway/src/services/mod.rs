//! The services of the public API, one in each file.

mod account;
mod audit;
mod collection;
mod completion;
mod conversation;
mod credit;
mod dictionary;
mod document;
mod document_structure;
mod extraction;
mod grid;
mod handler;
mod inbox;
mod ingestion;
mod job;
mod limit;
mod link;
mod mcp_server;
mod model;
mod organization;
mod policy;
mod prompt;
mod proposal;
mod provider;
mod retrieval;
mod schema;
mod stack;
mod tag;
mod thread;
mod token;
mod upload;
mod usage;
mod user;
mod webhook_endpoint;

use folio_cluster::{LimitedStream, Shutdown, StreamLimits, draining, limited};
use folio_operations::{Call, Caller, Operation, Operations};
use folio_proto::{status, v1};
use folio_types::{Error, Result};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use http::HeaderValue;
use tokio_util::sync::CancellationToken;
use tonic::service::{Routes, RoutesBuilder};
use tonic::{Request, Response, Status};

use crate::faces::ANY_ORIGIN;
use crate::layers::IMAGE_MESSAGE_BYTES;
use crate::options::Options;
use crate::rest::{Spools, UploadLimits};
use crate::serve::Gateway;

/// Implements every service of the API.
#[derive(Clone)]
pub(crate) struct Api {
    operations: Operations,
    options: Options,
    /// Cancelled when the drain begins.
    drain_started: CancellationToken,
    /// Cancelled when the drain is over.
    drain_ended: CancellationToken,
    /// The files that REST routes receive.
    spools: Spools,
}

/// Returns the services as routes. The options bound the size of request messages; the size of response messages is not
/// bounded.
pub(crate) fn routes(api: &Api) -> RoutesBuilder {
    // The layers bound the messages of each operation (`request_body`).
    let bytes = api.options.message_bytes.max(IMAGE_MESSAGE_BYTES);
    let mut routes = Routes::builder();
    macro_rules! serve {
        ($($module:ident :: $server:ident),+) => {
            $(routes.add_service(v1::$module::$server::new(api.clone()).max_decoding_message_size(bytes));)+
        };
    }
    serve!(
        conversation_service_server::ConversationServiceServer,
        thread_service_server::ThreadServiceServer,
        document_service_server::DocumentServiceServer,
        schema_service_server::SchemaServiceServer,
        prompt_service_server::PromptServiceServer,
        tag_service_server::TagServiceServer,
        collection_service_server::CollectionServiceServer,
        dictionary_service_server::DictionaryServiceServer,
        link_service_server::LinkServiceServer,
        retrieval_service_server::RetrievalServiceServer,
        stack_service_server::StackServiceServer,
        extraction_service_server::ExtractionServiceServer,
        proposal_service_server::ProposalServiceServer,
        job_service_server::JobServiceServer,
        ingestion_service_server::IngestionServiceServer,
        inbox_service_server::InboxServiceServer,
        model_service_server::ModelServiceServer,
        provider_service_server::ProviderServiceServer,
        completion_service_server::CompletionServiceServer,
        organization_service_server::OrganizationServiceServer,
        policy_service_server::PolicyServiceServer,
        token_service_server::TokenServiceServer,
        credit_service_server::CreditServiceServer,
        limit_service_server::LimitServiceServer,
        usage_service_server::UsageServiceServer,
        audit_service_server::AuditServiceServer,
        webhook_endpoint_service_server::WebhookEndpointServiceServer,
        mcp_server_service_server::McpServerServiceServer,
        user_service_server::UserServiceServer,
        account_service_server::AccountServiceServer
    );
    routes
}

/// Translates the page fields of a list request, which are the same in every list.
macro_rules! list_request {
    ($request:expr) => {
        folio_operations::ListRequest {
            page_size: $request.page_size,
            page_token: $request.page_token,
            skip: $request.skip,
            filter: $request.filter,
            order_by: $request.order_by,
            grid: None,
        }
    };
}
use list_request;

/// Translates the period of a request.
macro_rules! period {
    ($request:expr) => {
        folio_operations::Period {
            start_time: folio_proto::time::optional_from_proto("start_time", $request.start_time.as_ref())?,
            end_time: folio_proto::time::optional_from_proto("end_time", $request.end_time.as_ref())?,
        }
    };
}
use period;

/// Converts a count to `total_size`; a larger number becomes `i32::MAX`.
fn total_size(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl Api {
    pub(crate) fn new(gateway: Gateway, shutdown: &Shutdown) -> Self {
        let Gateway { components, options, .. } = gateway;
        let (drain_started, drain_ended) = (shutdown.begin.clone(), shutdown.abort.clone());
        let spools = Spools::new(&options);
        Self { operations: Operations::new(components), options, drain_started, drain_ended, spools }
    }

    pub(crate) fn spools(&self) -> &Spools {
        &self.spools
    }

    pub(crate) fn upload_limits(&self) -> UploadLimits {
        let limits = self.transfer_limits();
        UploadLimits {
            file_bytes: self.operations.document_bytes_max(),
            idle: limits.idle_timeout,
            lifetime: limits.max_lifetime,
        }
    }

    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Translates a request to an operation, runs the operation, and translates its output.
    async fn call<Q, O: Operation, A>(
        &self,
        request: Request<Q>,
        call: impl FnOnce(Q) -> Result<Call<O>>,
        response: impl FnOnce(O::Output) -> A,
    ) -> RpcResult<A> {
        let caller = caller(&request)?;
        let call = call(request.into_inner()).map_err(status::from_error)?;
        let output = self.operations.run(&caller, call).await.map_err(status::from_error)?;
        Ok(Response::new(response(output)))
    }

    /// Returns true if pages of an origin may call this server.
    pub(crate) fn permits_origin(&self, origin: &HeaderValue) -> bool {
        let permitted = &self.options.cors_origins;
        permitted.iter().any(|permitted| permitted == ANY_ORIGIN || permitted.as_bytes() == origin.as_bytes())
    }

    /// Bounds a stream of events that another face reads. The end of the stream does not end the turn.
    pub(crate) fn bounded_events<T: Send + 'static>(
        &self,
        events: impl Stream<Item = Result<T>> + Send + 'static,
    ) -> LimitedStream<T> {
        limited(events, self.event_limits(), self.drain_ended.clone())
    }

    fn event_limits(&self) -> StreamLimits {
        let options = &self.options;
        StreamLimits {
            initial_item_timeout: options.stream_first,
            idle_timeout: options.stream_idle,
            max_lifetime: options.stream_lifetime,
        }
    }

    /// Bounds a stream of states or changes. The drain ends it, because it may last for hours.
    pub(crate) fn watched<T: Send + 'static>(
        &self,
        source: impl Stream<Item = Result<T>> + Send + 'static,
    ) -> BoxStream<'static, Result<T, Status>> {
        let drain = self.drain_started.clone();
        let source = source.take_until(drain.clone().cancelled_owned());
        let end = stream::once(async move { drain.is_cancelled().then(|| Err(draining())) });
        let source = source.chain(end.filter_map(std::future::ready));
        bounded_stream(source, self.event_limits(), self.drain_ended.clone())
    }

    /// Bounds the stream of a download.
    pub(crate) fn transfer<T: Send + 'static>(
        &self,
        items: impl Stream<Item = Result<T>> + Send + 'static,
    ) -> BoxStream<'static, Result<T, Status>> {
        bounded_stream(items, self.transfer_limits(), self.drain_ended.clone())
    }

    fn transfer_limits(&self) -> StreamLimits {
        let options = &self.options;
        StreamLimits {
            initial_item_timeout: options.transfer_idle,
            idle_timeout: options.transfer_idle,
            max_lifetime: options.transfer_lifetime,
        }
    }
}

/// Returns the caller that the layers authenticated.
fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let found = request.extensions().get::<Caller>().cloned();
    found.ok_or_else(|| status::from_error(Error::internal("a request reached its service without a caller")))
}

type RpcResult<T> = Result<Response<T>, Status>;

type ResponseStream<T> = BoxStream<'static, Result<T, Status>>;

fn bounded_stream<T: Send + 'static>(
    source: impl Stream<Item = Result<T>> + Send + 'static,
    limits: StreamLimits,
    drain_ended: CancellationToken,
) -> ResponseStream<T> {
    limited(source, limits, drain_ended).map(|item| item.map_err(status::from_error)).boxed()
}
