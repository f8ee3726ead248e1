//! A file server on loopback: one directory, optional basic authentication, a record of what was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Stops with the test program.
pub struct Server {
    pub port: u16,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves `dir`; `authorization` is the value that the header of every request must have.
    pub fn start(dir: &Path, authorization: Option<&str>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (dir, authorization, seen) = (dir.to_owned(), authorization.map(str::to_owned), log.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (dir, authorization, seen) = (dir.clone(), authorization.clone(), seen.clone());
                std::thread::spawn(move || drop(answer(stream, &dir, authorization.as_deref(), &seen)));
            }
        });
        Server { port, log }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The paths asked for since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

fn answer(
    mut stream: TcpStream,
    dir: &Path,
    authorization: Option<&str>,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut authorized = authorization.is_none();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            authorized |= name.eq_ignore_ascii_case("authorization") && Some(value) == authorization;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
    log.lock().unwrap().push(path.clone());
    let (status, body) = if !authorized {
        ("401 Unauthorized", Vec::new())
    } else {
        match std::fs::read(dir.join(path.trim_start_matches('/'))) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", Vec::new()),
        }
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}
