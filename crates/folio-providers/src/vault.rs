//! Encryption of stored API keys with AES-256-GCM. The associated data are organization and provider, so a key that was
//! copied to another row cannot be decrypted.

use std::path::PathBuf;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_resources::SealedKey;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, OrgId, Reason, Result, Secret};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const KEY_BYTES: usize = 32;
/// Bytes of a master key's digest that form its id.
const ID_BYTES: usize = 8;

/// The settings section `secrets`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretsOptions {
    /// Master keys: 32 bytes each, in Base64 (`openssl rand -base64 32`). The first key encrypts, all keys decrypt. To
    /// rotate, put a new key first; remove the old key after a start logged that no stored key uses it. Empty: the API
    /// cannot store API keys of providers.
    pub master_keys: Vec<Secret>,
    /// A file with further master keys, one per line, which precede those in `master_keys`.
    pub master_key_file: Option<PathBuf>,
}

#[derive(Debug, Default)]
pub struct Vault {
    /// Newest first.
    keys: Vec<Master>,
}

struct Master {
    id: String,
    key: RandomizedNonceKey,
}

impl std::fmt::Debug for Master {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Master").field(&self.id).finish()
    }
}

impl Vault {
    /// Reads the master keys.
    ///
    /// # Errors
    /// An unreadable file; the position of each invalid key.
    pub fn new(options: &SecretsOptions) -> Result<Self, InvalidSettings> {
        let mut problems = Problems::of("secrets");
        let mut keys = Vec::new();
        if let Some(path) = &options.master_key_file {
            match std::fs::read_to_string(path) {
                Ok(text) => {
                    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                    for (at, line) in lines.enumerate() {
                        add_key(&mut keys, line, &format!("master_key_file, key {}", at + 1), &mut problems);
                    }
                    problems.check(!keys.is_empty(), "master_key_file", "contains no valid key");
                }
                Err(error) => problems.add("master_key_file", format_args!("cannot be read: {error}")),
            }
        }
        for (at, key) in options.master_keys.iter().enumerate() {
            add_key(&mut keys, key.reveal(), &format!("master_keys[{at}]"), &mut problems);
        }
        problems.into_result().map(|()| Self { keys })
    }

    /// Encrypts a secret of an organization with the newest master key. `name` identifies the secret: a provider, or
    /// the id of a resource.
    ///
    /// # Errors
    /// `SECRETS_UNAVAILABLE` if there is no master key.
    pub fn seal(&self, org: &OrgId, name: &str, key: &Secret) -> Result<SealedKey> {
        let Some(newest) = self.keys.first() else {
            let message = "secrets cannot be stored: this installation has no master key (secrets.master_keys)";
            return Err(Error::precondition(Reason::SecretsUnavailable, message));
        };
        let mut text = key.reveal().as_bytes().to_vec();
        let sealed = newest.key.seal_in_place_append_tag(Aad::from(aad(org, name)), &mut text);
        let nonce = sealed.map_err(|_| Error::internal("a key cannot be encrypted"))?;
        let sealed = STANDARD.encode([nonce.as_ref().as_slice(), &text].concat());
        Ok(SealedKey { master: newest.id.clone(), sealed })
    }

    /// Decrypts a secret of an organization. `provider` is the name that [`Self::seal`] received.
    ///
    /// # Errors
    /// `SECRETS_UNAVAILABLE` if its master key is missing, `STORED_FORMAT` if the stored value was modified or copied.
    pub fn open(&self, org: &OrgId, provider: &str, sealed: &SealedKey) -> Result<Secret> {
        let master = self.keys.iter().find(|master| master.id == sealed.master).ok_or_else(|| {
            let message = format!(
                "the key of provider {provider} is encrypted with master key {}, which is missing",
                sealed.master
            );
            Error::precondition(Reason::SecretsUnavailable, message)
        })?;
        let broken = || Error::stored_format("a stored key cannot be decrypted");
        let mut bytes = STANDARD.decode(&sealed.sealed).map_err(|_| broken())?;
        let (nonce, text) = bytes.split_first_chunk_mut::<NONCE_LEN>().ok_or_else(broken)?;
        let opened = master.key.open_in_place(Nonce::from(&*nonce), Aad::from(aad(org, provider)), text);
        let opened = opened.map_err(|_| broken())?;
        Ok(Secret::new(std::str::from_utf8(opened).map_err(|_| broken())?))
    }

    /// Re-encrypts a key with the newest master key. None if no newer master key exists, or if the key cannot be
    /// decrypted.
    pub(crate) fn reencrypt(&self, org: &OrgId, provider: &str, sealed: &SealedKey) -> Option<SealedKey> {
        let newest = self.keys.first()?;
        if newest.id == sealed.master {
            return None;
        }
        self.seal(org, provider, &self.open(org, provider, sealed).ok()?).ok()
    }

