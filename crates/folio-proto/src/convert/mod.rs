//! Conversions between the types of other crates and the messages of the API.

/// Converts an enum to the protobuf enum with the same variants and back. A message without the field is invalid.
macro_rules! same_variants {
    ($own:ident = v1::$proto:ident of $field:literal: $($variant:ident),+) => {
        impl From<$own> for v1::$proto {
            fn from(value: $own) -> Self {
                match value {
                    $($own::$variant => Self::$variant,)+
                }
            }
        }

        impl TryFrom<v1::$proto> for $own {
            type Error = folio_types::Error;
            fn try_from(value: v1::$proto) -> folio_types::Result<Self> {
                match value {
                    v1::$proto::Unspecified => Err(folio_types::Error::invalid_field($field, "is missing")),
                    $(v1::$proto::$variant => Ok(Self::$variant),)+
                }
            }
        }
    };
}

/// Converts a struct to the message with the same fields and back.
macro_rules! same_fields {
    ($own:ident = v1::$proto:ident { $($field:ident),+ }) => {
        impl From<$own> for v1::$proto {
            fn from($own { $($field),+ }: $own) -> Self {
                Self { $($field),+ }
            }
        }

        impl From<v1::$proto> for $own {
            fn from(v1::$proto { $($field),+ }: v1::$proto) -> Self {
                Self { $($field),+ }
            }
        }
    };
}

mod access;
mod dictionary_question;
mod error;
mod event;
mod job;
mod message;
mod policy;
mod proposal;
mod quota;
mod resource;
mod stack;
mod task;
mod thread;
pub mod time;
mod turn;

pub use job::job_item;
pub use resource::{field_decision, image_format, image_format_to_proto, text_state};
pub use stack::{new_column, stack_row, stack_without_documents};

#[cfg(test)]
mod round_trip;
