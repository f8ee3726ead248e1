//! NEVRA: the full name of one RPM package. Parsing is the only door; comparing *versions* is RPM's
//! business (`bridge::solv::evr_compare`), so `Ord` here is only an order for lists and maps.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Name, epoch, version, release and architecture of a package. A missing epoch equals 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Nevra {
    /// Package name, for example `strace`.
    pub name: String,
    /// Epoch; 0 when the package has none.
    pub epoch: u32,
    /// Version, without `-`.
    pub version: String,
    /// Release, without `-`.
    pub release: String,
    /// Architecture, for example `x86_64` or `noarch`.
    pub arch: String,
}

/// Why a text is not a NEVRA.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not NAME-[EPOCH:]VERSION-RELEASE.ARCH")]
pub struct NotANevra(pub String);

impl Nevra {
    /// `[EPOCH:]VERSION-RELEASE`, the epoch only when it is not 0.
    pub fn evr(&self) -> String {
        match self.epoch {
            0 => format!("{}-{}", self.version, self.release),
            e => format!("{e}:{}-{}", self.version, self.release),
        }
    }
}

impl fmt::Display for Nevra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.{}", self.name, self.evr(), self.arch)
    }
}

impl FromStr for Nevra {
    type Err = NotANevra;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (rest, arch) = text.rsplit_once('.')?;
            let (rest, release) = rest.rsplit_once('-')?;
            let (name, ev) = rest.rsplit_once('-')?;
            let (epoch, version) = match ev.split_once(':') {
                Some((e, v)) => (e.parse().ok()?, v),
                None => (0, ev),
            };
            let ok = |s: &str| !s.is_empty() && !s.contains(|c: char| c.is_whitespace() || c == '/');
            [name, version, release, arch].iter().all(|s| ok(s)).then(|| Nevra {
                name: name.into(),
                epoch,
                version: version.into(),
                release: release.into(),
                arch: arch.into(),
            })
        };
        parse().ok_or_else(|| NotANevra(text.into()))
    }
}

impl TryFrom<String> for Nevra {
    type Error = NotANevra;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Nevra> for String {
    fn from(n: Nevra) -> Self {
        n.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_back() {
        for (text, name, epoch, arch) in [
            ("strace-6.1-1.fc41.x86_64", "strace", 0, "x86_64"),
            ("dovecot-1:2.2.9-1.fc20.x86_64", "dovecot", 1, "x86_64"),
            ("kmod-zfs-5.14.0-115.el9.x86_64-2.1.5-1.el9.x86_64", "kmod-zfs-5.14.0-115.el9.x86_64", 0, "x86_64"),
        ] {
            let n: Nevra = text.parse().unwrap();
            assert_eq!((n.name.as_str(), n.epoch, n.arch.as_str()), (name, epoch, arch));
            assert_eq!(n.to_string(), text);
        }
        assert_eq!("a-0:1-1.noarch".parse::<Nevra>().unwrap(), "a-1-1.noarch".parse().unwrap());
    }

    #[test]
    fn refuses_what_is_not_a_nevra() {
        for text in ["", "strace", "strace-1.x86_64", "-1-1.x86_64", "a-b:1-1.noarch", "a/b-1-1.noarch", "a-1-1."] {
            assert!(text.parse::<Nevra>().is_err(), "{text}");
        }
    }
}
