//! Protection against server-side request forgery (SSRF): requests to URLs of tenants (base URLs of models, webhook
//! endpoints) must not reach the operator's own network.
//!
//! A literal address is checked when the URL is stored and when its endpoint is created. A name is checked at each
//! resolution by the resolver of the connection itself, so that a name server cannot change its answer after the check
//! (DNS rebinding). Redirects are not followed, and no proxy is used.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A network in CIDR notation, such as `10.1.0.0/16` or `fd00::/8`. A bare address is a network of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| format!("invalid network {text:?}: expected CIDR notation such as 10.1.0.0/16"))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Addresses that URLs of tenants may have: public addresses and networks that the operator allows, except networks
/// that the operator denies.
#[derive(Debug, Clone, Default)]
pub struct AddressPolicy {
    allowed: Arc<[Network]>,
    denied: Arc<[Network]>,
}

impl AddressPolicy {
    /// The description of a field whose URL [`Self::allows_url`] refuses.
    pub const REQUIREMENT: &str =
        "must have a public address, or one that the operator allows (providers.allowed_networks)";

    /// Permits public addresses and these networks.
    pub fn new(allowed: &[Network]) -> Self {
        Self { allowed: allowed.into(), denied: Arc::default() }
    }

    /// Denies these networks, even if they are public or allowed.
    #[must_use]
    pub fn without(self, denied: &[Network]) -> Self {
        Self { denied: denied.into(), ..self }
    }

    /// Returns true if a connection to the address is permitted.
    pub fn allows(&self, address: IpAddr) -> bool {
        let embedded = embedded_v4(address);
        let is_in = |networks: &[Network]| {
            networks.iter().any(|network| network.contains(address) || network.contains(embedded))
        };
        !is_in(&self.denied) && (is_in(&self.allowed) || (is_public(address) && is_public(embedded)))
    }

    /// Makes the clients of a builder connect to permitted addresses only, without redirects. The caller checks each URL
    /// with [`Self::allows_url`] before a request, because a literal address is not resolved.
    pub fn restrict(&self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        // A proxy would resolve the name itself, without the check of the resolver.
        let resolver = Arc::new(Resolver::new(self.clone()));
        builder.redirect(reqwest::redirect::Policy::none()).no_proxy().dns_resolver(resolver)
    }

    /// Returns true if the host of the URL is a name or a permitted address. A name is checked at its resolution.
    pub fn allows_url(&self, url: &Url) -> bool {
        // The URL parser normalizes every notation of an address.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        !host.is_empty() && host.parse().map_or(true, |address| self.allows(address))
    }
}

/// Returns the IPv4 address that an IPv6 address embeds (mapped, compatible, NAT64, 6to4), else the address itself.
fn embedded_v4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let of = |high: u16, low: u16| {
        let bits = (u32::from(high) << 16) | u32::from(low);
        IpAddr::V4(Ipv4Addr::from_bits(bits))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => of(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => of(high, low),
        [0x2002, high, low, ..] => of(high, low),
        _ => address,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let benchmark = a == 198 && (b == 18 || b == 19);
    let protocol = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    // Azure virtual machines reach services of their host at this public address.
    let host = address == Ipv4Addr::new(168, 63, 129, 16);
    !(a == 0
        || a >= 240
        || shared
        || benchmark
        || protocol
        || host
        || address.is_loopback()
        || address.is_private()
        // Includes the metadata services of clouds (169.254.169.254).
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

/// Returns true for global unicast addresses (2000::/3) without special-purpose ranges.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let documentation = (first == 0x2001 && second == 0xdb8) || (first == 0x3fff && second < 0x1000);
    // 2001::/23: Teredo, ORCHID, benchmarking and others.
    let protocol = first == 0x2001 && second < 0x200;
    (first & 0xe000) == 0x2000 && !documentation && !protocol
}

/// A DNS resolver of HTTP clients that returns only permitted addresses.
#[derive(Debug, Clone)]
struct Resolver<L = SystemLookup> {
    policy: AddressPolicy,
    lookup: L,
}

impl Resolver {
    fn new(policy: AddressPolicy) -> Self {
        Self { policy, lookup: SystemLookup }
    }
}

trait Lookup: Clone + Send + Sync + 'static {
    fn lookup(&self, name: String) -> impl Future<Output = std::io::Result<Vec<SocketAddr>>> + Send;
}

/// The resolver of the operating system.
#[derive(Debug, Clone)]
struct SystemLookup;

impl Lookup for SystemLookup {
    async fn lookup(&self, name: String) -> std::io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.collect())
    }
}

/// The error for a name that does not exist, and for one without a permitted address. A difference would reveal names
/// and networks of the operator.
#[derive(Debug, thiserror::Error)]
#[error("the host has no permitted address")]
struct NotPermitted;

