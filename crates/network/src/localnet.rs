//! Ports of nodes on the loopback address: what `curl localhost:30080` needs.
//!
//! The kernel takes packets between 127.0.0.1 and any interface but `lo` for forged, unless the interface has
//! `route_localnet`. It is set on those that lead to pods, and only once the table of Services is in the kernel: its chain
//! `martians` then drops what comes from elsewhere with such an address (CVE-2020-8558). What was set is noted, so that it
//! is taken back before that chain goes. It never touches `all` or `default`, which other programs' interfaces obey.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub struct Localnet {
    /// A directory for each interface.
    settings: PathBuf,
    /// Interfaces whose setting was changed, a line each. Gone after a restart of the machine, as the settings are.
    note: PathBuf,
}

impl Localnet {
    pub fn of(instance: &str) -> Self {
        let note = format!("/run/minik8s-{instance}.route-localnet");
        Localnet { settings: "/proc/sys/net/ipv4/conf".into(), note: note.into() }
    }

    /// For those interfaces that are there.
    pub fn allow(&self, interfaces: &[String]) -> io::Result<()> {
        for interface in interfaces {
            let path = self.setting(interface);
            let Ok(value) = fs::read_to_string(&path) else { continue };
            if value.trim() != "0" {
                continue;
            }
            let mut noted = self.noted();
            if noted.insert(interface.clone()) {
                let lines: Vec<&str> = noted.iter().map(String::as_str).collect();
                fs::write(&self.note, lines.join("\n"))?;
            }
            fs::write(&path, "1")?;
        }
        Ok(())
    }

    /// Takes back what was changed; where nothing was it does nothing.
    pub fn revert(&self) -> io::Result<()> {
        for interface in self.noted() {
            match fs::write(self.setting(&interface), "0") {
                // An interface that is gone has taken its setting along.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        match fs::remove_file(&self.note) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn setting(&self, interface: &str) -> PathBuf {
        self.settings.join(interface).join("route_localnet")
    }

    fn noted(&self) -> BTreeSet<String> {
        let text = fs::read_to_string(&self.note).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_localnet_is_set_where_it_must_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let localnet = Localnet { settings: dir.path().to_owned(), note: dir.path().join("note") };
        for (interface, value) in [("bridge", "0\n"), ("uplink", "0\n"), ("own", "1\n"), ("other", "0\n")] {
            fs::create_dir(dir.path().join(interface)).unwrap();
            fs::write(localnet.setting(interface), value).unwrap();
        }
        let values = || {
            let value = |name| fs::read_to_string(localnet.setting(name)).unwrap().trim().to_owned();
            ["bridge", "uplink", "own", "other"].map(value).concat()
        };
        let wanted = ["bridge", "absent", "uplink", "own"].map(str::to_owned);
        localnet.allow(&wanted).unwrap();
        assert_eq!(values(), "1110");
        // Again, as after every change of a Service.
        localnet.allow(&wanted).unwrap();
        fs::remove_file(localnet.setting("uplink")).unwrap();
        fs::remove_dir(dir.path().join("uplink")).unwrap();
        localnet.revert().unwrap();
        fs::create_dir(dir.path().join("uplink")).unwrap();
        fs::write(localnet.setting("uplink"), "0").unwrap();
        assert_eq!(values(), "0010", "what somebody else had set stays");
        localnet.revert().unwrap();
    }
}
