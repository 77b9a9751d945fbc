//! Handlers that follow a standard method of the API: each macro declares one handler of a service. A handler translates
//! the request to a call of its operation and the output to the response.
//!
//! ```text
//! get!(get_tag, GetTagRequest, GetTag { tag_id }, GetTagResponse { tag });
//! list!(list_tokens, ListTokensRequest, ListTokens {}, ListTokensResponse { tokens });
//! grid_list!(list_tags, ListTagsRequest, ListTags, ListTagsResponse { tags: Into::into });
//! delete!(delete_tag, DeleteTagRequest, DeleteTag { tag_id }, DeleteTagResponse);
//! change!(create_tag, CreateTagRequest, CreateTagResponse { tag }, |request| CreateTag { name: request.name });
//! ```
//!
//! A response field is converted by `Into`, or by the function that follows it: `{ grant: to_proto }`.

/// Declares a handler from its name, its messages, the translation of the request, and the translation of the output.
macro_rules! handler {
    ($name:ident, $request:ident, $response:ident, $call:expr, $answer:expr) => {
        fn $name<'api, 'call>(
            &'api self,
            request: tonic::Request<folio_proto::v1::$request>,
        ) -> futures::future::BoxFuture<'call, super::RpcResult<folio_proto::v1::$response>>
        where
            'api: 'call,
            Self: 'call,
        {
            let call = $call;
            Box::pin(self.call(request, call, $answer))
        }
    };
}

/// Declares a handler of an operation that changes nothing.
macro_rules! read {
    ($name:ident, $request:ident, $response:ident, |$input:ident| $operation:expr, $answer:expr) => {
        $crate::services::handler::handler!(
            $name,
            $request,
            $response,
            |$input: folio_proto::v1::$request| Ok(folio_operations::Call::new($operation)),
            $answer
        );
    };
}

/// Declares a handler that returns the resource with an id.
macro_rules! get {
    ($name:ident, $request:ident, $operation:ident { $id:ident }, $response:ident { $field:ident }) => {
        $crate::services::handler::get!($name, $request, $operation { $id }, $response { $field: Into::into });
    };
    ($name:ident, $request:ident, $operation:ident { $id:ident }, $response:ident { $field:ident: $convert:path }) => {
        $crate::services::handler::handler!(
            $name,
            $request,
            $response,
            |request: folio_proto::v1::$request| {
                let $id = folio_proto::fields::id(stringify!($id), &request.$id)?;
                Ok(folio_operations::Call::new($operation { $id }))
            },
            |found| folio_proto::v1::$response { $field: Some($convert(&found)) }
        );
    };
}

/// Declares a handler that returns a page of resources. An id in braces selects their parent.
macro_rules! list {
    ($name:ident, $request:ident, $operation:ident { $($parent:ident)? }, $response:ident { $field:ident }) => {
        $crate::services::handler::list!(
            $name, $request, $operation { $($parent)? }, $response { $field: Into::into }
        );
    };
    (
        $name:ident, $request:ident, $operation:ident { $($parent:ident)? }, $response:ident { $field:ident: $convert:path }
    ) => {
        $crate::services::handler::handler!(
            $name,
            $request,
            $response,
            |request: folio_proto::v1::$request| Ok(folio_operations::Call::new($operation {
                $($parent: folio_proto::fields::id(stringify!($parent), &request.$parent)?,)?
                list: super::list_request!(request),
            })),
            |page: folio_operations::ListPage<_>| folio_proto::v1::$response {
                $field: page.items.iter().map($convert).collect(),
                next_page_token: page.next_page_token,
                total_size: super::total_size(page.total_size),
            }
        );
    };
}

/// Declares a handler that returns a page of a list with a grid.
macro_rules! grid_list {
    ($name:ident, $request:ident, $operation:ident, $response:ident { $field:ident: $convert:path }) => {
        $crate::services::handler::handler!(
            $name,
            $request,
            $response,
            |request: folio_proto::v1::$request| {
                let grid = super::grid::parse(request.grid)?;
                let list = folio_operations::ListRequest { grid, ..super::list_request!(request) };
                Ok(folio_operations::Call::new($operation { list }))
            },
            |page: folio_operations::ListPage<_>| folio_proto::v1::$response {
                $field: page.items.iter().map($convert).collect(),
                next_page_token: page.next_page_token,
                total_size: super::total_size(page.total_size),
                total_size_estimated: page.is_total_estimate,
            }
        );
    };
}

/// Declares a handler that deletes the resource with an id, if its etag matches.
macro_rules! delete {
    ($name:ident, $request:ident, $operation:ident { $id:ident }, $response:ident) => {
        $crate::services::handler::change!(
            $name,
            $request,
            $response,
            |request| {
                let $id = folio_proto::fields::id(stringify!($id), &request.$id)?;
                $operation { $id, etag: folio_proto::fields::etag("etag", &request.etag)? }
            },
            |()| folio_proto::v1::$response {}
        );
    };
}

/// Declares a handler of an operation that changes something under a request id.
macro_rules! change {
    ($name:ident, $request:ident, $response:ident { $field:ident }, |$input:ident| $operation:expr) => {
        $crate::services::handler::change!($name, $request, $response { $field: Into::into }, |$input| $operation);
    };
    ($name:ident, $request:ident, $response:ident { $field:ident: $convert:path }, |$input:ident| $operation:expr) => {
        $crate::services::handler::change!($name, $request, $response, |$input| $operation, |changed| {
            folio_proto::v1::$response { $field: Some($convert(&changed)) }
        });
    };
    ($name:ident, $request:ident, $response:ident, |$input:ident| $operation:expr, $answer:expr) => {
        $crate::services::handler::handler!(
            $name,
            $request,
            $response,
            |$input: folio_proto::v1::$request| {
                let operation = $operation;
                Ok(folio_operations::Call::with_request_id(
                    folio_proto::fields::request_id(&$input.request_id)?,
                    operation,
                ))
            },
            $answer
        );
    };
}

pub(super) use {change, delete, get, grid_list, handler, list, read};