impl<L: Lookup> Resolve for Resolver<L> {
    fn resolve(&self, name: Name) -> Resolving {
        let this = self.clone();
        Box::pin(async move {
            let found = this.lookup.lookup(name.as_str().to_owned()).await.map_err(|error| {
                tracing::warn!(host = name.as_str(), %error, "cannot resolve the host of a tenant's URL");
                NotPermitted
            })?;
            let reached: Vec<SocketAddr> = found.into_iter().filter(|found| this.policy.allows(found.ip())).collect();
            if reached.is_empty() {
                tracing::warn!(host = name.as_str(), "the host of a tenant's URL has no permitted address");
                return Err(NotPermitted.into());
            }
            Ok(Box::new(reached.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn an_address_outside_of_the_public_internet_is_rejected() {
        let policy = AddressPolicy::default();
        for (class, addresses) in [
            ("this host", &["0.0.0.0", "0.1.2.3", "::"][..]),
            ("loopback", &["127.0.0.1", "127.255.0.3", "::1"]),
            ("private", &["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"]),
            ("link-local", &["169.254.0.1", "fe80::1", "febf::1"]),
            ("metadata", &["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"]),
            ("carrier-grade NAT", &["100.64.0.1", "100.127.255.255"]),
            ("unique local", &["fc00::1", "fdff::1"]),
            ("site-local", &["fec0::1"]),
            ("multicast", &["224.0.0.1", "239.255.255.255", "ff02::1"]),
            ("broadcast and reserved", &["255.255.255.255", "240.0.0.1"]),
            ("benchmarks and documentation", &["198.18.0.1", "192.0.2.1", "203.0.113.9", "2001:db8::1", "3fff::1"]),
            ("mapped", &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"]),
            ("translated", &["64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "2002:a00:1::", "2001:0::1"]),
        ] {
            for address in addresses {
                assert!(!policy.allows(address.parse().unwrap()), "{class}: {address}");
            }
        }
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.167.0.1", "2606:4700::1111", "2a00:1450::5"] {
            assert!(policy.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_network_that_the_operator_allows_is_permitted() {
        let networks: Vec<Network> = ["10.1.0.0/16", "127.0.0.1", "fd12::/16"].map(|n| n.parse().unwrap()).to_vec();
        let policy = AddressPolicy::new(&networks);
        for address in ["10.1.255.1", "127.0.0.1", "::ffff:10.1.0.1", "fd12::9", "1.1.1.1"] {
            assert!(policy.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.2", "fd13::1", "::1"] {
            assert!(!policy.allows(address.parse().unwrap()), "{address}");
        }
        assert_eq!(networks[0].to_string(), "10.1.0.0/16");
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("10.0.0.1".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "host/8", "fd00::/129", "10.0.0.0/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_network_that_the_operator_denies_is_rejected_even_if_public_or_allowed() {
        let network = |text: &str| text.parse::<Network>().unwrap();
        let denied = ["10.1.9.0/24", "1.1.1.0/24", "2606:4700::/32", "9.9.9.9"].map(network);
        let policy = AddressPolicy::new(&[network("10.1.0.0/16")]).without(&denied);
        for address in ["10.1.9.1", "1.1.1.1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2606:4700::1111", "9.9.9.9"] {
            assert!(!policy.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["10.1.8.1", "1.1.2.1", "2606:4701::1", "9.9.9.8"] {
            assert!(policy.allows(address.parse().unwrap()), "{address}");
        }
        assert!(!policy.allows_url(&"http://[2606:4700::1]/v1".parse().unwrap()), "a URL with the address is rejected");
    }

    #[test]
    fn a_literal_address_of_a_url_is_checked_in_every_notation() {
        let policy = AddressPolicy::default();
        for url in [
            "http://127.0.0.1/v1",
            "http://2130706433/v1",
            "http://0x7f.1/v1",
            "http://0177.0.0.1/v1",
            "http://[::1]:8000/v1",
            "http://[::ffff:10.0.0.1]/v1",
            "http://169.254.169.254/latest",
        ] {
            assert!(!policy.allows_url(&url.parse().unwrap()), "{url}");
        }
        assert!(policy.allows_url(&"https://api.example.com/v1".parse().unwrap()), "a name is checked at resolution");
    }

    #[derive(Clone)]
    struct NoNames;

    impl Lookup for NoNames {
        async fn lookup(&self, _: String) -> std::io::Result<Vec<SocketAddr>> {
            Err(std::io::Error::other("NXDOMAIN"))
        }
    }

    #[tokio::test]
    async fn an_unknown_name_and_an_internal_name_have_the_same_error() {
        let inside = Rebinding(Arc::new(Mutex::new(vec![vec!["10.0.0.1"]])));
        let inside = Resolver { policy: AddressPolicy::default(), lookup: inside };
        let nowhere = Resolver { policy: AddressPolicy::default(), lookup: NoNames };
        let name = || "vault.internal".parse().unwrap();
        let answers = [inside.resolve(name()).await, nowhere.resolve(name()).await].map(|found| match found {
            Err(error) => error.to_string(),
            Ok(_) => panic!("an address was returned"),
        });
        assert_eq!(answers[0], answers[1]);
    }

    /// A name server that changes its answer: each lookup returns the next element.
    #[derive(Clone)]
    struct Rebinding(Arc<Mutex<Vec<Vec<&'static str>>>>);

    impl Lookup for Rebinding {
        async fn lookup(&self, _: String) -> std::io::Result<Vec<SocketAddr>> {
            let answer = self.0.lock().unwrap().remove(0);
            Ok(answer.into_iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect())
        }
    }

    #[tokio::test]
    async fn every_resolution_of_a_name_is_checked_and_returns_only_permitted_addresses() {
        let answers = vec![vec!["1.1.1.1"], vec!["127.0.0.1"], vec!["10.0.0.1", "2606:4700::1111", "::1"], vec![]];
        let lookup = Rebinding(Arc::new(Mutex::new(answers)));
        let resolver = Resolver { policy: AddressPolicy::default(), lookup };
        let mut passed = Vec::new();
        for _ in 0..4 {
            let found = resolver.resolve("rebinds.example".parse().unwrap()).await;
            passed.push(found.map(|found| found.map(|address| address.ip().to_string()).collect::<Vec<_>>()).ok());
        }
        let expected = [Some(vec!["1.1.1.1".to_owned()]), None, Some(vec!["2606:4700::1111".to_owned()]), None];
        assert_eq!(passed, expected);
    }
}
