//! The [`Operation`] trait, and the call of an operation under a request id.

use folio_types::{Digest, Error, OrgId, RequestId, Result, Secret};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::Declaration;

/// One public action. The implementing type is its input.
///
/// The idempotency digest and, by default, the audit log use the serialized input: a stream of bytes is skipped, and a
/// secret is serialized as its digest or skipped.
pub trait Operation: Serialize + Send + Sync + Sized + 'static {
    /// Authorization, idempotency, audit and quotas are derived from the declaration.
    const DECLARATION: Declaration;

    type Output: Send + 'static;

    /// Runs the operation for an authorized caller.
    fn run(self, context: &Context) -> impl Future<Output = Result<Self::Output>> + Send;

    /// Returns the tenant of the resource that the operation changes. Default: the platform or the caller's
    /// organization, as declared. Only operations that record their outcome return another tenant than the caller's.
    ///
    /// # Errors
    /// The caller may not change resources of this tenant.
    fn tenant(&self, context: &Context) -> Result<OrgId> {
        Ok(if Self::DECLARATION.changes_platform { OrgId::platform() } else { context.principal().org.clone() })
    }

    /// Prepares the audit entry of a recorded operation before anything is changed: the arguments without secrets, the
    /// organizations whose logs record the operation, and the changed resource. If this fails, the operation is refused
    /// and not recorded.
    ///
    /// Default: the serialized input, in the log of the caller's organization.
    fn audit(&self, _context: &Context) -> impl Future<Output = Result<AuditRecord<Self::Output>>> + Send {
        std::future::ready(AuditRecord::of_input(self))
    }

    /// Serializes the output for the record of the request, without secrets. An operation with
    /// [`Idempotency::Outcome`](crate::Idempotency::Outcome) implements this and [`Operation::replay`] with
    /// `outcome_as_json!` or `outcome_as_job_id!`. Default: an error.
    fn to_outcome(_output: &Self::Output) -> Result<Value> {
        Err(no_outcome(Self::DECLARATION.name))
    }

    /// Returns the output of a repeated request from the recorded outcome of the first one. Default: an error.
    fn replay(&self, _context: &Context, _outcome: Value) -> impl Future<Output = Result<Self::Output>> + Send {
        std::future::ready(Err(no_outcome(Self::DECLARATION.name)))
    }
}

fn no_outcome(name: &str) -> Error {
    Error::internal(format!("{name} records no outcome"))
}

/// Implements [`Operation::to_outcome`] and [`Operation::replay`] with the output as JSON.
macro_rules! outcome_as_json {
    () => {
        fn to_outcome(output: &Self::Output) -> folio_types::Result<serde_json::Value> {
            crate::operation::write_outcome(output)
        }

        async fn replay(
            &self,
            _context: &crate::context::Context,
            outcome: serde_json::Value,
        ) -> folio_types::Result<Self::Output> {
            crate::operation::read_outcome(outcome)
        }
    };
}
pub(crate) use outcome_as_json;

/// Implements [`Operation::to_outcome`] and [`Operation::replay`] for an output with the header of a job. The outcome is the id
/// of the job, so that a repeated request returns the current output, which `find` reads.
macro_rules! outcome_as_job_id {
    ($find:path) => {
        fn to_outcome(output: &Self::Output) -> folio_types::Result<serde_json::Value> {
            Ok(serde_json::json!(output.header.id))
        }

        async fn replay(
            &self,
            context: &crate::context::Context,
            outcome: serde_json::Value,
        ) -> folio_types::Result<Self::Output> {
            let id: folio_types::JobId = crate::operation::read_outcome(outcome)?;
            $find(context, &id).await
        }
    };
}
pub(crate) use outcome_as_job_id;

/// Serializes an outcome for its record.
pub(crate) fn write_outcome(output: &impl Serialize) -> Result<Value> {
    serde_json::to_value(output).map_err(|error| Error::internal(format!("an outcome cannot be serialized: {error}")))
}

/// Reads a recorded outcome.
pub(crate) fn read_outcome<T: DeserializeOwned>(outcome: Value) -> Result<T> {
    serde_json::from_value(outcome)
        .map_err(|error| Error::internal(format!("a recorded outcome is malformed: {error}")))
}

