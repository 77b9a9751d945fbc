//! Where a base URL that a tenant chose may lead: not into the operator's own network, by whatever name.
//!
//! A literal address is checked when the URL is set and when its endpoint is made; a name each time it is resolved for a
//! connection, by the resolver that the connection itself uses, so that no second answer of a name server counts.
//! Redirects are not followed and no proxy is asked.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A network, as in `10.1.0.0/16` or `fd00::/8`; an address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32_u32.saturating_sub(self.bits.into());
                network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128_u32.saturating_sub(self.bits.into());
                network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no network such as 10.1.0.0/16");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
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

/// Which addresses the base URLs of tenants may lead to: public ones, and those that the operator allows beside them, but for those
/// that the operator denies.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    allowed: Arc<[Network]>,
    denied: Arc<[Network]>,
}

impl Reach {
    /// Public addresses, and these networks.
    pub fn new(allowed: &[Network]) -> Self {
        Self { allowed: allowed.into(), denied: Arc::default() }
    }

    /// The same without these networks, whether public or allowed.
    #[must_use]
    pub fn without(self, denied: &[Network]) -> Self {
        Self { denied: denied.into(), ..self }
    }

    /// Whether a connection may be made there.
    pub fn allows(&self, address: IpAddr) -> bool {
        let real = unwrapped(address);
        let named =
            |networks: &[Network]| networks.iter().any(|network| network.contains(address) || network.contains(real));
        !named(&self.denied) && (named(&self.allowed) || (is_public(address) && is_public(real)))
    }

    /// Whether a URL may be set, as far as it says where it leads. What a name leads to is seen when it is resolved.
    pub fn allows_url(&self, url: &Url) -> bool {
        // Parsed, an address has one spelling, however it was written.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        !host.is_empty() && host.parse().map_or(true, |address| self.allows(address))
    }
}

/// The IPv4 address that an IPv6 address stands for, where it does: mapped, compatible, NAT64, 6to4.
fn unwrapped(address: IpAddr) -> IpAddr {
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

/// Whether an address is of the public internet, and of nobody's own network.
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
    // Azure's machines ask their host there, at an address of the public internet.
    let host = address == Ipv4Addr::new(168, 63, 129, 16);
    !(a == 0
        || a >= 240
        || shared
        || benchmark
        || protocol
        || host
        || address.is_loopback()
        || address.is_private()
        // The metadata services of clouds (169.254.169.254) among them.
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

/// Global unicast (2000::/3) without what is taken out of it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let documentation = (first == 0x2001 && second == 0xdb8) || (first == 0x3fff && second < 0x1000);
    // Teredo, ORCHID, benchmarks and the like: 2001::/23.
    let protocol = first == 0x2001 && second < 0x200;
    (first & 0xe000) == 0x2000 && !documentation && !protocol
}

/// Resolves names for connections, and gives only addresses that may be reached.
#[derive(Debug, Clone)]
pub(crate) struct Resolver<L = SystemLookup> {
    reach: Reach,
    lookup: L,
}

impl Resolver {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, lookup: SystemLookup }
    }
}

/// Asks for the addresses of a name.
pub(crate) trait Lookup: Clone + Send + Sync + 'static {
    fn lookup(&self, name: String) -> impl Future<Output = std::io::Result<Vec<SocketAddr>>> + Send;
}

/// Asks the system.
#[derive(Debug, Clone)]
pub(crate) struct SystemLookup;

impl Lookup for SystemLookup {
    async fn lookup(&self, name: String) -> std::io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.collect())
    }
}

/// A name has no address, or only such in networks that a tenant may not reach. It does not say which: that would tell the tenant
/// what names and networks there are inside.
#[derive(Debug, thiserror::Error)]
#[error("the host has no address that may be reached")]
struct OutOfReach;

