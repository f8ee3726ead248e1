//! One entry in the journal for each change that was tried: who, the command, how it ended. Sent to journald's own socket
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>); where there is no journal nothing is missing, so nothing is said.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Finds the entries: `journalctl MESSAGE_ID=…`. It never changes.
pub const MESSAGE_ID: &str = "8e0f3c5d7b1a4f6c9d2e45a8b7063f19";

const SOCKET: &str = "/run/systemd/journal/socket";
/// Longer values are cut: a datagram has a limit, and nobody reads that far.
const LONGEST: usize = 16 * 1024;
/// Priorities of syslog(3).
const NOTICE: &str = "5";
const WARNING: &str = "4";

/// How a change ended.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// The command line without its secrets.
    pub command: &'a str,
    /// Exit status.
    pub status: u8,
    /// The message, when it failed.
    pub error: Option<&'a str>,
}

/// Writes the entry, if there is a journal.
pub fn write(ending: &Ending<'_>) {
    let caller = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER")).unwrap_or_else(|_| "unknown".into());
    // An entry that cannot be written is no reason for a change that is live to end as a failure.
    let _ = send(Path::new(SOCKET), &datagram(&fields(ending, &caller)));
}

fn fields<'a>(ending: &Ending<'a>, caller: &'a str) -> Vec<(&'static str, String)> {
    let result = match ending.error {
        Some(error) => format!("failed with {}: {error}", ending.status),
        None => format!("ended with {}", ending.status),
    };
    let mut fields = vec![
        ("MESSAGE", format!("\"{}\" by {caller} {result}", crate::render::escape(ending.command))),
        ("MESSAGE_ID", MESSAGE_ID.into()),
        ("PRIORITY", if ending.error.is_some() { WARNING } else { NOTICE }.into()),
        ("SYSLOG_IDENTIFIER", crate::args::NAME.into()),
        ("TRANSIENT_COMMAND", ending.command.into()),
        ("TRANSIENT_CALLER", caller.into()),
        ("TRANSIENT_STATUS", ending.status.to_string()),
    ];
    fields.extend(ending.error.map(|error| ("TRANSIENT_ERROR", error.to_owned())));
    fields
}

/// The long form of each field (name, length, value), as a value may hold a newline.
fn datagram(fields: &[(&str, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        let value = &value.as_bytes()[..value.len().min(LONGEST)];
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
        out.extend_from_slice(value);
        out.push(b'\n');
    }
    out
}

fn send(socket: &Path, datagram: &[u8]) -> std::io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A journal that hangs must not hold up the program.
    sender.set_nonblocking(true)?;
    sender.send_to(datagram, socket).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_arrives_as_it_was_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let ending = Ending { command: "x install 'a\nb'", status: 75, error: Some("no network") };
        let datagram = datagram(&fields(&ending, "joe"));
        assert!(send(&path, &datagram).is_err(), "there is no journal");
        let journal = UnixDatagram::bind(&path).unwrap();
        send(&path, &datagram).unwrap();
        let mut buffer = vec![0; 65536];
        let length = journal.recv(&mut buffer).unwrap();
        let mut rest = &buffer[..length];
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|b| *b == b'\n').unwrap();
            let (name, tail) = (String::from_utf8(rest[..end].to_vec()).unwrap(), &rest[end + 1..]);
            let size = usize::try_from(u64::from_le_bytes(tail[..8].try_into().unwrap())).unwrap();
            seen.push((name, String::from_utf8(tail[8..8 + size].to_vec()).unwrap()));
            assert_eq!(tail[8 + size], b'\n');
            rest = &tail[9 + size..];
        }
        let get = |name: &str| seen.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(get("MESSAGE"), Some("\"x install 'a\\nb'\" by joe failed with 75: no network"));
        assert_eq!(get("MESSAGE_ID"), Some(MESSAGE_ID));
        assert_eq!((get("PRIORITY"), get("TRANSIENT_STATUS")), (Some(WARNING), Some("75")));
        assert_eq!(get("TRANSIENT_COMMAND"), Some("x install 'a\nb'"));
    }

    #[test]
    fn long_values_are_cut() {
        let sent = datagram(&[("MESSAGE", "é".repeat(LONGEST))]);
        assert_eq!(sent.len(), LONGEST + "MESSAGE".len() + 1 + 8 + 1);
    }
}
