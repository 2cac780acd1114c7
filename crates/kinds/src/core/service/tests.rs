use serde_json::{Value, json};

use crate::check;

fn service(spec: Value) -> Value {
    json!({ "metadata": { "name": "web" }, "spec": spec })
}

#[test]
fn defaults() {
    #[track_caller]
    fn check(spec: Value, expected: Value) {
        check::defaults("services", service(spec), service(expected));
    }
    check(
        json!({"ports": [{"port": 80}]}),
        json!({
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        }),
    );
    check(
        json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}),
        json!({
            "type": "LoadBalancer", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "allocateLoadBalancerNodePorts": true,
        }),
    );
    check(
        json!({"type": "ExternalName", "externalName": "a.b"}),
        json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"}),
    );
    check(
        json!({"clusterIP": "None"}),
        json!({
            "clusterIP": "None", "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        }),
    );
}

#[test]
fn validation() {
    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        check::errors("services", service(spec), expected);
    }
    check(json!({"ports": [{"port": 80}]}), &[]);
    check(json!({}), &["spec.ports: Required value"]);
    check(json!({"clusterIP": "None", "clusterIPs": ["None"]}), &[]);
    check(json!({"type": "ExternalName", "externalName": "example.com."}), &[]);
    check(json!({"type": "ExternalName"}), &["spec.externalName: Required value"]);
    check(
        json!({"type": "Wrong", "ports": [{"port": 80}]}),
        &["spec.type: Unsupported value: \"Wrong\": supported values: \"ClusterIP\", \"ExternalName\""],
    );
    check(
        json!({"ports": [{"port": 80}, {"port": 70000, "name": "Ab", "targetPort": "-"}]}),
        &[
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Invalid value: \"Ab\": a lowercase RFC 1123 label",
            "spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "spec.ports[1].targetPort: Invalid value: \"-\": must contain at least one letter",
            "spec.ports[1].targetPort: Invalid value: \"-\": must not begin or end with a hyphen",
        ],
    );
    check(
        json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]}),
        &["spec.ports[1].name: Duplicate value: \"a\"", "spec.ports[1]: Duplicate value: {"],
    );
    check(
        json!({"ports": [{"port": 80, "nodePort": 30080}]}),
        &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    );
    check(
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
        &[
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ],
    );
    check(
        json!({"clusterIP": "1.2.3", "clusterIPs": ["1.2.3"], "ports": [{"port": 80}]}),
        &["spec.clusterIPs[0]: Invalid value: \"1.2.3\": must be a valid IP address"],
    );
    check(
        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}, "ports": [{"port": 80}]}),
        &[
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
        ],
    );
    check(
        json!({"externalTrafficPolicy": "Local", "ports": [{"port": 80}]}),
        &[
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ],
    );
    check(
        json!({"selector": {"a": "b c"}, "externalIPs": ["127.0.0.1"], "ports": [{"port": 80}]}),
        &[
            "spec.selector: Invalid value: \"b c\"",
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range",
        ],
    );
}

