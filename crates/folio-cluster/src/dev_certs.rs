//! A private certificate authority with certificates for nodes and gateways, for development and small clusters.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use folio_types::{Code, Error, Reason, Result, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose as Purpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::options::NODE_NAME;

const GATEWAY_NAME: &str = "folio-gateway";
const YEARS: i16 = 2;

/// Writes certificates into a folder, which is created if it is missing:
///
/// - `ca.pem`, `ca-key.pem`: the authority; its key is only needed to create further certificates;
/// - `node.pem`, `node-key.pem`: for nodes, with the names `folio-node`, `localhost`, the loopback addresses and
///   `names`;
/// - `gateway.pem`, `gateway-key.pem`: for gateways, which cannot impersonate a node.
///
/// Only the owner can read the keys. The certificates are valid for two years. Returns the paths.
///
/// # Errors
/// A file exists (nothing is overwritten), a name is neither a DNS name nor an address, or the folder is not writable.
pub fn write(folder: &Path, names: &[String], now: Timestamp) -> Result<Vec<PathBuf>> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| io(folder, &error))?;
    for name in
        ["ca", "node", "gateway"].into_iter().flat_map(|name| [format!("{name}.pem"), format!("{name}-key.pem")])
    {
        let path = folder.join(name);
        if path.exists() {
            let message = format!(
                "{} already exists; no file was written: remove it, or name another folder with --out",
                path.display()
            );
            return Err(Error::new(Code::AlreadyExists, Reason::NameTaken, message));
        }
    }
    let ca_key = KeyPair::generate().map_err(failed)?;
    let ca_key_pem = ca_key.serialize_pem();
    let ca = CertifiedIssuer::self_signed(authority(now)?, ca_key).map_err(failed)?;

    let node_names = [NODE_NAME, "localhost", "127.0.0.1", "::1"].into_iter().map(str::to_owned);
    let node_names: Vec<String> = node_names.chain(names.iter().cloned()).collect();
    let node = signed(&ca, node_names, &[Purpose::ServerAuth, Purpose::ClientAuth], now)?;
    let gateway = signed(&ca, vec![GATEWAY_NAME.to_owned()], &[Purpose::ClientAuth], now)?;

    let files = [
        ("ca.pem", 0o644, ca.pem()),
        ("ca-key.pem", 0o600, ca_key_pem),
        ("node.pem", 0o644, node.0),
        ("node-key.pem", 0o600, node.1),
        ("gateway.pem", 0o644, gateway.0),
        ("gateway-key.pem", 0o600, gateway.1),
    ];
    files.into_iter().map(|(name, mode, text)| save(folder.join(name), mode, &text)).collect()
}

fn authority(now: Timestamp) -> Result<CertificateParams> {
    let mut params = params(Vec::new(), "Folio development CA", now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Returns a certificate and its key in PEM.
fn signed(
    ca: &CertifiedIssuer<'_, KeyPair>,
    names: Vec<String>,
    purposes: &[Purpose],
    now: Timestamp,
) -> Result<(String, String)> {
    let title = names.first().cloned().unwrap_or_default();
    let mut params = params(names, &title, now)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = purposes.to_vec();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, ca).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(names: Vec<String>, title: &str, now: Timestamp) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names).map_err(|error| {
        let message = format!("a name of nodes is invalid: expected DNS names or addresses: {error}");
        Error::invalid(Reason::InvalidField, message)
    })?;
    params.distinguished_name.push(DnType::CommonName, title);
    // The period starts on the first day of a month, because clocks may differ, and ends on a day of every month.
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let month = u8::try_from(today.month()).unwrap_or(1);
    params.not_before = date_time_ymd(i32::from(today.year()), month, 1);
    params.not_after = date_time_ymd(i32::from(today.year() + YEARS), month, 28);
    Ok(params)
}

fn save(path: PathBuf, mode: u32, text: &str) -> Result<PathBuf> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(|error| io(&path, &error))?;
    file.write_all(text.as_bytes()).map_err(|error| io(&path, &error))?;
    Ok(path)
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::invalid(Reason::InvalidField, format!("{} cannot be written: {error}", path.display()))
}

fn failed(error: rcgen::Error) -> Error {
    Error::internal(format!("cannot create a certificate: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_owner_can_read_keys_and_no_file_is_overwritten() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("certs");
        let now = "2026-02-28T12:00:00Z".parse().unwrap();
        let files = write(&folder, &["node-1.example".to_owned(), "10.0.0.7".to_owned()], now).unwrap();
        assert_eq!(files.len(), 6);
        for file in &files {
            let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
            let text = std::fs::read_to_string(file).unwrap();
            let is_key = file.to_string_lossy().ends_with("-key.pem");
            assert_eq!(text.contains("PRIVATE KEY"), is_key, "{}", file.display());
            assert!(!is_key || mode == 0o600, "{} has mode {mode:o}", file.display());
        }
        let again = write(&folder, &[], now).unwrap_err();
        assert_eq!(again.code, Code::AlreadyExists);
        assert!(again.message.contains("already exists") && again.message.contains("--out"), "{again}");
        let invalid = write(&outer.path().join("other"), &["no name ä".to_owned()], now).unwrap_err();
        assert_eq!(invalid.code, Code::InvalidArgument, "{invalid}");
        let file = outer.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(write(&file, &[], now).unwrap_err().code, Code::InvalidArgument);
    }
}