/// Declares an operation that returns the resource with an id. Default of the minimum role: viewer.
macro_rules! get_operation {
    ($(#[$doc:meta])* $name:ident { $id:ident: $Id:ty } -> $Resource:ty $(, $role:expr)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, serde::Serialize)]
        pub struct $name {
            pub $id: $Id,
        }

        impl crate::Operation for $name {
            const DECLARATION: crate::Declaration = SERVICE.read(stringify!($name))$(.role($role))?;
            type Output = $Resource;

            async fn run(self, context: &crate::Context) -> folio_types::Result<$Resource> {
                context.find(&self.$id).await
            }
        }
    };
}
pub(crate) use get_operation;

/// Declares an operation that deletes the resource with an id.
macro_rules! delete_operation {
    ($(#[$doc:meta])* $name:ident { $id:ident: $Id:ty } of $Resource:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, serde::Serialize)]
        pub struct $name {
            pub $id: $Id,
            /// The version to delete. None: any version.
            pub etag: Option<folio_types::Etag>,
        }

        impl crate::Operation for $name {
            const DECLARATION: crate::Declaration = SERVICE.change(stringify!($name));
            type Output = ();

            async fn run(self, context: &crate::Context) -> folio_types::Result<()> {
                context.request.delete::<$Resource>(context.stores(), &self.$id, self.etag).await?;
                if <$Resource as folio_resources::Resource>::CLEANUP != folio_resources::Cleanup::Nothing {
                    context.clean_up().sweep_soon();
                }
                Ok(())
            }
        }
    };
}
pub(crate) use delete_operation;

/// Declares an operation that lists the resources that match a filter. Default of the minimum role: viewer.
macro_rules! list_operation {
    ($(#[$doc:meta])* $name:ident -> $Resource:ty $(, $role:expr)?; $max:expr; |$text:ident| $filter:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, serde::Serialize)]
        pub struct $name {
            pub list: crate::ListRequest,
        }

        impl crate::Operation for $name {
            const DECLARATION: crate::Declaration = SERVICE.read(stringify!($name))$(.role($role))?;
            type Output = crate::ListPage<$Resource>;

            async fn run(self, context: &crate::Context) -> folio_types::Result<Self::Output> {
                let $text = self.list.filter.as_str();
                let filter = $filter;
                context.list(&self.list, &filter, crate::SortKeys::CreateTimeAndName, $max).await
            }
        }
    };
}
pub(crate) use list_operation;

/// Declares the operations that return one revision of a resource, and list the revisions.
macro_rules! revision_operations {
    (
        $get:ident { $revid:ident: $Ref:ty } -> $Revision:ty,
        $(#[$doc:meta])* $list:ident { $id:ident: $Id:ty } of $Resource:ty
    ) => {
        #[derive(Debug, Clone, serde::Serialize)]
        pub struct $get {
            pub $revid: $Ref,
        }

        impl crate::Operation for $get {
            const DECLARATION: crate::Declaration = SERVICE.read(stringify!($get));
            type Output = $Revision;

            async fn run(self, context: &crate::Context) -> folio_types::Result<$Revision> {
                context.revision::<$Resource>(&self.$revid).await
            }
        }

        $(#[$doc])*
        #[derive(Debug, Clone, serde::Serialize)]
        pub struct $list {
            pub $id: $Id,
            pub list: crate::ListRequest,
        }

        impl crate::Operation for $list {
            const DECLARATION: crate::Declaration = SERVICE.read(stringify!($list));
            type Output = crate::ListPage<$Revision>;

            async fn run(self, context: &crate::Context) -> folio_types::Result<Self::Output> {
                crate::filter::require_empty(&self.list.filter)?;
                context.list_revisions::<$Resource>(&self.list, &self.$id).await
            }
        }
    };
}
pub(crate) use revision_operations;

/// An operation with its idempotency key.
#[derive(Debug, Clone)]
pub struct Call<O> {
    pub operation: O,
    /// The client's id of the request. None: the request cannot be repeated.
    pub request_id: Option<RequestId>,
}

impl<O: Operation> Call<O> {
    pub const fn new(operation: O) -> Self {
        Self { operation, request_id: None }
    }

    pub const fn with_request_id(request_id: Option<RequestId>, operation: O) -> Self {
        Self { operation, request_id }
    }
}

/// Serializes the digest of a secret, for the digest of a request. The secret itself must not be stored.
pub(crate) fn as_digest<S: Serializer>(secret: &Option<Secret>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    secret.as_ref().map(|secret| Digest::of(secret.reveal().as_bytes()).to_string()).serialize(serializer)
}
