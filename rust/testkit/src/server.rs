//! A web server on loopback for one directory, with a log of what was asked and faults on demand. Only what repository
//! clients use of HTTP/1.1: GET and HEAD, kept-open connections, ranges with an open end.

use anyhow::Result;
use fn_error_context::context;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a waiting thread looks whether it is still wanted.
const TICK: Duration = Duration::from_millis(50);

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NotFound,
    WrongBytes,
    Stall,
}

/// A request that was answered, or is being stalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// GET or HEAD.
    pub method: String,
    /// With its leading slash, without a query.
    pub path: String,
    /// What was answered; 0 for a stalled one.
    pub status: u16,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    stop: AtomicBool,
    faults: Mutex<BTreeMap<String, Fault>>,
    log: Mutex<Vec<Request>>,
}

/// A running server. Ends with this value.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a directory on a free port.
    ///
    /// # Errors
    /// When there is no port.
    #[context("Starting a server for {}", dir.display())]
    pub fn start(dir: &Path) -> Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (stop, faults, log) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { dir: dir.to_owned(), stop, faults, log });
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Ok(Server { address, shared, thread: Some(thread) })
    }

    /// `http://127.0.0.1:PORT`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked since the last call.
    pub fn take_log(&self) -> Vec<Request> {
        std::mem::take(&mut lock(&self.shared.log))
    }

    /// This path is not found from now on.
    pub fn fault_not_found(&self, path: &str) {
        self.fault(path, Fault::NotFound);
    }

    /// This path has the right length and wrong bytes in its middle.
    pub fn fault_wrong_bytes(&self, path: &str) {
        self.fault(path, Fault::WrongBytes);
    }

    /// This path gets no answer until the faults are cleared; then the connection ends.
    pub fn fault_stall(&self, path: &str) {
        self.fault(path, Fault::Stall);
    }

    fn fault(&self, path: &str, fault: Fault) {
        lock(&self.shared.faults).insert(path.to_owned(), fault);
    }

    /// All is well again.
    pub fn clear_faults(&self) {
        lock(&self.shared.faults).clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic elsewhere leaves nothing half done in these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads = Vec::new();
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        // A client that goes away ends its thread.
        threads.push(std::thread::spawn(move || drop(serve(&stream, &shared))));
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let mut reader = BufReader::new(stream);
    while let Some(lines) = head(&mut reader, shared)? {
        let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default();
        let header = |name: &str| {
            let mut pairs = lines.iter().filter_map(|l| l.split_once(':'));
            pairs.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim().to_owned())
        };
        let fault = lock(&shared.faults).get(path).copied();
        let answer = Answer::find(&shared.dir, path, fault, header("range").as_deref());
        let status = if fault == Some(Fault::Stall) { 0 } else { answer.status };
        lock(&shared.log).push(Request { method: method.to_owned(), path: path.to_owned(), status });
        if fault == Some(Fault::Stall) {
            while lock(&shared.faults).contains_key(path) && !shared.stop.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
            }
            return Ok(());
        }
        answer.send(stream, method == "HEAD")?;
        if header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close")) {
            return Ok(());
        }
    }
    Ok(())
}

/// The request line and the headers; nothing when the client is done or the server is to end.
fn head(reader: &mut BufReader<&TcpStream>, shared: &Shared) -> std::io::Result<Option<Vec<String>>> {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let mut lines = Vec::new();
    let mut line = Vec::new();
    loop {
        // Keeps what it has read when the time is over.
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(None),
            Ok(_) if line.ends_with(b"\n") => {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if text.is_empty() {
                    return Ok(Some(lines));
                }
                lines.push(text);
            }
            Ok(_) => return Ok(None),
            Err(e) if matches!(e.kind(), TimedOut | WouldBlock) => {
                if shared.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
            }
            Err(e) => return Err(e),
        }
    }
}

/// An answer that is yet to be sent.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// First byte and length of the whole.
    range: (u64, u64),
    body: Option<File>,
    spoil: bool,
}

