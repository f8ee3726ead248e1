//! Digests and signatures of package files. librpm decides; here its answers are put together into one verdict, so
//! that "unsigned" is never mistaken for "damaged", nor a damaged signature for an unknown key.

use super::{Library, captured, ffi};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null};

/// What a package file is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every digest is right, and so is a signature by one of the keys.
    Good {
        /// Key id in lower-case hexadecimal, when librpm says it.
        key: Option<String>,
    },
    /// Every digest is right; there is no signature.
    Unsigned,
    /// Every digest is right; the signature is by a key that was not given.
    UnknownKey {
        /// Key id in lower-case hexadecimal.
        key: String,
    },
    /// A digest or signature is wrong, or its key is not to be trusted (expired, revoked).
    Bad {
        /// librpm's words.
        reason: String,
    },
}

struct Keyring(NonNull<ffi::RawKeyring>);

impl Drop for Keyring {
    fn drop(&mut self) {
        // SAFETY: from transient_keyring_new, freed once.
        unsafe { ffi::transient_keyring_free(self.0.as_ptr()) }
    }
}

const ARMOUR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

impl Keyring {
    fn new(keys: &[Vec<u8>], root: Option<&Path>) -> Result<Self> {
        let root = root.map(|r| CString::new(r.as_os_str().as_bytes())).transpose()?;
        // SAFETY: the string lives during the call.
        let raw = unsafe { ffi::transient_keyring_new(root.as_ref().map_or(null(), |r| r.as_ptr())) };
        let keyring = Keyring(NonNull::new(raw).context("no keyring")?);
        let mut read = 0;
        for key in keys {
            let text = String::from_utf8_lossy(key);
            for (at, _) in text.match_indices(ARMOUR) {
                let block = CString::new(&text[at..])?;
                // SAFETY: keyring and string live during the call.
                let count = unsafe { ffi::transient_keyring_add(keyring.0.as_ptr(), block.as_ptr()) };
                read += count.max(0);
            }
        }
        // One key among others may be of a kind that this librpm does not know, or revoked: what it signed is then by
        // an unknown key.
        anyhow::ensure!(read > 0 || keys.is_empty(), "librpm can use none of the public keys");
        Ok(keyring)
    }
}

/// Verifies the digests and signatures of header *and* payload.
///
/// `keys` are armoured public keys, one or more certificates each; with `rpmdb_root` the keys of that root's rpmdb
/// count as well. Whether a key that has expired since still counts is librpm's decision: its OpenPGP backends differ.
///
/// # Errors
/// When the file cannot be opened, or there are keys and none can be used. What is wrong with the package itself is a [`Verdict`].
#[context("Verifying {}", path.display())]
pub fn verify(path: &Path, keys: &[Vec<u8>], rpmdb_root: Option<&Path>) -> Result<Verdict> {
    let _library = Library::enter()?;
    std::fs::File::open(path)?;
    let (keyring, log) = captured(false, || Keyring::new(keys, rpmdb_root));
    let keyring = keyring.with_context(|| super::one_line(&log))?;
    let file = CString::new(path.as_os_str().as_bytes())?;
    let check = |signatures: c_int| {
        // SAFETY: path and keyring live during the call, and this thread alone is in the library.
        captured(true, || unsafe { ffi::transient_package_verify(file.as_ptr(), keyring.0.as_ptr(), signatures) })
    };
    let (digests, digest_log) = check(0);
    if digests != 0 {
        return Ok(Verdict::Bad { reason: complaint(&digest_log) });
    }
    let (all, log) = check(1);
    if all == 0 {
        let good = log.iter().filter(|l| l.ends_with(": OK"));
        return Ok(Verdict::Good { key: good.filter_map(|l| key_id(l)).next() });
    }
    let mut is_signed: c_int = 0;
    // SAFETY: as above; `is_signed` is written during the call.
    let (trust, trust_log) =
        captured(true, || unsafe { ffi::transient_package_trust(file.as_ptr(), keyring.0.as_ptr(), &mut is_signed) });
    if is_signed == 0 {
        return Ok(Verdict::Unsigned);
    }
    let missing: Vec<&String> = log.iter().filter(|l| l.ends_with("NOKEY")).collect();
    let wrong = log.iter().any(|l| l.contains(": BAD") || l.contains("NOTTRUSTED"));
    // Old signatures cover the payload and are not seen when only the header is read: then librpm's log decides.
    let unknown = trust == ffi::TRUST_NOKEY || (trust == ffi::TRUST_OK && !missing.is_empty());
    match missing.iter().filter_map(|l| key_id(l)).next() {
        Some(key) if unknown && !wrong => Ok(Verdict::UnknownKey { key }),
        _ => {
            let log = if log.is_empty() { trust_log } else { log };
            Ok(Verdict::Bad { reason: complaint(&log) })
        }
    }
}

/// The lines of a log that are not praise.
fn complaint(log: &[String]) -> String {
    let bad: Vec<String> =
        log.iter().filter(|l| !l.ends_with(": OK") && !l.ends_with(".rpm:") && !l.is_empty()).cloned().collect();
    super::one_line(&bad)
}

/// `key ID 1234abcd` (rpm 4) or a fingerprint (rpm 6) in a line of the log; 16 digits at most.
fn key_id(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let at = ["key id ", "fingerprint: ", "fingerprint "].iter().find_map(|m| lower.find(m).map(|at| at + m.len()))?;
    let hex: String = lower[at..].chars().take_while(char::is_ascii_hexdigit).collect();
    (hex.len() >= 8).then(|| hex[hex.len().saturating_sub(16)..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::key_id;

    #[test]
    fn key_ids_are_found_in_both_wordings() {
        let old = "    Header V4 RSA/SHA256 Signature, key ID 4d3AbCd1: OK";
        assert_eq!(key_id(old).as_deref(), Some("4d3abcd1"));
        let new =
            "Header OpenPGP V4 EdDSA/SHA512 signature, key fingerprint: 0011223344556677889900112233445566778899: OK";
        assert_eq!(key_id(new).as_deref(), Some("2233445566778899"));
        assert_eq!(key_id("    Header SHA256 digest: OK"), None);
    }
}
