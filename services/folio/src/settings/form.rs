//! Consistency of settings and flags with the form of the server: one process on embedded stores, or a process of a
//! cluster. A flag without a meaning in that form is refused.

use super::{Role, Settings, StorageOptions};
use crate::arguments::Flags;

/// Returns all inconsistencies, each with the path of its setting.
pub(super) fn problems(settings: &Settings, flags: &Flags) -> Vec<String> {
    let (server, storage, cluster) = (&settings.server, &settings.storage, &settings.cluster);
    let mut found = Vec::new();
    let mut check = |good: bool, problem: &str| {
        if !good {
            found.push(problem.to_owned());
        }
    };
    let given = |path: &str| flags.contains_key(path);
    let (is_gateway, is_node) = (server.is(Role::Gateway), server.is(Role::Node));

    let gateway_only = "has no meaning without the role gateway";
    check(is_gateway || !given("server.listen"), &format!("server.listen (--listen): {gateway_only}"));
    check(is_gateway || !given("gateway.tls.certificate"), &format!("gateway.tls (--tls-cert): {gateway_only}"));
    check(is_gateway || !given("gateway.insecure"), &format!("gateway.insecure (--insecure): {gateway_only}"));
    check(is_gateway || settings.purchases.listen.is_empty(), &format!("purchases.listen: {gateway_only}"));
    let (redis, cql) = (!storage.redis.url.is_empty(), !storage.cql.contact_points.is_empty());
    for (path, flag) in [("cluster.listen", "--node-listen"), ("cluster.advertise", "--node-advertise")] {
        let alone = "has no meaning on embedded stores: one process has no peers; name --redis and --cql";
        check(redis || cql || !given(path), &format!("{path} ({flag}): {alone}"));
        check(is_node || !given(path), &format!("{path} ({flag}): has no meaning without the role node"));
    }
    let in_time =
        settings.credit.unlimited || settings.credit.reservation_seconds > settings.models.timeouts.call_seconds;
    let longer = "credit.reservation_seconds: must be longer than models.timeouts.call_seconds: a call that continues after its \
                  reservation is charged whole";
    check(in_time, longer);
    if !storage.is_shared() {
        let one = server.roles.first().map_or("", |role| role.name());
        let needs = format!("server.roles: {one} alone needs the stores of a cluster (--redis, --cql, --blobs)");
        check(is_gateway == is_node, &needs);
        return found;
    }

    check(redis, "storage.redis.url: is required with storage.cql (--redis)");
    check(cql, "storage.cql.contact_points: are required with storage.redis (--cql)");
    let place =
        "storage.blobs: is required with storage.cql (--blobs): s3://BUCKET, or a folder that every process has";
    check(!storage.blobs.is_empty(), place);
    let nothing = "storage.data (--data): has no meaning with storage.cql, which keeps all data; where documents are while \
                   they are read says documents.scratch";
    check(!given("storage.data") && storage.data == StorageOptions::default().data, nothing);
    let secret = "cluster.secrets: a cluster requires a secret (or cluster.secret_file), which signs the calls between its processes";
    check(cluster.has_secret(), secret);
    let everywhere = ["0.0.0.0:", "[::]:"].iter().any(|any| cluster.listen.starts_with(any));
    let where_to = "cluster.advertise: is needed where cluster.listen names every address (--node-advertise): HOST:PORT \
                    by which gateways and nodes reach this one";
    check(!is_node || !everywhere || !cluster.advertise.is_empty(), where_to);
    found
}
