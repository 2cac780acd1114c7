//! Keys and certificates below the data dir.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::Timestamp;
use minik8s_auth::pki::Identity;

use super::Finding;

const DAY: i64 = 24 * 3600;
/// minik8s renews much earlier: less means that it could not.
const LITTLE: i64 = 30 * DAY;

pub fn check(data_dir: &Path, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in ["pki", "credentials"] {
        let Ok(entries) = std::fs::read_dir(data_dir.join(folder)) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "pem")) {
            findings.extend(mode(path));
            findings.extend(dates(path, now));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine(format!("{} holds no credentials yet", data_dir.display())));
    }
    findings
}

fn mode(path: &Path) -> Option<Finding> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        Finding::broken(
            format!("others can read the key in {}", path.display()),
            format!("chmod 600 {}", path.display()),
        )
    })
}

/// `None` for a file that holds a key alone.
fn dates(path: &Path, now: Timestamp) -> Option<Finding> {
    let text = std::fs::read_to_string(path).ok()?;
    if !text.contains("BEGIN CERTIFICATE") {
        return None;
    }
    let shown = path.display();
    let (from, until) = match Identity::parse(&text) {
        Ok(identity) => identity.validity()?,
        Err(problem) => {
            let remedy = "restore it from a backup; all but ca.pem are made anew if deleted";
            return Some(Finding::broken(format!("{shown} is damaged: {problem}"), remedy));
        }
    };
    let left = until - now.as_second();
    Some(if now.as_second() < from {
        Finding::broken(format!("{shown} is not valid yet: this machine's clock is behind"), "set the clock")
    } else if left <= 0 {
        Finding::broken(
            format!("the certificate in {shown} has expired"),
            "start the server, which renews its own; a node must join again with a token",
        )
    } else if left < LITTLE {
        Finding::warning(
            format!("the certificate in {shown} ends in {} days", left / DAY),
            "it should have been renewed: is minik8s running, and does the node reach a server?",
        )
    } else {
        Finding::fine(format!("the certificate in {shown} is good for {} days", left / DAY))
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use minik8s_auth::pki::{Pki, ServingNames};

    use super::super::Severity;
    use super::*;

    #[test]
    fn dates_and_modes() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        assert_eq!(check(dir.path(), now).len(), 1);
        let names = ServingNames {
            host_name: "h".to_owned(),
            addresses: Vec::new(),
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        Pki::load_or_create(&dir.path().join("pki"), &names, now).unwrap();
        let worst = |days: i64| {
            let findings = check(dir.path(), now + SignedDuration::from_hours(24 * days));
            findings.iter().map(|finding| finding.severity as u8).max().unwrap()
        };
        assert_eq!(worst(0), Severity::Fine as u8);
        assert_eq!(worst(350), Severity::Warning as u8);
        assert_eq!(worst(400), Severity::Broken as u8);
        assert_eq!(worst(-400), Severity::Broken as u8);
        let key = dir.path().join("pki/admin.pem");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check(dir.path(), now).iter().any(|finding| finding.remedy.starts_with("chmod 600")));
    }
}
