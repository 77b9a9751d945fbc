//! The public API in Rust: generated messages and services, and their conversions to and from the types of the other
//! crates.
//!
//! - [`v1`] is generated from `proto/folio/v1`; [`FILE_DESCRIPTOR_SET`] describes it for reflection.
//! - [`cluster`] is generated from `proto/folio/cluster`: the service between the processes of a cluster.
//! - [`status`] maps errors to gRPC status with rich details, and back.
//! - [`json`] reads and writes the fields that hold JSON text, within bounds and without losing digits.
//! - [`fields`] checks single fields of requests; [`chat`], [`approve`] and [`thread`] parse whole requests into
//!   commands.
//! - A conversion is `From` if it cannot fail, otherwise `TryFrom`.

pub mod approve;
pub mod chat;
mod convert;
pub mod fields;
pub mod json;
pub mod status;
pub mod thread;

pub use convert::{
    field_decision, image_format, image_format_to_proto, job_item, new_column, stack_row, stack_without_documents,
    text_state, time,
};

/// Messages, clients and servers of the package `folio.v1`.
#[allow(unreachable_pub, clippy::all, clippy::pedantic, clippy::large_futures, rustdoc::all, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("folio.v1");
}

/// The service between the processes of a cluster; never on the public listener.
pub mod cluster {
    /// Messages, clients and servers of the package `folio.cluster.v1`.
    #[allow(
        unreachable_pub,
        clippy::all,
        clippy::pedantic,
        clippy::large_futures,
        rustdoc::all,
        reason = "generated code"
    )]
    pub mod v1 {
        tonic::include_proto!("folio.cluster.v1");
    }
}

/// The encoded `FileDescriptorSet` of the package `folio.v1`, including its imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("folio.v1");

#[cfg(test)]
mod tests {
    #[test]
    fn reflection_does_not_describe_the_cluster() {
        let text = String::from_utf8_lossy(super::FILE_DESCRIPTOR_SET);
        assert!(text.contains("folio.v1"));
        assert!(!text.contains("cluster"));
    }
}
