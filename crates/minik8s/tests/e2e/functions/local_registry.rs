//! A registry of others: HTTP on the loopback address, and one image under every name. Nothing can be pushed to it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub struct LocalRegistry {
    pub port: u16,
    /// Removed with it.
    _dir: tempfile::TempDir,
}

impl LocalRegistry {
    /// With the only image of an OCI archive.
    pub fn start(archive: &Path) -> LocalRegistry {
        let dir = tempfile::tempdir().unwrap();
        let unpacked =
            Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(dir.path()).status().unwrap();
        assert!(unpacked.success(), "{unpacked}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let root = dir.path().to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let root = root.clone();
                std::thread::spawn(move || answer(&stream, &root));
            }
        });
        LocalRegistry { port, _dir: dir }
    }
}

/// One request of a connection.
fn answer(mut stream: &TcpStream, root: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut rest) = (String::new(), String::new());
    reader.read_line(&mut first).ok()?;
    while reader.read_line(&mut rest).ok()? > 2 {
        rest.clear();
    }
    let (method, target) = first.split_once(' ')?;
    let path = target.split([' ', '?']).next()?;
    let (status, headers, content) = match find(path, root) {
        Some((kind, digest, content)) => {
            ("200 OK", format!("content-type: {kind}\r\ndocker-content-digest: {digest}\r\n"), content)
        }
        None => ("404 Not Found", String::new(), Vec::new()),
    };
    let length = content.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let content = if method == "HEAD" { &[] } else { &content[..] };
    stream.write_all(content).ok()
}

/// The type, the digest and the content of what a path names: a blob by its digest, or the manifest by any tag.
fn find(path: &str, root: &Path) -> Option<(String, String, Vec<u8>)> {
    let index: Value = serde_json::from_slice(&std::fs::read(root.join("index.json")).ok()?).ok()?;
    let manifest = &index["manifests"][0];
    let (folder, name) = path.rsplit_once('/')?;
    let digest = if name.starts_with("sha256:") { name } else { manifest["digest"].as_str()? };
    let content = std::fs::read(root.join("blobs").join(digest.replacen(':', "/", 1))).ok()?;
    let kind = match folder.ends_with("/manifests") {
        true => manifest["mediaType"].as_str()?,
        false => "application/octet-stream",
    };
    Some((kind.to_owned(), digest.to_owned(), content))
}