impl<L: Lookup> Resolve for Resolver<L> {
    fn resolve(&self, name: Name) -> Resolving {
        let this = self.clone();
        Box::pin(async move {
            let found = this.lookup.lookup(name.as_str().to_owned()).await.map_err(|error| {
                tracing::warn!(host = name.as_str(), %error, "the host of a tenant's base URL is not found");
                OutOfReach
            })?;
            let reached: Vec<SocketAddr> = found.into_iter().filter(|found| this.reach.allows(found.ip())).collect();
            if reached.is_empty() {
                tracing::warn!(host = name.as_str(), "a tenant's base URL leads to no address that may be reached");
                return Err(OutOfReach.into());
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
    fn no_address_of_somebodys_own_network_is_reached() {
        let reach = Reach::default();
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
                assert!(!reach.allows(address.parse().unwrap()), "{class}: {address}");
            }
        }
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.167.0.1", "2606:4700::1111", "2a00:1450::5"] {
            assert!(reach.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn what_the_operator_allows_is_reached() {
        let networks: Vec<Network> = ["10.1.0.0/16", "127.0.0.1", "fd12::/16"].map(|n| n.parse().unwrap()).to_vec();
        let reach = Reach::new(&networks);
        for address in ["10.1.255.1", "127.0.0.1", "::ffff:10.1.0.1", "fd12::9", "1.1.1.1"] {
            assert!(reach.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.2", "fd13::1", "::1"] {
            assert!(!reach.allows(address.parse().unwrap()), "{address}");
        }
        assert_eq!(networks[0].to_string(), "10.1.0.0/16");
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("10.0.0.1".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "host/8", "fd00::/129", "10.0.0.0/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_operator_denies_is_not_reached_though_it_is_public_or_allowed() {
        let network = |text: &str| text.parse::<Network>().unwrap();
        let denied = ["10.1.9.0/24", "1.1.1.0/24", "2606:4700::/32", "9.9.9.9"].map(network);
        let reach = Reach::new(&[network("10.1.0.0/16")]).without(&denied);
        for address in ["10.1.9.1", "1.1.1.1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2606:4700::1111", "9.9.9.9"] {
            assert!(!reach.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["10.1.8.1", "1.1.2.1", "2606:4701::1", "9.9.9.8"] {
            assert!(reach.allows(address.parse().unwrap()), "{address}");
        }
        assert!(!reach.allows_url(&"http://[2606:4700::1]/v1".parse().unwrap()), "nor is it taken as a URL");
    }

    #[test]
    fn a_literal_address_of_a_url_is_checked_however_it_is_written() {
        let reach = Reach::default();
        for url in [
            "http://127.0.0.1/v1",
            "http://2130706433/v1",
            "http://0x7f.1/v1",
            "http://0177.0.0.1/v1",
            "http://[::1]:8000/v1",
            "http://[::ffff:10.0.0.1]/v1",
            "http://169.254.169.254/latest",
        ] {
            assert!(!reach.allows_url(&url.parse().unwrap()), "{url}");
        }
        assert!(reach.allows_url(&"https://api.example.com/v1".parse().unwrap()), "a name is seen when it is resolved");
    }

    /// Knows no name.
    #[derive(Clone)]
    struct Nowhere;

    impl Lookup for Nowhere {
        async fn lookup(&self, _: String) -> std::io::Result<Vec<SocketAddr>> {
            Err(std::io::Error::other("NXDOMAIN"))
        }
    }

    #[tokio::test]
    async fn a_name_that_is_not_there_is_told_as_one_that_leads_inside() {
        let inside = Rebinding(Arc::new(Mutex::new(vec![vec!["10.0.0.1"]])));
        let inside = Resolver { reach: Reach::default(), lookup: inside };
        let nowhere = Resolver { reach: Reach::default(), lookup: Nowhere };
        let name = || "vault.internal".parse().unwrap();
        let told = [inside.resolve(name()).await, nowhere.resolve(name()).await].map(|found| match found {
            Err(error) => error.to_string(),
            Ok(_) => panic!("an address is given"),
        });
        assert_eq!(told[0], told[1]);
    }

    /// Answers one after the other: a name server that changes its mind.
    #[derive(Clone)]
    struct Rebinding(Arc<Mutex<Vec<Vec<&'static str>>>>);

    impl Lookup for Rebinding {
        async fn lookup(&self, _: String) -> std::io::Result<Vec<SocketAddr>> {
            let answer = self.0.lock().unwrap().remove(0);
            Ok(answer.into_iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect())
        }
    }

    #[tokio::test]
    async fn every_resolution_of_a_name_is_checked_and_only_what_may_be_reached_is_given() {
        let answers = vec![vec!["1.1.1.1"], vec!["127.0.0.1"], vec!["10.0.0.1", "2606:4700::1111", "::1"], vec![]];
        let lookup = Rebinding(Arc::new(Mutex::new(answers)));
        let resolver = Resolver { reach: Reach::default(), lookup };
        let mut given = Vec::new();
        for _ in 0..4 {
            let found = resolver.resolve("rebinds.example".parse().unwrap()).await;
            given.push(found.map(|found| found.map(|address| address.ip().to_string()).collect::<Vec<_>>()).ok());
        }
        let expected = [Some(vec!["1.1.1.1".to_owned()]), None, Some(vec!["2606:4700::1111".to_owned()]), None];
        assert_eq!(given, expected);
    }
}
