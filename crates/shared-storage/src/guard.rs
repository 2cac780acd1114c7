//! Keeps pods away from the servers' ports: data servers of the file system ask nobody who they are.
//!
//! A table of nftables of its own. It is after the translation of addresses, so that no Service leads around it, and about
//! the pods' bridge alone: pods on the host's network are the administrator's.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::SharedError;

pub fn table(instance: &str) -> String {
    format!("minik8s-shared-{instance}")
}

/// The rules as a text for `nft -f`; they take the place of those that are there. Pure.
pub fn rules(instance: &str, bridge: &str, addresses: &[String], ports: &[u16]) -> String {
    let table = table(instance);
    let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let (v6, v4): (Vec<&String>, Vec<&String>) = addresses.iter().partition(|one| one.contains(':'));
    let list = |all: &[&String]| all.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
    let mut refusals = String::new();
    for (family, all) in [("ip", v4), ("ip6", v6)] {
        if !all.is_empty() {
            let addresses = list(&all);
            refusals += &format!(
                "    iifname \"{bridge}\" {family} daddr {{ {addresses} }} tcp dport {{ {ports} }} drop\n"
            );
        }
    }
    let chain = |hook: &str| {
        format!("  chain {hook} {{\n    type filter hook {hook} priority 0; policy accept;\n{refusals}  }}\n")
    };
    format!(
        "table inet {table} {{}}\ndelete table inet {table}\ntable inet {table} {{\n{}{}}}\n",
        chain("input"),
        chain("forward")
    )
}

pub fn close(rules: &str) -> Result<(), SharedError> {
    nft(rules)
}

pub fn open(instance: &str) -> Result<(), SharedError> {
    let table = table(instance);
    nft(&format!("table inet {table} {{}}\ndelete table inet {table}\n"))
}

fn nft(text: &str) -> Result<(), SharedError> {
    let failed = |message: String| SharedError::Program { program: "nft".to_owned(), message };
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_kept_from_the_servers() {
        let addresses = ["10.0.0.1".to_owned(), "fd00::1".to_owned()];
        let expected = r#"table inet minik8s-shared-1f {}
delete table inet minik8s-shared-1f
table inet minik8s-shared-1f {
  chain input {
    type filter hook input priority 0; policy accept;
    iifname "mk-1f" ip daddr { 10.0.0.1 } tcp dport { 9421, 9422 } drop
    iifname "mk-1f" ip6 daddr { fd00::1 } tcp dport { 9421, 9422 } drop
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    iifname "mk-1f" ip daddr { 10.0.0.1 } tcp dport { 9421, 9422 } drop
    iifname "mk-1f" ip6 daddr { fd00::1 } tcp dport { 9421, 9422 } drop
  }
}
"#;
        assert_eq!(rules("1f", "mk-1f", &addresses, &[9421, 9422]), expected);
    }
}
