use serde_json::{Value, json};

use super::*;

const V4: &str = "10.96.0.0/12";
const V6: &str = "fd00:10:96::/112";
const V4_FIRST: &str = "10.96.0.0/12,fd00:10:96::/112";
const V6_FIRST: &str = "fd00:10:96::/112,10.96.0.0/12";

fn spec(fields: Value) -> Value {
    let mut spec = json!({"type": "ClusterIP", "selector": {"app": "web"}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    spec
}

/// Policy, families and addresses of what becomes of the spec, or what is wrong with it; empty if validation refuses it.
fn settled(fields: Value, old: Option<Value>, cluster: &str) -> String {
    let (mut spec, old) = (spec(fields), old.map(spec));
    match settle(&mut spec, old.as_ref(), &cluster.parse().unwrap()) {
        Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Ok(None) => String::new(),
        Ok(Some(families)) => {
            let named: Vec<&str> = families.iter().map(|family| family.name()).collect();
            assert_eq!(json!(named), spec["ipFamilies"]);
            let ips = texts(&spec["clusterIPs"]);
            format!("{} {} {}", spec["ipFamilyPolicy"].as_str().unwrap(), named.join(","), ips.join(","))
                .trim_end()
                .to_owned()
        }
    }
}

#[track_caller]
fn created(cluster: &str, fields: Value, expected: &str) {
    assert_eq!(settled(fields.clone(), None, cluster), expected, "{fields}");
}

#[track_caller]
fn changed(cluster: &str, old: Value, fields: Value, expected: &str) {
    assert_eq!(settled(fields.clone(), Some(old), cluster), expected, "{fields}");
}

#[test]
fn service_gets_the_families_it_asks_for() {
    for (cluster, family) in [(V4, "IPv4"), (V6, "IPv6"), (V4_FIRST, "IPv4"), (V6_FIRST, "IPv6")] {
        created(cluster, json!({}), &format!("SingleStack {family}"));
        created(cluster, json!({"clusterIP": "None"}), &format!("SingleStack {family} None"));
    }
    let policy = |policy: &str| json!({"ipFamilyPolicy": policy});
    created(V4, policy("PreferDualStack"), "PreferDualStack IPv4");
    created(V4_FIRST, policy("PreferDualStack"), "PreferDualStack IPv4,IPv6");
    created(V6_FIRST, policy("RequireDualStack"), "RequireDualStack IPv6,IPv4");
    let families =
        |policy: &str, families: &[&str]| json!({"ipFamilyPolicy": policy, "ipFamilies": families});
    created(V4_FIRST, families("SingleStack", &["IPv6"]), "SingleStack IPv6");
    created(V4_FIRST, json!({"ipFamilies": ["IPv6"]}), "SingleStack IPv6");
    created(V4_FIRST, families("PreferDualStack", &["IPv6"]), "PreferDualStack IPv6,IPv4");
    created(V4_FIRST, families("RequireDualStack", &["IPv6", "IPv4"]), "RequireDualStack IPv6,IPv4");
    created(V4_FIRST, json!({"clusterIP": "fd00:10:96::5"}), "SingleStack IPv6 fd00:10:96::5");
    let both = json!({
        "clusterIP": "fd00:10:96::5", "clusterIPs": ["fd00:10:96::5", "10.96.0.5"], "ipFamilyPolicy": "RequireDualStack",
    });
    created(V4_FIRST, both, "RequireDualStack IPv6,IPv4 fd00:10:96::5,10.96.0.5");
}

#[test]
fn service_without_selector_may_have_endpoints_of_both_families() {
    let by_hand = |more: Value| {
        let mut fields = json!({"clusterIP": "None", "selector": null});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    created(V4, by_hand(json!({})), "RequireDualStack IPv4,IPv6 None");
    created(V6, by_hand(json!({})), "RequireDualStack IPv6,IPv4 None");
    created(V4, by_hand(json!({"ipFamilyPolicy": "SingleStack"})), "SingleStack IPv4 None");
    created(V4, by_hand(json!({"ipFamilies": ["IPv6"]})), "RequireDualStack IPv6,IPv4 None");
    created(
        V4_FIRST,
        by_hand(json!({"ipFamilyPolicy": "PreferDualStack"})),
        "PreferDualStack IPv4,IPv6 None",
    );
}

#[test]
fn service_is_refused_what_the_cluster_lacks() {
    created(
        V4,
        json!({"ipFamilyPolicy": "RequireDualStack"}),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
    );
    created(
        V4,
        json!({"ipFamilies": ["IPv6"]}),
        "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
    );
    created(
        V4,
        json!({"clusterIP": "fd00::1"}),
        "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
    );
    created(
        V4_FIRST,
        json!({"ipFamilies": ["IPv6", "IPv4"], "clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.0.1"]}),
        "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when \
         multiple cluster IPs are specified; spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be \
         'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    );
}

#[test]
fn malformed_fields_are_left_to_validation() {
    for fields in [
        json!({"ipFamilies": ["IPv5"]}),
        json!({"ipFamilies": ["IPv4", "IPv4"]}),
        json!({"ipFamilyPolicy": "Triple"}),
        json!({"clusterIP": "10.96.0.300"}),
        json!({"clusterIP": "10.96.0.3", "clusterIPs": ["10.96.0.4"]}),
        json!({"clusterIPs": ["10.96.0.4"]}),
        json!({"clusterIP": "None", "clusterIPs": ["None", "10.96.0.4"]}),
        json!({"clusterIP": "10.96.0.3", "clusterIPs": ["10.96.0.3", "10.96.0.4"]}),
        json!({"clusterIP": "10.96.0.3", "ipFamilies": ["IPv6"]}),
    ] {
        created(V4_FIRST, fields, "");
    }
}

fn single() -> Value {
    json!({
        "clusterIP": "10.96.0.3", "clusterIPs": ["10.96.0.3"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
    })
}

fn dual(policy: &str) -> Value {
    json!({
        "clusterIP": "10.96.0.3", "clusterIPs": ["10.96.0.3", "fd00:10:96::3"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": policy,
    })
}

fn with(mut fields: Value, more: Value) -> Value {
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    fields
}

#[test]
fn policy_decides_about_upgrades_and_downgrades() {
    for policy in ["PreferDualStack", "RequireDualStack"] {
        let up = with(single(), json!({"ipFamilyPolicy": policy}));
        changed(V4_FIRST, single(), up, &format!("{policy} IPv4,IPv6 10.96.0.3"));
        let down = with(dual(policy), json!({"ipFamilyPolicy": "SingleStack"}));
        changed(V4_FIRST, dual(policy), down, "SingleStack IPv4 10.96.0.3");
        // Without a word about the policy it stays.
        let silent = with(dual(policy), json!({"ipFamilyPolicy": null, "ipFamilies": null}));
        changed(V4_FIRST, dual(policy), silent, &format!("{policy} IPv4,IPv6 10.96.0.3,fd00:10:96::3"));
    }
    let named = with(dual("PreferDualStack"), json!({"clusterIPs": ["10.96.0.3", "fd00:10:96::9"]}));
    changed(V4_FIRST, single(), named, "PreferDualStack IPv4,IPv6 10.96.0.3,fd00:10:96::9");
    changed(
        V4_FIRST,
        dual("RequireDualStack"),
        with(dual("RequireDualStack"), json!({"clusterIPs": ["10.96.0.3"], "ipFamilies": ["IPv4"]})),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster \
         IP; spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP \
         family",
    );
    changed(
        V4,
        single(),
        with(single(), json!({"ipFamilyPolicy": "RequireDualStack"})),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
    );
}

#[test]
fn preference_is_not_looked_at_again_when_the_cluster_changes() {
    let preferring = with(single(), json!({"ipFamilyPolicy": "PreferDualStack"}));
    changed(V4_FIRST, preferring.clone(), preferring, "PreferDualStack IPv4 10.96.0.3");
    let both = "PreferDualStack IPv4,IPv6 10.96.0.3,fd00:10:96::3";
    changed(V4, dual("PreferDualStack"), dual("PreferDualStack"), both);
}

#[test]
fn service_with_an_external_name_before_begins_anew() {
    let external = json!({"type": "ExternalName", "externalName": "a.example.com"});
    changed(V4_FIRST, external.clone(), json!({}), "SingleStack IPv4");
    changed(V6_FIRST, external, json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv6,IPv4");
}
