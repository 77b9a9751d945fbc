//! The address of a caller behind trusted proxies.
//!
//! A proxy that forwards calls (layer 7) appends the address of its peer to `X-Forwarded-For`. The entries on the left
//! are text of the caller. Therefore the address is the right-most one that is not a trusted proxy, and the header
//! counts only on connections of trusted proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";
/// Maximum number of entries that are read.
const HOPS_MAX: usize = 32;

/// The networks of trusted proxies.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn new(networks: &[IpNet]) -> Self {
        Self(networks.to_vec())
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the address of the caller of a request that arrived from `peer`. An unreadable entry ends the search at
    /// the proxy that reported it.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let values: Vec<_> = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        let mut hops = values.iter().rev().flat_map(|value| value.rsplit(',')).take(HOPS_MAX);
        let mut address = peer;
        while self.contains(address) {
            let Some(hop) = hops.next().and_then(hop_address) else { break };
            address = hop;
        }
        address
    }
}

/// Parses an address, optionally with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn hop_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// The network of the client of a call without a token. None: unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientNetwork(pub(crate) Option<IpAddr>);

/// Returns the network that shares the bounds of an address. For an IPv6 address: its /64 network, which has one owner.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Networks in settings: `["10.0.0.0/8", "192.0.2.1"]`.
pub(crate) mod networks {
    use std::net::IpAddr;

    use ipnet::IpNet;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(networks: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(networks.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let parsed = texts.iter().map(|text| parse(text).ok_or(text));
        let expected = |text: &String| format!("invalid network {text:?}: expected an address or ADDRESS/BITS");
        parsed.collect::<Result<_, _>>().map_err(|text| D::Error::custom(expected(text)))
    }

    fn parse(text: &str) -> Option<IpNet> {
        text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let proxies = TrustedProxies::new(&["10.0.0.0/8".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()]);
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn the_address_is_the_right_most_hop_that_is_no_trusted_proxy() {
        assert_eq!(client("10.0.0.1", &["192.0.2.9"]), "192.0.2.9");
        assert_eq!(client("10.0.0.1", &["198.51.100.1, 192.0.2.9, 10.0.0.2"]), "192.0.2.9");
        assert_eq!(client("10.0.0.1", &["198.51.100.1", "192.0.2.9", "10.0.0.2"]), "192.0.2.9");
        assert_eq!(client("2001:db8:1::1", &["192.0.2.9:4711 , [2001:db8:1::2]:443"]), "192.0.2.9");
        assert_eq!(client("::ffff:10.0.0.1", &["[2001:db8::7]"]), "2001:db8::7");
    }

    #[test]
    fn the_header_of_a_stranger_is_ignored() {
        assert_eq!(client("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
    }

    #[test]
    fn without_a_readable_hop_the_last_known_proxy_counts() {
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["192.0.2.9, unknown"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["192.0.2.9, _hidden, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(client("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
        let many = format!("192.0.2.9{}", ", 10.0.0.2".repeat(HOPS_MAX));
        assert_eq!(client("10.0.0.1", &[&many]), "10.0.0.2");
    }

    #[test]
    fn networks_in_settings_are_addresses_or_ranges() {
        let read = |text: &str| networks::deserialize(&mut serde_json::Deserializer::from_str(text));
        let parsed = read(r#"["10.0.0.0/8", "2001:db8::1"]"#).unwrap();
        assert_eq!(parsed, ["10.0.0.0/8".parse::<IpNet>().unwrap(), "2001:db8::1/128".parse().unwrap()]);
        assert!(read(r#"["10.0.0.0/33"]"#).unwrap_err().to_string().contains("10.0.0.0/33"));
    }

    proptest! {
        #[test]
        fn a_caller_cannot_choose_its_address(forged in "[ -~]{0,80}") {
            prop_assert_eq!(client("10.0.0.1", &[&format!("{forged}, 192.0.2.9")]), "192.0.2.9");
            prop_assert_eq!(client("10.0.0.1", &[&forged, "192.0.2.9"]), "192.0.2.9");
        }
    }
}