impl Answer {
    fn find(dir: &Path, path: &str, fault: Option<Fault>, range: Option<&str>) -> Answer {
        let none = Answer { status: 404, range: (0, 0), body: None, spoil: false };
        let decoded = decode(path);
        let relative = Path::new(decoded.trim_start_matches('/'));
        let inside = relative.components().all(|c| matches!(c, Component::Normal(_)));
        if fault == Some(Fault::NotFound) || !inside {
            return none;
        }
        let full = dir.join(relative);
        let (Ok(file), Ok(meta)) = (File::open(&full), full.metadata()) else { return none };
        if !meta.is_file() {
            return none;
        }
        let first = range.and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (status, first) = match first {
            Some(first) if first < meta.len() => (206, first),
            _ => (200, 0),
        };
        Answer { status, range: (first, meta.len()), body: Some(file), spoil: fault == Some(Fault::WrongBytes) }
    }

    fn send(self, mut stream: &TcpStream, head_only: bool) -> std::io::Result<()> {
        let Answer { status, range: (first, len), body, spoil } = self;
        let mut bytes = Vec::new();
        if let Some(mut file) = body {
            file.seek(SeekFrom::Start(first))?;
            file.read_to_end(&mut bytes)?;
        }
        if spoil {
            // The middle: in a package that is the payload, so that the file still looks like one.
            let middle = bytes.len() / 2;
            bytes.iter_mut().skip(middle).take(16).for_each(|b| *b = !*b);
        }
        let word = match status {
            200 => "OK",
            206 => "Partial Content",
            _ => "Not Found",
        };
        let mut text =
            format!("HTTP/1.1 {status} {word}\r\nContent-Length: {}\r\nAccept-Ranges: bytes\r\n", bytes.len());
        if status == 206 {
            text.push_str(&format!("Content-Range: bytes {first}-{}/{len}\r\n", len.saturating_sub(1)));
        }
        stream.write_all((text + "\r\n").as_bytes())?;
        if !head_only {
            stream.write_all(&bytes)?;
        }
        stream.flush()
    }
}

/// `%41` → `A`.
fn decode(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'%').then(|| std::str::from_utf8(tail.get(..2)?).ok()).flatten();
        match code.and_then(|c| u8::from_str_radix(c, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends requests over one connection, reads until the server closes it.
    fn talk(server: &Server, requests: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn serves_ranges_on_one_connection() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a b"), "0123456789").unwrap();
        let server = Server::start(dir.path()).unwrap();
        let text = talk(
            &server,
            "GET /a%20b HTTP/1.1\r\n\r\nHEAD /a%20b?x HTTP/1.1\r\n\r\nGET /a%20b HTTP/1.1\r\nRange: bytes=7-\r\nconnection: close\r\n\r\n",
        );
        let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|t| &t[..3]).collect();
        assert_eq!(statuses, ["200", "200", "206"], "{text}");
        assert!(text.contains("\r\n\r\n0123456789HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"), "{text}");
        assert!(text.contains("Content-Range: bytes 7-9/10\r\n") && text.ends_with("\r\n\r\n789"), "{text}");
        assert_eq!(server.take_log().len(), 3);
        assert!(server.take_log().is_empty());
    }

    #[test]
    fn faults_last_until_cleared() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "0123456789").unwrap();
        let server = Server::start(dir.path()).unwrap();
        let get = || talk(&server, "GET /f HTTP/1.1\r\nConnection: close\r\n\r\n");
        server.fault_wrong_bytes("/f");
        let text = get();
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("Content-Length: 10\r\n"));
        assert!(!text.ends_with("0123456789"));
        server.fault_stall("/f");
        std::thread::scope(|scope| {
            let stalled = scope.spawn(get);
            while server.take_log().iter().all(|r| r.status != 0) {
                std::thread::sleep(TICK);
            }
            std::thread::sleep(TICK * 4);
            assert!(!stalled.is_finished());
            server.clear_faults();
            assert_eq!(stalled.join().unwrap(), "");
        });
        assert!(get().ends_with("\r\n\r\n0123456789"));
    }
}
