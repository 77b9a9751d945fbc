//! Consistency of settings and flags with the form of the server: one process on embedded stores, or a process of a
//! cluster. A flag without an effect in that form is refused.

use super::{Role, Settings, StorageOptions};
use crate::arguments::Flags;

/// Returns all inconsistencies, each with the path of its setting.
pub(super) fn problems(settings: &Settings, flags: &Flags) -> Vec<String> {
    let (server, storage, cluster) = (&settings.server, &settings.storage, &settings.cluster);
    let mut found = Vec::new();
    let mut check = |is_valid: bool, problem: &str| {
        if !is_valid {
            found.push(problem.to_owned());
        }
    };
    let has_flag = |path: &str| flags.contains_key(path);
    let (is_gateway, is_node) = (server.is(Role::Gateway), server.is(Role::Node));

    for (is_set, setting) in [
        (has_flag("server.listen"), "server.listen (--listen)"),
        (has_flag("gateway.tls.certificate"), "gateway.tls (--tls-cert)"),
        (has_flag("gateway.insecure"), "gateway.insecure (--insecure)"),
        (!settings.purchases.listen.is_empty(), "purchases.listen"),
    ] {
        check(is_gateway || !is_set, &format!("{setting}: has no effect without the role gateway"));
    }
    let (redis, cql) = (!storage.redis.url.is_empty(), !storage.cql.contact_points.is_empty());
    for (path, flag) in [("cluster.listen", "--node-listen"), ("cluster.advertise", "--node-advertise")] {
        let alone = "has no effect on embedded stores: one process has no peers; set --redis and --cql";
        check(redis || cql || !has_flag(path), &format!("{path} ({flag}): {alone}"));
        check(is_node || !has_flag(path), &format!("{path} ({flag}): has no effect without the role node"));
    }
    let outlasts_call =
        settings.credit.unlimited || settings.credit.reservation_seconds > settings.models.timeouts.call_seconds;
    let longer = "must be longer than models.timeouts.call_seconds: a call that outlasts its reservation is charged the \
                  whole reservation";
    check(outlasts_call, &format!("credit.reservation_seconds: {longer}"));
    if !storage.is_shared() {
        let role = server.roles.first().map_or("", |role| role.name());
        let needs = format!("server.roles: {role} alone requires the stores of a cluster (--redis, --cql, --blobs)");
        check(is_gateway == is_node, &needs);
        return found;
    }

    check(redis, "storage.redis.url: is required with storage.cql (--redis)");
    check(cql, "storage.cql.contact_points: are required with storage.redis (--cql)");
    let blobs =
        "storage.blobs: is required with storage.cql (--blobs): s3://BUCKET, or a folder that all processes share";
    check(!storage.blobs.is_empty(), blobs);
    let data = "storage.data (--data): has no effect with storage.cql, which stores all data; set documents.scratch \
                for temporary files";
    check(!has_flag("storage.data") && storage.data == StorageOptions::default().data, data);
    let secret = "cluster.secrets: a cluster requires a secret (or cluster.secret_file), which signs the calls between \
                  its processes";
    check(cluster.has_secret(), secret);
    let is_wildcard = ["0.0.0.0:", "[::]:"].iter().any(|wildcard| cluster.listen.starts_with(wildcard));
    let advertise = "cluster.advertise: is required if cluster.listen is a wildcard address (--node-advertise): \
                     HOST:PORT at which gateways and nodes reach this node";
    check(!is_node || !is_wildcard || !cluster.advertise.is_empty(), advertise);
    found
}
