//! The addresses in a pod's status: `podIP` and `hostIP` are the first of `podIPs` and `hostIPs`, which have one of each
//! family at most.

use minik8s_meta::IpFamily;
use serde_json::{Value, json};

use crate::At;
use crate::{FieldErrors, format};

const PAIRS: [(&str, &str); 2] = [("podIP", "podIPs"), ("hostIP", "hostIPs")];

/// Whichever of the two a writer sets, both say the same. Who sets both, and differently, may know the single one alone.
pub(super) fn fill(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").filter(|status| status.is_object()) else { return };
    for (one, all) in PAIRS {
        let first = status[all][0]["ip"].as_str().map(str::to_owned);
        let single = status[one].as_str().filter(|ip| !ip.is_empty()).map(str::to_owned);
        match (first, single) {
            (Some(first), None) => status[one] = json!(first),
            (first, Some(single)) if first.as_ref() != Some(&single) => {
                status[all] = json!([{ "ip": single }])
            }
            _ => {}
        }
    }
}

pub(super) fn validate(pod: &Value, errors: &mut FieldErrors) {
    let status = At::root(pod).field("status");
    for (_, all) in PAIRS {
        let list = status.field(all);
        let mut seen: Vec<IpFamily> = Vec::new();
        for ip in list.items().map(|item| item.field("ip")) {
            ip.problems(errors, format::ip(ip.text()));
            seen.extend(ip.text().parse().ok().map(IpFamily::of));
        }
        let is_twice = |family: IpFamily| seen.iter().filter(|one| **one == family).count() > 1;
        if is_twice(IpFamily::V4) || is_twice(IpFamily::V6) {
            list.invalid(errors, "may specify no more than one IP for each IP family");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_and_list_say_the_same() {
        let check = |status: Value, expected: Value| {
            let mut pod = json!({ "status": status });
            fill(&mut pod);
            assert_eq!(pod["status"], expected);
        };
        let both = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
        check(json!({"podIPs": both}), json!({"podIPs": both, "podIP": "10.0.0.1"}));
        check(json!({"podIPs": both, "podIP": "10.0.0.1"}), json!({"podIPs": both, "podIP": "10.0.0.1"}));
        check(json!({"hostIP": "fd00::9"}), json!({"hostIP": "fd00::9", "hostIPs": [{"ip": "fd00::9"}]}));
        check(
            json!({"podIPs": both, "podIP": "10.0.0.2"}),
            json!({"podIPs": [{"ip": "10.0.0.2"}], "podIP": "10.0.0.2"}),
        );
        check(json!({"phase": "Pending"}), json!({"phase": "Pending"}));
    }

    #[test]
    fn lists_have_one_address_of_each_family() {
        let check = |ips: &[&str], expected: &[&str]| {
            let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            let mut errors = FieldErrors::default();
            validate(&json!({"status": {"podIPs": ips}}), &mut errors);
            let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected);
        };
        check(&["10.0.0.1", "fd00::1"], &[]);
        check(&["fd00::1"], &[]);
        check(
            &["10.0.0.1", "10.0.0.2"],
            &[concat!(
                "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.2\"}]: ",
                "may specify no more than one IP for each IP family"
            )],
        );
        check(
            &["x"],
            &[
                "status.podIPs[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        );
    }
}
