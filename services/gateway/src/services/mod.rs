//! The services of the public API: one file each.

mod audit;
mod conversation;
mod credit;
mod document;
mod extraction;
mod limit;
mod messages;
mod model;
mod organization;
mod pending;
mod policy;
mod prompt;
mod provider;
mod schema;
mod tag;
mod thread;
mod token;
mod upload;
mod usage;

use std::sync::Arc;

use folio_cluster::{Limits, Shutdown, limited};
use folio_operations::{Call, Caller, Components, Operation, Operations};
use folio_proto::{status, v1};
use folio_types::{Error, Principal, Result};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::{Routes, RoutesBuilder};
use tonic::{Request, Response, Status};

use crate::serve::Gateway;

/// Every service of the API, on what they share.
#[derive(Clone)]
pub(crate) struct Api {
    gateway: Arc<Gateway>,
    operations: Operations,
    /// Cancelled when the drain begins.
    begin: CancellationToken,
    /// Cancelled when the drain is over.
    cut: CancellationToken,
}

/// The services as routes. Messages that come in are bounded; those that go out are as large as what was stored.
pub(crate) fn routes(gateway: Arc<Gateway>, shutdown: &Shutdown, tasks: TaskTracker) -> RoutesBuilder {
    let bytes = gateway.options.message_bytes;
    let (begin, cut) = (shutdown.begin.clone(), shutdown.cut.clone());
    let operations = Operations::new(components(&gateway, &tasks));
    let api = Api { gateway, operations, begin, cut };
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
        extraction_service_server::ExtractionServiceServer,
        model_service_server::ModelServiceServer,
        provider_service_server::ProviderServiceServer,
        organization_service_server::OrganizationServiceServer,
        policy_service_server::PolicyServiceServer,
        token_service_server::TokenServiceServer,
        credit_service_server::CreditServiceServer,
        limit_service_server::LimitServiceServer,
        usage_service_server::UsageServiceServer,
        audit_service_server::AuditServiceServer
    );
    routes
}

/// The components of a gateway that operations run on.
fn components(gateway: &Gateway, tasks: &TaskTracker) -> Components {
    Components {
        stores: gateway.stores.clone(),
        models: Arc::clone(&gateway.models),
        providers: gateway.providers.clone(),
        meter: Arc::clone(&gateway.meter),
        credit: gateway.credit.clone(),
        environment: Arc::clone(&gateway.environment),
        uploader: gateway.uploader.clone(),
        clean_up: gateway.clean_up.clone(),
        quotas: gateway.quotas,
        tasks: tasks.clone(),
    }
}

/// The page that a list request asks for: all of them have the same fields.
macro_rules! list_request {
    ($request:expr) => {
        folio_operations::ListRequest {
            page_size: $request.page_size,
            page_token: $request.page_token,
            skip: $request.skip,
            filter: $request.filter,
            order_by: $request.order_by,
        }
    };
}
use list_request;

/// `total_size`, as large as its field can be.
fn total_size(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// What a list request says of its page: all of them have the same fields.
macro_rules! asked {
    ($request:expr) => {
        crate::page::Asked {
            size: $request.page_size,
            token: &$request.page_token,
            skip: $request.skip,
            order_by: &$request.order_by,
        }
    };
}
use asked;

impl Api {
    /// Runs the operation that a request translates to, and translates its output.
    async fn call<Q, O: Operation, A>(
        &self,
        request: Request<Q>,
        call: impl FnOnce(Q) -> Result<Call<O>>,
        response: impl FnOnce(O::Output) -> A,
    ) -> Result<Response<A>, Status> {
        let caller = caller(&request)?;
        let call = call(request.into_inner()).map_err(status::from_error)?;
        let output = self.operations.run(&caller, call).await.map_err(status::from_error)?;
        Ok(Response::new(response(output)))
    }

    /// Limits of a stream of events.
    fn event_limits(&self) -> Limits {
        let options = &self.gateway.options;
        Limits { first: options.stream_first, idle: options.stream_idle, lifetime: options.stream_lifetime }
    }

    /// Limits of a transfer of bytes.
    fn transfer_limits(&self) -> Limits {
        let options = &self.gateway.options;
        Limits { first: options.transfer_idle, idle: options.transfer_idle, lifetime: options.transfer_lifetime }
    }
}

/// Who calls: put there by the layers.
fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let found = request.extensions().get::<Caller>().cloned();
    found.ok_or_else(|| status::from_error(Error::internal("a request reached its service without a caller")))
}

/// Who calls, for what asks no more than that.
fn principal<T>(request: &Request<T>) -> Result<Principal, Status> {
    caller(request).map(|caller| caller.principal)
}

/// What a service streams.
type Answer<T> = BoxStream<'static, Result<T, Status>>;

/// Answers with a stream within its limits.
fn streamed<T: Send + 'static>(
    source: impl Stream<Item = Result<T>> + Send + 'static,
    limits: Limits,
    cut: CancellationToken,
) -> Answer<T> {
    limited(source, limits, cut).map(|item| item.map_err(status::from_error)).boxed()
}

/// Answers a unary call.
async fn answer<Q, A, F>(request: Request<Q>, run: impl FnOnce(Principal, Q) -> F) -> Result<Response<A>, Status>
where
    F: Future<Output = Result<A>>,
{
    let principal = principal(&request)?;
    run(principal, request.into_inner()).await.map(Response::new).map_err(status::from_error)
}
