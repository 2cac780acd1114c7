//! Names that several components must build the same way.

use sha2::{Digest, Sha256};

/// A volume in the lists of a node's status.
pub fn unique_volume_name(driver: &str, handle: &str) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

/// The name of the VolumeAttachment of a volume on a node: whoever looks for it knows it.
pub fn attachment_name(driver: &str, handle: &str, node: &str) -> String {
    format!("csi-{}", digest(&format!("{handle}{driver}{node}")))
}

/// SHA-256 in hexadecimal: a name of any text that is one part of a path.
pub fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a name is none for a driver: it becomes part of paths and of names of objects.
pub fn driver_name_fault(name: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let at_end = |c: char| !c.is_ascii_alphanumeric();
    if name.is_empty() || name.len() > 63 {
        return Some("must have 1 to 63 characters");
    }
    if !name.chars().all(is_plain)
        || name.starts_with(at_end)
        || name.ends_with(at_end)
        || name.contains("..")
    {
        return Some("must be a domain name: letters, digits, '-' and '.'");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_name_is_a_domain_name() {
        let check = |name: &str, ok: bool| assert_eq!(driver_name_fault(name).is_none(), ok, "{name}");
        check("hostpath.csi.k8s.io", true);
        check("a", true);
        check("", false);
        check("../etc", false);
        check("a/b", false);
        check("a..b", false);
        check(".a", false);
        check(&"x".repeat(64), false);
    }
}
