//! Reads the header of the PROXY protocol (version 1 or 2), with which a proxy (layer 4) announces the address of its
//! peer before the first byte of the connection. Only trusted proxies are expected to send one.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum time in which a proxy sends the header. A proxy sends it with the first packet.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Length of the part that distinguishes the versions. Every header is longer.
const PREFIX: usize = 13;
/// Maximum length of a header of version 1.
const TEXT_MAX: usize = 107;
/// Length of a header of version 2 without addresses and extensions.
const BINARY_PREFIX: usize = 16;
/// Maximum length of addresses and extensions. The longest addresses have 216 bytes.
const BINARY_MAX: usize = 2_048;

/// Reads a header, and no byte beyond it. None: the proxy itself opened the connection (a health check).
///
/// # Errors
/// The header is missing, malformed, or not complete within `timeout`.
pub(crate) async fn source(stream: &mut (impl AsyncRead + Unpin), timeout: Duration) -> io::Result<Option<IpAddr>> {
    let read = tokio::time::timeout(timeout, header(stream)).await;
    let header = read.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the PROXY header is late"))??;
    address(&header)
}

fn address(header: &[u8]) -> io::Result<Option<IpAddr>> {
    let config = ParseConfig { include_tlvs: false, allow_v1: true, allow_v2: true };
    let (parsed, _) = ProxyHeader::parse(header, config).map_err(|_| malformed())?;
    Ok(parsed.proxied_address().map(|address| address.source.ip()))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the connection does not begin with a valid PROXY header")
}

/// Reads the bytes of a header: to the end of the line, or as many as the binary prefix announces.
async fn header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut header = vec![0; PREFIX];
    stream.read_exact(&mut header).await?;
    if header.starts_with(b"PROXY ") {
        while !header.ends_with(b"\r\n") {
            if header.len() >= TEXT_MAX {
                return Err(malformed());
            }
            header.push(stream.read_u8().await?);
        }
    } else {
        header.resize(BINARY_PREFIX, 0);
        let rest = header.get_mut(PREFIX..).ok_or_else(malformed)?;
        stream.read_exact(rest).await?;
        let length = header.last_chunk().map_or(0, |bytes: &[u8; 2]| usize::from(u16::from_be_bytes(*bytes)));
        if !header.starts_with(b"\r\n\r\n\0\r\nQUIT\n") || length > BINARY_MAX {
            return Err(malformed());
        }
        header.resize(BINARY_PREFIX + length, 0);
        let rest = header.get_mut(BINARY_PREFIX..).ok_or_else(malformed)?;
        stream.read_exact(rest).await?;
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Returns the address in a header, and the bytes that follow the header.
    async fn read(mut bytes: &[u8]) -> (io::Result<Option<IpAddr>>, Vec<u8>) {
        let source = source(&mut bytes, TIMEOUT).await;
        (source, bytes.to_vec())
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [b"\r\n\r\n\0\r\nQUIT\n".as_slice(), &[command, family], &length, rest].concat()
    }

    #[tokio::test]
    async fn both_versions_announce_the_address_and_no_further_byte_is_read() {
        let v4 = binary(0x21, 0x11, &[192, 0, 2, 9, 10, 0, 0, 1, 1, 2, 3, 4, 0x04, 0, 1, 7]);
        let v6 = binary(0x21, 0x21, &[[0x20, 1, 0x0d, 0xb8].as_slice(), &[0; 11], &[9], &[0; 16], &[0; 4]].concat());
        for (header, expected) in [
            (b"PROXY TCP4 192.0.2.9 10.0.0.1 4711 443\r\n".to_vec(), Some("192.0.2.9")),
            (b"PROXY TCP6 2001:db8::9 2001:db8::1 4711 443\r\n".to_vec(), Some("2001:db8::9")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (v4, Some("192.0.2.9")),
            (v6, Some("2001:db8::9")),
            (binary(0x20, 0x00, &[]), None),
        ] {
            let (address, rest) = read(&[header.as_slice(), b"PRI * HTTP/2.0"].concat()).await;
            assert_eq!(address.unwrap().map(|address| address.to_string()).as_deref(), expected);
            assert_eq!(rest, b"PRI * HTTP/2.0");
        }
    }

    #[tokio::test]
    async fn a_malformed_header_is_refused_without_reading_on() {
        let endless = [b"PROXY TCP4 ".as_slice(), &[b'1'; 10_000]].concat();
        for bytes in [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
            b"PROXY TCP4 192.0.2.9",
            b"PROXY TCP4 x y 1 2\r\n",
            b"",
            &endless,
            &binary(0x21, 0x11, &[1, 2]),
            &binary(0x21, 0x11, &[0; BINARY_MAX + 1]),
            &binary(0x31, 0x11, &[0; 12]),
        ] {
            let (address, rest) = read(bytes).await;
            assert!(address.is_err(), "{bytes:?}");
            assert!(bytes.len() - rest.len() <= BINARY_PREFIX + BINARY_MAX, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_late_header_is_refused() {
        let (mut proxy, _gateway) = tokio::io::duplex(64);
        assert_eq!(source(&mut proxy, Duration::from_millis(1)).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn proxy_header_takes_any_bytes() {
        bolero::check!().with_iterations(20_000).with_max_len(300).for_each(|bytes: &[u8]| {
            for prefix in [b"".as_slice(), b"PROXY TCP4 ", b"PROXY TCP6 ", b"\r\n\r\n\0\r\nQUIT\n\x21"] {
                let bytes = [prefix, bytes].concat();
                let mut rest = bytes.as_slice();
                if let Some(Ok(header)) = header(&mut rest).now_or_never() {
                    let _ = address(&header);
                }
                assert!(bytes.len() - rest.len() <= BINARY_PREFIX + BINARY_MAX);
            }
        });
    }
}