    /// Returns true if there are older master keys.
    pub(crate) fn has_older_master_keys(&self) -> bool {
        self.keys.len() > 1
    }
}

fn add_key(keys: &mut Vec<Master>, text: &str, path: &str, problems: &mut Problems) {
    let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() == KEY_BYTES);
    let Some(bytes) = bytes else {
        return problems.add(path, "is not 32 bytes in Base64");
    };
    let Ok(key) = RandomizedNonceKey::new(&AES_256_GCM, &bytes) else {
        return problems.add(path, "is not an AES-256 key");
    };
    let digest = Sha256::new().chain_update(b"folio master key").chain_update(&bytes).finalize();
    let id: String = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect();
    if keys.iter().all(|known| known.id != id) {
        keys.push(Master { id, key });
    }
}

/// Returns the associated data. An organization id has a fixed length, so different pairs have different bytes.
fn aad(org: &OrgId, provider: &str) -> Vec<u8> {
    [org.as_str().as_bytes(), b"/", provider.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(keys: &[u8]) -> Vault {
        let key = |byte: &u8| Secret::new(&STANDARD.encode([*byte; KEY_BYTES]));
        Vault::new(&SecretsOptions { master_keys: keys.iter().map(key).collect(), master_key_file: None }).unwrap()
    }

    fn org(name: &str) -> OrgId {
        OrgId::derive(&[name])
    }

    #[test]
    fn a_key_is_decrypted_only_for_its_owner_and_never_shown() {
        let (vault, key) = (vault(&[1]), Secret::new("sk-very-secret"));
        let sealed = vault.seal(&org("a"), "openai", &key).unwrap();
        assert_eq!(vault.open(&org("a"), "openai", &sealed).unwrap(), key);
        for (org, provider) in [(org("b"), "openai"), (org("a"), "other")] {
            assert_eq!(vault.open(&org, provider, &sealed).unwrap_err().reason, Reason::StoredFormat);
        }
        let mut bytes = STANDARD.decode(&sealed.sealed).unwrap();
        bytes[NONCE_LEN] ^= 1;
        let changed = SealedKey { sealed: STANDARD.encode(bytes), ..sealed.clone() };
        assert_eq!(vault.open(&org("a"), "openai", &changed).unwrap_err().reason, Reason::StoredFormat);
        for bad in ["", "AAAA", "no base64"] {
            let bad = SealedKey { sealed: bad.to_owned(), ..sealed.clone() };
            assert_eq!(vault.open(&org("a"), "openai", &bad).unwrap_err().reason, Reason::StoredFormat);
        }
        let again = vault.seal(&org("a"), "openai", &key).unwrap();
        assert_ne!(again.sealed, sealed.sealed, "each encryption has a new nonce");
        let shown = format!("{vault:?} {sealed:?}");
        assert!(!shown.contains("very-secret") && !shown.contains(&STANDARD.encode([1; KEY_BYTES])), "{shown}");
    }

    #[test]
    fn the_first_master_key_encrypts_and_older_ones_still_decrypt() {
        let key = Secret::new("sk-1");
        let old = vault(&[1]).seal(&org("a"), "p", &key).unwrap();
        let both = vault(&[2, 1]);
        assert_eq!(both.open(&org("a"), "p", &old).unwrap(), key);
        let renewed = both.reencrypt(&org("a"), "p", &old).unwrap();
        assert!(both.reencrypt(&org("a"), "p", &renewed).is_none() && both.has_older_master_keys());
        let new = vault(&[2]);
        assert_eq!(new.open(&org("a"), "p", &renewed).unwrap(), key);
        assert_eq!(new.open(&org("a"), "p", &old).unwrap_err().reason, Reason::SecretsUnavailable);
        assert!(new.reencrypt(&org("a"), "p", &old).is_none());
        let none = vault(&[]);
        assert_eq!(none.seal(&org("a"), "p", &key).unwrap_err().reason, Reason::SecretsUnavailable);
    }

    #[test]
    fn keys_are_read_from_a_file_too_and_invalid_ones_are_reported_by_position() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let [one, two] = [1_u8, 2].map(|byte| STANDARD.encode([byte; KEY_BYTES]));
        std::fs::write(&path, format!("{two}\n\n{one}\n")).unwrap();
        let options = SecretsOptions { master_keys: vec![Secret::new(&one)], master_key_file: Some(path) };
        let read = Vault::new(&options).unwrap();
        assert_eq!(read.keys.len(), 2);
        assert_eq!(read.keys[0].id, vault(&[2]).keys[0].id);

        let bad = SecretsOptions {
            master_keys: vec![Secret::new(&one), Secret::new("short-secret")],
            master_key_file: Some(folder.path().join("missing")),
        };
        let problems = Vault::new(&bad).unwrap_err().problems.join("\n");
        assert!(problems.contains("master_keys[1]") && problems.contains("master_key_file"), "{problems}");
        assert!(!problems.contains("short-secret"), "{problems}");
    }
}
