//! Maps the path of an RPC to its operation: `/folio.v1.TagService/CreateTag` to the operation `CreateTag` of
//! `TagService`.

use folio_operations::{Declaration, declaration};

pub(crate) const PACKAGE: &str = "/folio.v1.";

/// Returns the path of the RPC that carries an operation.
pub fn rpc_path(operation: &Declaration) -> String {
    format!("{PACKAGE}{}/{}", operation.service.name, operation.name)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// An operation of the public API.
    Api(&'static Declaration),
    /// Health or reflection, which require no token.
    Public,
    /// A path that is not served.
    Unknown,
}

pub(crate) fn route(path: &str) -> Route {
    let operation = path.strip_prefix(PACKAGE).and_then(|rest| rest.split_once('/'));
    if let Some(operation) = operation.and_then(|(service, name)| declaration(service, name)) {
        Route::Api(operation)
    } else if path.starts_with("/grpc.health.v1.Health/") || path.starts_with("/grpc.reflection.v1.ServerReflection/") {
        Route::Public
    } else {
        Route::Unknown
    }
}

/// Returns true if a call without a token may last: a health watch, or reflection.
pub(crate) fn is_public_stream(path: &str) -> bool {
    route(path) == Route::Public && path != "/grpc.health.v1.Health/Check"
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use folio_operations::{Class, Effect, operations};
    use prost::Message as _;
    use prost_types::{DescriptorProto, FileDescriptorSet, MethodDescriptorProto};

    use super::*;

    struct Described {
        methods: BTreeMap<String, MethodDescriptorProto>,
        messages: BTreeMap<String, DescriptorProto>,
    }

    fn described() -> Described {
        let set = FileDescriptorSet::decode(folio_proto::FILE_DESCRIPTOR_SET).unwrap();
        let (mut methods, mut messages) = (BTreeMap::new(), BTreeMap::new());
        for file in set.file.into_iter().filter(|file| file.package() == "folio.v1") {
            for service in &file.service {
                for method in &service.method {
                    methods.insert(format!("{PACKAGE}{}/{}", service.name(), method.name()), method.clone());
                }
            }
            let named = |message: DescriptorProto| (format!(".folio.v1.{}", message.name()), message);
            messages.extend(file.message_type.into_iter().map(named));
        }
        Described { methods, messages }
    }

    impl Described {
        fn fields(&self, message: &str) -> BTreeSet<&str> {
            self.messages[message].field.iter().map(|field| field.name()).collect()
        }

        /// Returns true if a message, or a message in one of its fields (the description of an upload), has a request
        /// id.
        fn has_request_id(&self, message: &str) -> bool {
            let nested =
                self.messages[message].field.iter().filter(|field| self.messages.contains_key(field.type_name()));
            self.fields(message).contains("request_id")
                || nested.into_iter().any(|field| self.fields(field.type_name()).contains("request_id"))
        }
    }

    #[test]
    fn every_rpc_carries_an_operation_and_streams_are_long() {
        let described = described();
        let paths: BTreeSet<String> = operations().map(rpc_path).collect();
        assert_eq!(described.methods.keys().cloned().collect::<BTreeSet<_>>(), paths);
        for (path, method) in &described.methods {
            let Route::Api(operation) = route(path) else { panic!("{path} has no route") };
            let streams = method.server_streaming() || method.client_streaming();
            assert!(!streams || operation.class == Class::Long, "{path}");
        }
    }

    #[test]
    fn every_change_has_a_request_id() {
        let described = described();
        let lacking = operations().filter(|operation| {
            let method = &described.methods[&rpc_path(operation)];
            operation.effect == Effect::Change && !described.has_request_id(method.input_type())
        });
        let lacking: BTreeSet<&str> = lacking.map(|operation| operation.name).collect();
        // Each sign-in starts a session: its token is returned once, so that a repetition could not return it.
        assert_eq!(lacking, BTreeSet::from(["SignIn"]));
    }

    #[test]
    fn every_list_keeps_the_conventions() {
        let described = described();
        for operation in operations().filter(|operation| operation.name.starts_with("List")) {
            let method = &described.methods[&rpc_path(operation)];
            let (request, response) = (described.fields(method.input_type()), described.fields(method.output_type()));
            let is_request =
                ["page_size", "page_token", "skip", "filter", "order_by"].iter().all(|name| request.contains(name));
            let is_page = ["next_page_token", "total_size"].iter().all(|name| response.contains(name));
            assert!(is_request && is_page, "{}: {request:?} {response:?}", operation.name);
        }
    }
}
