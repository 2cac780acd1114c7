//! Services of one and of both address families: what each gets, keeps and gives back.

use serde_json::{Value, json};

use crate::cluster::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const V4_FIRST: &str = "10.96.0.0/12,fd00:10:96::/112";
const V6_FIRST: &str = "fd00:10:96::/112,10.96.0.0/12";
const V6: &str = "fd00:10:96::/108";

async fn cluster(service_cidr: &'static str) -> Cluster {
    Cluster::with(Setup { service_cidr, ..Setup::default() }).await
}

fn service(name: &str, more: Value) -> Value {
    let mut spec = json!({"selector": {"app": "a"}, "ports": [{"port": 80}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn one(name: &str) -> String {
    format!("{SERVICES}/{name}")
}

/// Policy, families and families of the addresses; that the addresses are held by it alone is looked at besides.
async fn shown(admin: &Client, service: &Value) -> String {
    let spec = &service["spec"];
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let ips = texts(&spec["clusterIPs"]);
    assert_eq!(spec["clusterIP"], json!(ips[0]));
    let mut of = Vec::new();
    for ip in &ips {
        if ip == "None" {
            of.push("None");
            continue;
        }
        let family = if ip.starts_with("fd00:10:96::") { "IPv6" } else { "IPv4" };
        let held = admin.get(&format!("{ADDRESSES}/{ip}")).await.ok();
        assert_eq!(held["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"], family, "{held}");
        assert_eq!(held["spec"]["parentRef"]["name"], service["metadata"]["name"], "{held}");
        of.push(family);
    }
    let policy = spec["ipFamilyPolicy"].as_str().unwrap();
    format!("{policy} {} {}", texts(&spec["ipFamilies"]).join(","), of.join(","))
}

#[tokio::test]
async fn service_gets_addresses_of_the_families_it_asks_for() {
    let cluster = cluster(V4_FIRST).await;
    let admin = cluster.admin();
    let prefer = json!({"ipFamilyPolicy": "PreferDualStack"});
    let require = json!({"ipFamilyPolicy": "RequireDualStack"});
    let both = |policy: &str, families: [&str; 2]| json!({"ipFamilyPolicy": policy, "ipFamilies": families});
    for (i, (spec, expected)) in [
        (json!({}), "SingleStack IPv4 IPv4"),
        (json!({"ipFamilies": ["IPv4"]}), "SingleStack IPv4 IPv4"),
        (json!({"ipFamilies": ["IPv6"]}), "SingleStack IPv6 IPv6"),
        (prefer, "PreferDualStack IPv4,IPv6 IPv4,IPv6"),
        (require, "RequireDualStack IPv4,IPv6 IPv4,IPv6"),
        (both("RequireDualStack", ["IPv4", "IPv6"]), "RequireDualStack IPv4,IPv6 IPv4,IPv6"),
        (both("RequireDualStack", ["IPv6", "IPv4"]), "RequireDualStack IPv6,IPv4 IPv6,IPv4"),
        (both("PreferDualStack", ["IPv6", "IPv4"]), "PreferDualStack IPv6,IPv4 IPv6,IPv4"),
        (json!({"clusterIP": "fd00:10:96::99"}), "SingleStack IPv6 IPv6"),
        (
            json!({"type": "NodePort", "ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack IPv4,IPv6 IPv4,IPv6",
        ),
        (
            json!({"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            "RequireDualStack IPv6,IPv4 IPv6,IPv4",
        ),
        (json!({"clusterIP": "None"}), "SingleStack IPv4 None"),
        (json!({"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6 None"),
        (json!({"clusterIP": "None", "selector": null}), "RequireDualStack IPv4,IPv6 None"),
    ]
    .into_iter()
    .enumerate()
    {
        let made = admin.post(SERVICES, service(&format!("s{i}"), spec.clone())).await.ok();
        assert_eq!(shown(&admin, &made).await, expected, "{spec}");
    }
}

#[tokio::test]
async fn service_may_name_its_addresses() {
    let cluster = cluster(V4_FIRST).await;
    let admin = cluster.admin();
    let named = |first: &str, second: &str| json!({"clusterIP": first, "clusterIPs": [first, second], "ipFamilyPolicy": "RequireDualStack"});
    let made = admin.post(SERVICES, service("a", named("fd00:10:96::50", "10.96.0.50"))).await.ok();
    assert_eq!(made["spec"]["clusterIPs"], json!(["fd00:10:96::50", "10.96.0.50"]));
    assert_eq!(shown(&admin, &made).await, "RequireDualStack IPv6,IPv4 IPv6,IPv4");
    // The same address, written otherwise, is the same address.
    for (first, second, why) in [
        ("fd00:10:96:0::50", "10.96.0.51", "provided IP is already allocated"),
        ("10.96.0.51", "fd00:10:96::50", "provided IP is already allocated"),
        (
            "10.96.0.51",
            "fd00:10:97::1",
            "is not in the valid range. The range of valid IPs is fd00:10:96::/112",
        ),
        ("10.96.0.51", "fd00:10:96::", "is not in the valid range"),
        ("10.96.0.51", "10.96.0.52", "may specify no more than one IP for each IP family"),
    ] {
        let refused = admin.post(SERVICES, service("b", named(first, second))).await.refused(422, "Invalid");
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    }
    // Nothing of what was refused is held.
    admin.get(&format!("{ADDRESSES}/10.96.0.51")).await.refused(404, "NotFound");
    let last = admin.post(SERVICES, service("c", json!({"clusterIP": "fd00:10:96::ffff"}))).await.ok();
    assert_eq!(shown(&admin, &last).await, "SingleStack IPv6 IPv6");
    admin.delete(&one("a")).await.ok();
    for free in ["fd00:10:96::50", "10.96.0.50"] {
        admin.get(&format!("{ADDRESSES}/{free}")).await.refused(404, "NotFound");
    }
}

#[tokio::test]
async fn service_changes_its_policy() {
    let cluster = cluster(V4_FIRST).await;
    let admin = cluster.admin();
    let policy = |policy: &str| json!({"spec": {"ipFamilyPolicy": policy}});
    let before = admin.post(SERVICES, service("a", json!({"clusterIP": "10.96.0.50"}))).await.ok();
    let dual = admin.patch(MERGE, &one("a"), policy("PreferDualStack")).await.ok();
    assert_eq!(shown(&admin, &dual).await, "PreferDualStack IPv4,IPv6 IPv4,IPv6");
    assert_eq!(dual["spec"]["clusterIP"], before["spec"]["clusterIP"]);
    let second = dual["spec"]["clusterIPs"][1].as_str().unwrap().to_owned();
    let required = admin.patch(MERGE, &one("a"), policy("RequireDualStack")).await.ok();
    assert_eq!(required["spec"]["clusterIPs"], dual["spec"]["clusterIPs"]);
    // Who writes it again without a word about families changes none.
    let mut again = service("a", json!({"ports": [{"port": 81}]}));
    again["metadata"]["resourceVersion"] = required["metadata"]["resourceVersion"].clone();
    let again = admin.put(&one("a"), again).await.ok();
    assert_eq!(again["spec"]["clusterIPs"], dual["spec"]["clusterIPs"]);
    assert_eq!(again["spec"]["ipFamilyPolicy"], "RequireDualStack");
    // One family less, but not by the policy.
    let less = json!({"spec": {"clusterIPs": ["10.96.0.50"], "ipFamilies": ["IPv4"]}});
    let refused = admin.patch(MERGE, &one("a"), less).await.refused(422, "Invalid");
    let why = "must be 'SingleStack' to release the secondary cluster IP";
    assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    for (spec, why) in [
        (json!({"ipFamilies": ["IPv6", "IPv4"], "clusterIPs": null, "clusterIP": null}), "ipFamilies[0]"),
        (json!({"clusterIPs": ["10.96.0.50", "fd00:10:96::77"]}), "may not change once set"),
    ] {
        let refused = admin.patch(MERGE, &one("a"), json!({"spec": spec})).await.refused(422, "Invalid");
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    }
    let single = admin.patch(MERGE, &one("a"), policy("SingleStack")).await.ok();
    assert_eq!(shown(&admin, &single).await, "SingleStack IPv4 IPv4");
    assert_eq!(single["spec"]["clusterIP"], "10.96.0.50");
    admin.get(&format!("{ADDRESSES}/{second}")).await.refused(404, "NotFound");
    // A dry run takes nothing.
    let path = format!("{}?dryRun=All", one("a"));
    let dry = admin.patch(MERGE, &path, policy("PreferDualStack")).await.ok();
    let offered = dry["spec"]["clusterIPs"][1].as_str().unwrap();
    admin.get(&format!("{ADDRESSES}/{offered}")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn service_with_an_external_name_has_no_address() {
    let cluster = cluster(V6_FIRST).await;
    let admin = cluster.admin();
    let made = admin.post(SERVICES, service("a", json!({"ipFamilyPolicy": "PreferDualStack"}))).await.ok();
    assert_eq!(shown(&admin, &made).await, "PreferDualStack IPv6,IPv4 IPv6,IPv4");
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example.com"}});
    let external = admin.patch(MERGE, &one("a"), external).await.ok();
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert!(external["spec"].get(field).is_none(), "{field}: {external}");
    }
    for ip in made["spec"]["clusterIPs"].as_array().unwrap() {
        admin.get(&format!("{ADDRESSES}/{}", ip.as_str().unwrap())).await.refused(404, "NotFound");
    }
    let back =
        json!({"spec": {"type": "ClusterIP", "externalName": null, "ipFamilyPolicy": "RequireDualStack"}});
    let back = admin.patch(MERGE, &one("a"), back).await.ok();
    assert_eq!(shown(&admin, &back).await, "RequireDualStack IPv6,IPv4 IPv6,IPv4");
    let refused = json!({"type": "ExternalName", "externalName": "a.b", "ipFamilyPolicy": "SingleStack"});
    let refused = admin.post(SERVICES, service("b", refused)).await.refused(422, "Invalid");
    let why = "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services";
    assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
}

#[tokio::test]
async fn cluster_of_one_family_refuses_the_other() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (spec, why) in [
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
    ] {
        let refused = admin.post(SERVICES, service("a", spec)).await.refused(422, "Invalid");
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    }
    let prefers = admin.post(SERVICES, service("a", json!({"ipFamilyPolicy": "PreferDualStack"}))).await.ok();
    assert_eq!(shown(&admin, &prefers).await, "PreferDualStack IPv4 IPv4");
    let by_hand = service("b", json!({"clusterIP": "None", "selector": null}));
    let by_hand = admin.post(SERVICES, by_hand).await.ok();
    assert_eq!(shown(&admin, &by_hand).await, "RequireDualStack IPv4,IPv6 None");
}

#[tokio::test]
async fn cluster_has_its_own_services_in_each_family() {
    let dns = "/api/v1/namespaces/kube-system/services/kube-dns";
    for (ranges, api, names, cidrs) in [
        (
            V4_FIRST,
            "10.96.0.1",
            json!(["10.96.0.10", "fd00:10:96::a"]),
            json!(["10.96.0.0/12", "fd00:10:96::/112"]),
        ),
        (
            V6_FIRST,
            "fd00:10:96::1",
            json!(["fd00:10:96::a", "10.96.0.10"]),
            json!(["fd00:10:96::/112", "10.96.0.0/12"]),
        ),
        (V6, "fd00:10:96::1", json!(["fd00:10:96::a"]), json!(["fd00:10:96::/108"])),
    ] {
        let cluster = cluster(ranges).await;
        let admin = cluster.admin();
        assert_eq!(admin.get(&one("kubernetes")).await.ok()["spec"]["clusterIPs"], json!([api]), "{ranges}");
        let service = admin.get(dns).await.ok();
        assert_eq!(service["spec"]["clusterIPs"], names, "{ranges}");
        assert_eq!(service["spec"]["ipFamilyPolicy"], "PreferDualStack", "{ranges}");
        let ranges = admin.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.ok();
        assert_eq!(ranges["spec"]["cidrs"], cidrs);
        let made = admin.post(SERVICES, service_without_wishes()).await.ok();
        let family =
            if ranges["spec"]["cidrs"][0].as_str().unwrap().starts_with("fd00") { "IPv6" } else { "IPv4" };
        assert_eq!(shown(&admin, &made).await, format!("SingleStack {family} {family}"));
    }
}

fn service_without_wishes() -> Value {
    service("plain", json!({}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_range_of_ipv6_is_used_up_without_doubles() {
    let cluster = cluster("10.96.0.0/12,fd00:9::/124").await;
    let admin = cluster.admin();
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let admin = admin.clone();
            let body = service(&format!("s{i}"), json!({"ipFamilyPolicy": "RequireDualStack"}));
            tokio::spawn(async move { admin.post(SERVICES, body).await })
        })
        .collect();
    let (mut seen, mut full) = (std::collections::HashSet::new(), 0);
    for task in tasks {
        let answer = task.await.unwrap();
        match answer.code {
            201 => assert!(seen.insert(answer.ok()["spec"]["clusterIPs"][1].to_string()), "given twice"),
            _ => {
                assert!(answer.text().contains("range is full"), "{}", answer.text());
                full += 1;
            }
        }
    }
    // 16 addresses without the network's own and that of DNS; nothing of IPv4 is held by those that got none.
    assert_eq!((seen.len(), full), (14, 6));
    let held = admin.get(ADDRESSES).await.ok();
    let of_v4 = held["items"].as_array().unwrap().iter();
    let of_v4 = of_v4.filter(|held| held["metadata"]["name"].as_str().unwrap().starts_with("10.")).count();
    assert_eq!(of_v4, 14 + 2);
}