#[test]
fn addresses_are_one_of_each_family() {
    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        let mut whole = json!({"ports": [{"port": 80}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        check::errors("services", service(whole), expected);
    }
    let both = |first: &str, second: &str| json!({"clusterIP": first, "clusterIPs": [first, second]});
    check(both("10.96.0.7", "fd00::7"), &[]);
    check(both("fd00::7", "10.96.0.7"), &[]);
    check(
        both("10.96.0.7", "10.96.0.8"),
        &[
            "spec.clusterIPs: Invalid value: [\"10.96.0.7\",\"10.96.0.8\"]: may specify no more than one IP for each IP family",
        ],
    );
    check(
        both("None", "10.96.0.8"),
        &["spec.clusterIPs: Invalid value: [\"None\",\"10.96.0.8\"]: 'None' must be"],
    );
    check(
        both("10.96.0.8", "None"),
        &["spec.clusterIPs[1]: Invalid value: \"None\": must be a valid IP address"],
    );
    check(json!({"clusterIP": "10.96.0.7"}), &["spec.clusterIPs: Required value"]);
    check(
        json!({"clusterIPs": ["10.96.0.7"]}),
        &["spec.clusterIPs: Invalid value: [\"10.96.0.7\"]: must be empty when `clusterIP` is not specified"],
    );
    check(
        json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.8"]}),
        &["spec.clusterIPs: Invalid value: [\"10.96.0.8\"]: first value must match `clusterIP`"],
    );
    check(
        json!({"ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "Triple"}),
        &[
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
            "spec.ipFamilyPolicy: Unsupported value: \"Triple\": supported values: \"PreferDualStack\"",
        ],
    );
    check(
        json!({"ipFamilies": ["IPv5"]}),
        &["spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\""],
    );
    check(
        json!({"clusterIP": "fd00::7", "clusterIPs": ["fd00::7"], "ipFamilies": ["IPv4"]}),
        &[
            "spec.clusterIPs[0]: Invalid value: \"fd00::7\": expected an IPv4 value as indicated by `ipFamilies[0]`",
        ],
    );
}

#[test]
fn primary_address_stays() {
    let of = |ips: &[&str], families: &[&str], policy: &str| {
        service(json!({
            "clusterIP": ips[0], "clusterIPs": ips, "ipFamilies": families, "ipFamilyPolicy": policy,
            "ports": [{"port": 80}],
        }))
    };
    let single = || of(&["10.96.0.7"], &["IPv4"], "SingleStack");
    let dual = || of(&["10.96.0.7", "fd00::7"], &["IPv4", "IPv6"], "PreferDualStack");
    let check = |new: Value, old: Value, expected: &[&str]| {
        check::update_errors("services", new, old, expected);
    };
    check(dual(), single(), &[]);
    check(single(), dual(), &[]);
    check(
        of(&["10.96.0.7"], &["IPv4"], "PreferDualStack"),
        dual(),
        &[
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary clusterIP",
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary ipFamily",
        ],
    );
    check(
        of(&["fd00::7", "10.96.0.7"], &["IPv6", "IPv4"], "PreferDualStack"),
        single(),
        &[
            "spec.clusterIPs[0]: Invalid value: [\"fd00::7\",\"10.96.0.7\"]: may not change once set",
            "spec.ipFamilies[0]: Invalid value: [\"IPv6\",\"IPv4\"]: may not change once set",
        ],
    );
    check(
        of(&["10.96.0.7", "fd00::8"], &["IPv4", "IPv6"], "PreferDualStack"),
        dual(),
        &["spec.clusterIPs[1]: Invalid value: [\"10.96.0.7\",\"fd00::8\"]: may not change once set"],
    );
    let headless = |families: &[&str]| of(&["None"], families, "PreferDualStack");
    check(headless(&["IPv6", "IPv4"]), headless(&["IPv4"]), &[]);
    check(
        headless(&["IPv4"]),
        single(),
        &["spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"],
    );
}

#[test]
fn updates() {
    let old = json!({
        "type": "NodePort", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
        "ports": [{"port": 80, "nodePort": 30080}],
    });
    #[track_caller]
    fn check(new: Value, old: &Value, expected: &[&str]) {
        check::update_errors("services", service(new), service(old.clone()), expected);
    }
    check(json!({"type": "NodePort", "ports": [{"port": 80}]}), &old, &[]);
    check(
        json!({"type": "NodePort", "clusterIP": "10.96.0.8", "ports": [{"port": 80}]}),
        &old,
        &["spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not change once set"],
    );

    let strategy = check::find("services").strategy;
    let mut new = check::defaulted(
        "services",
        service(json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]})),
    );
    strategy.prepare_update(&mut new, &check::defaulted("services", service(old.clone())));
    assert_eq!(new["spec"]["clusterIP"], "10.96.0.7");
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30080);
    assert!(new["spec"]["ports"][1].get("nodePort").is_none());

    let mut new = old.clone();
    new["type"] = json!("ClusterIP");
    new["externalTrafficPolicy"] = json!("Cluster");
    let mut new = check::defaulted("services", service(new));
    strategy.prepare_update(&mut new, &check::defaulted("services", service(old)));
    assert!(new["spec"]["ports"][0].get("nodePort").is_none());
    assert!(new["spec"].get("externalTrafficPolicy").is_none());
    assert_eq!(new["spec"]["clusterIP"], "10.96.0.7");
}

#[test]
fn columns() {
    let row = |spec: Value, status: Value, expected: &[&str]| {
        let object = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T11:00:00Z"}, "spec": spec, "status": status,
        });
        check::row("services", object, expected);
    };
    row(
        json!({"type": "NodePort", "clusterIP": "10.96.0.7", "selector": {"b": "2", "a": "1"},
            "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
        json!({}),
        &["web", "NodePort", "10.96.0.7", "<none>", "80:30080/TCP,53/UDP", "60m", "a=1,b=2"],
    );
    row(
        json!({"type": "LoadBalancer", "clusterIP": "10.96.0.7"}),
        json!({}),
        &["web", "LoadBalancer", "10.96.0.7", "<pending>", "<none>", "60m", "<none>"],
    );
    row(
        json!({"type": "LoadBalancer", "clusterIP": "10.96.0.7"}),
        json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a.b"}]}}),
        &["web", "LoadBalancer", "10.96.0.7", "1.2.3.4,a.b", "<none>", "60m", "<none>"],
    );
    row(
        json!({"type": "ExternalName", "externalName": "a.b"}),
        json!({}),
        &["web", "ExternalName", "<none>", "a.b", "<none>", "60m", "<none>"],
    );
}
