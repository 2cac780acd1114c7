//! What was executed, by the calls' own numbers: counted in this process, told by handlers before they answer. What was
//! answered is in it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use serde_json::{Value, json};

/// One connection for each worker: a new one for every call would be the load.
pub const HANDLER: &str = "
import os, socket
ledger = None
def main(params):
    global ledger
    if ledger is None:
        host, port = os.environ['LEDGER'].rsplit(':', 1)
        ledger = socket.create_connection((host, int(port)), 30)
        ledger.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ledger.sendall(b'%d\\n' % params['n'])
    if not ledger.recv(1):
        raise OSError('the ledger has gone')
    return {'instance': socket.gethostname()}
";

type Counts = Arc<Mutex<BTreeMap<usize, usize>>>;

pub struct Ledger {
    counts: Counts,
    address: String,
}

impl Ledger {
    /// Where pods of this machine find it.
    pub fn listen() -> Result<Ledger> {
        let listener = TcpListener::bind("0.0.0.0:0")?;
        let address = format!("{}:{}", outward_address()?, listener.local_addr()?.port());
        let counts = Counts::default();
        let all = counts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = all.clone();
                std::thread::spawn(move || count(&stream, &counts));
            }
        });
        Ok(Ledger { counts, address })
    }

    /// By which the handler finds it.
    pub fn variable(&self) -> Value {
        json!({"name": "LEDGER", "value": self.address})
    }

    /// How often each call was executed.
    pub fn counts(&self) -> Result<BTreeMap<usize, usize>> {
        Ok(self.counts.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone())
    }
}

/// Until the worker ends.
fn count(mut stream: &TcpStream, counts: &Counts) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    for line in BufReader::new(stream).lines() {
        let number = line.ok()?.parse().ok()?;
        *counts.lock().ok()?.entry(number).or_default() += 1;
        stream.write_all(b".").ok()?;
    }
    Some(())
}

/// The address that others see; nothing is sent.
fn outward_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect("192.0.2.1:9")?;
    Ok(socket.local_addr()?.ip())
}
