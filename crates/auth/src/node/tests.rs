use proptest::prelude::*;
use serde_json::json;

use super::*;

fn node(name: &str) -> User {
    User::authenticated(&format!("system:node:{name}"), &["system:nodes"])
}

/// A pod that uses one object of each kind, named after what uses it.
fn pod(node: &str) -> serde_json::Value {
    json!({
        "metadata": {"namespace": "ns", "name": "web"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": "bot",
            "imagePullSecrets": [{"name": "pull"}],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "env-from"}}]}],
            "containers": [{"env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "k"}}},
                {"name": "C", "value": "x"},
            ]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "volume"}},
                {"name": "b", "projected": {"sources": [
                    {"secret": {"name": "projected"}},
                    {"configMap": {"name": "kube-root-ca.crt"}},
                    {"serviceAccountToken": {"path": "token"}},
                ]}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "e", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
                {"name": "f", "iscsi": {"secretRef": {"name": "iscsi"}}},
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-0"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "from-template"}]},
    })
}

fn volume() -> serde_json::Value {
    json!({
        "metadata": {"name": "pv-1"},
        "spec": {
            "claimRef": {"namespace": "ns", "name": "data"},
            "csi": {
                "nodeStageSecretRef": {"namespace": "storage", "name": "stage"},
                "controllerPublishSecretRef": {"namespace": "storage", "name": "controller"},
            },
        },
    })
}

fn ingress() -> serde_json::Value {
    json!({"metadata": {"namespace": "ns", "name": "i"}, "spec": {"tls": [{"secretName": "tls"}, {}]}})
}

fn authorizer() -> NodeAuthorizer {
    let mut authorizer = NodeAuthorizer::default();
    authorizer.graph.upsert(WatchedKind::Pod, &pod("a"));
    authorizer.graph.upsert(WatchedKind::PersistentVolume, &volume());
    authorizer.graph.upsert(WatchedKind::Ingress, &ingress());
    let on_a = |name: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": "a"}});
    authorizer.graph.upsert(WatchedKind::VolumeAttachment, &on_a("va-1"));
    authorizer.graph.upsert(WatchedKind::ResourceSlice, &on_a("slice-1"));
    authorizer
}

/// `verb group/resource[/sub] [namespace/]name`; the core group is empty.
fn wanted(text: &str) -> Attributes<'_> {
    let mut words = text.split(' ');
    let verb = words.next().unwrap();
    let mut what = words.next().unwrap().split('/');
    let (group, resource) = (what.next().unwrap(), what.next().unwrap());
    let object = words.next().unwrap_or_default();
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    Attributes::resource(verb, group, resource)
        .subresource(what.next().unwrap_or_default())
        .in_namespace(namespace)
        .named(name)
}

/// Public by their nature: certificates to trust.
#[test]
fn nodes_read_trust_bundles_and_write_none() {
    let check = |text: &str, expected: bool| {
        assert_eq!(authorizer().allows(&node("a"), &wanted(text)).is_allowed(), expected, "{text}");
    };
    check("list certificates.k8s.io/clustertrustbundles", true);
    check("watch certificates.k8s.io/clustertrustbundles", true);
    check("get certificates.k8s.io/clustertrustbundles roots", true);
    check("create certificates.k8s.io/clustertrustbundles roots", false);
    check("patch certificates.k8s.io/clustertrustbundles roots", false);
}

#[test]
fn nodes_see_only_the_certificate_requests_that_they_made() {
    let requests = |verb| Attributes::resource(verb, "certificates.k8s.io", "podcertificaterequests");
    let check = |wanted: Attributes<'_>, expected: bool| {
        assert_eq!(authorizer().allows(&node("a"), &wanted).is_allowed(), expected, "{wanted:?}");
    };
    check(requests("create").in_namespace("ns"), true);
    for (selected, expected) in [("a", true), ("b", false)] {
        let terms = [("spec.nodeName", selected)];
        check(requests("watch").in_namespace("ns").selecting(&terms), expected);
    }
    check(requests("list"), false);
    check(requests("get").in_namespace("ns").named("req"), false);
    check(requests("delete").in_namespace("ns").named("req"), false);
    check(requests("update").in_namespace("ns").named("req").subresource("status"), false);
}

#[test]
fn nodes_follow_the_volumes_that_they_keep() {
    let mut authorizer = authorizer();
    let image = |name: &str, driver: &str| json!({"metadata": {"name": name}, "spec": {"csi": {"driver": driver, "volumeAttributes": {"node": "a"}}}});
    authorizer.graph.upsert(WatchedKind::PersistentVolume, &image("kept", "local.minik8s.io"));
    authorizer.graph.upsert(WatchedKind::PersistentVolume, &image("foreign", "example.com"));
    let check = |who: &str, wanted: Attributes<'_>, expected: bool| {
        assert_eq!(authorizer.allows(&node(who), &wanted).is_allowed(), expected, "{who} {wanted:?}");
    };
    for verb in ["get", "patch"] {
        let named = |name| Attributes::resource(verb, "", "persistentvolumes").named(name);
        check("a", named("kept"), true);
        check("b", named("kept"), false);
        check("a", named("foreign"), false);
    }
    check("a", Attributes::resource("delete", "", "persistentvolumes").named("kept"), false);
    check(
        "a",
        Attributes::resource("patch", "", "persistentvolumes").named("kept").subresource("status"),
        false,
    );
    for verb in ["list", "watch"] {
        let all = Attributes::resource(verb, "", "persistentvolumes");
        check("a", all, false);
        check("a", all.selecting(&[("spec.csi.volumeAttributes.node", "a")]), true);
        check("b", all.selecting(&[("spec.csi.volumeAttributes.node", "a")]), false);
    }
}

#[test]
fn nodes_reach_what_their_pods_use() {
    let authorizer = authorizer();
    let secrets = ["pull", "env-from", "env", "volume", "projected", "csi", "iscsi"];
    for secret in secrets {
        for verb in ["get", "list", "watch"] {
            let text = format!("{verb} /secrets ns/{secret}");
            assert!(authorizer.allows(&node("a"), &wanted(&text)).is_allowed(), "{text}");
            assert!(!authorizer.allows(&node("b"), &wanted(&text)).is_allowed(), "{text}");
        }
    }
    let check = |text: &str, expected: bool| {
        let decision = authorizer.allows(&node("a"), &wanted(text));
        assert_eq!(decision.is_allowed(), expected, "{text}: {}", decision.reason());
        if expected {
            let other = authorizer.allows(&node("b"), &wanted(text)).is_allowed();
            assert!(!other, "another node: {text}");
        }
    };
    check("get /secrets other/tls", false);
    check("get /configmaps ns/env-map", true);
    check("watch /configmaps ns/kube-root-ca.crt", true);
    check("get /persistentvolumeclaims ns/data", true);
    check("get /persistentvolumeclaims ns/web-d", true);
    check("patch /persistentvolumeclaims/status ns/data", true);
    check("get /persistentvolumes pv-1", true);
    check("get /secrets storage/stage", true);
    check("create /serviceaccounts/token ns/bot", true);
    check("get /serviceaccounts ns/bot", true);
    check("get /pods ns/web", true);
    check("watch /pods ns/web", true);
    check("get storage.k8s.io/volumeattachments va-1", true);
    check("get resource.k8s.io/resourceclaims ns/gpu-0", true);
    check("get resource.k8s.io/resourceclaims ns/from-template", true);
    check("update resource.k8s.io/resourceslices slice-1", true);
    check("get /nodes a", true);
    check("patch /nodes/status a", true);
    check("update coordination.k8s.io/leases kube-node-lease/a", true);
    check("patch storage.k8s.io/csinodes a", true);
    check("get storage.k8s.io/csistoragecapacities kube-system/local.minik8s.io.a", true);
    check("patch storage.k8s.io/csistoragecapacities kube-system/local.minik8s.io.a", true);

    check("get /secrets other/env", false);
    check("get /secrets ns/nobody", false);
    check("get /secrets storage/controller", false);
    check("list /secrets ns/", false);
    check("list /secrets", false);
    check("update /secrets ns/env", false);
    check("delete /configmaps ns/env-map", false);
    check("list /persistentvolumeclaims ns/data", false);
    check("update /persistentvolumeclaims ns/data", false);
    check("create /serviceaccounts/token ns/other", false);
    check("create /serviceaccounts ns/bot", false);
    check("list /pods", false);
    check("get /pods/log ns/web", false);
    check("update /pods ns/web", false);
    check("get /nodes b", false);
    check("list /nodes", false);
    check("delete /nodes a", true);
    check("delete /nodes b", false);
    check("update /nodes b", false);
    check("get coordination.k8s.io/leases kube-node-lease/b", false);
    check("get coordination.k8s.io/leases kube-system/a", false);
    check("list coordination.k8s.io/leases kube-node-lease/", false);
    for other in ["kube-system/local.minik8s.io.b", "kube-system/csisc-x", "ns/local.minik8s.io.a"] {
        check(&format!("patch storage.k8s.io/csistoragecapacities {other}"), false);
    }
    check("create storage.k8s.io/csistoragecapacities ns/", false);
    check("delete storage.k8s.io/csistoragecapacities kube-system/local.minik8s.io.a", false);
    check("list storage.k8s.io/csistoragecapacities kube-system/", false);
    check("list resource.k8s.io/resourceslices", false);
    check("create apps/deployments ns/x", false);
    check("list /secrets/status ns/env", false);
}

/// Every node's router must show the certificates of Ingresses; whoever writes an Ingress can name any Secret.
#[test]
fn node_reads_secret_of_an_ingress_only_as_certificate() {
    let authorizer = authorizer();
    let by_type = [("metadata.name", "tls"), ("type", "kubernetes.io/tls")];
    let opaque = [("metadata.name", "tls"), ("type", "Opaque")];
    let check = |text: &str, fields: &[(&str, &str)], expected: bool| {
        let decision = authorizer.allows(&node("b"), &wanted(text).selecting(fields));
        assert_eq!(decision.is_allowed(), expected, "{text} {fields:?}: {}", decision.reason());
    };
    check("watch /secrets ns/tls", &by_type, true);
    check("list /secrets ns/tls", &by_type, true);
    check("watch /secrets ns/tls", &by_type[..1], false);
    check("watch /secrets ns/tls", &opaque, false);
    check("get /secrets ns/tls", &[], false);
    check("get /secrets ns/tls", &by_type, false);
    check("watch /secrets other/tls", &by_type, false);
    check("watch /secrets ns/env", &by_type, false);
    check("list /secrets ns/", &by_type[1..], false);
    check("update /secrets ns/tls", &by_type, false);
}

/// The same of Gateways, whose configuration names Secrets of the namespaces that granted it.
#[test]
fn node_reads_secret_of_a_gateway_only_as_certificate() {
    let mut authorizer = authorizer();
    let config = json!({"metadata": {"namespace": "ns", "name": "g"}, "spec": {"ports": [
        {"listeners": [{"certificates": [{"namespace": "certs", "name": "web"}]}, {}]},
        {"listeners": [{"clients": {"certificates": [{"namespace": "certs", "name": "checked"}]}}]},
    ]}});
    authorizer.graph.upsert(WatchedKind::GatewayConfig, &config);
    let check = |authorizer: &NodeAuthorizer, text: &str, name: &str, kind: &str, expected: bool| {
        let fields = [("metadata.name", name), ("type", kind)];
        let decision = authorizer.allows(&node("b"), &wanted(text).selecting(&fields));
        assert_eq!(decision.is_allowed(), expected, "{text} {kind}: {}", decision.reason());
    };
    check(&authorizer, "watch /secrets certs/web", "web", "kubernetes.io/tls", true);
    check(&authorizer, "watch /secrets certs/checked", "checked", "kubernetes.io/tls", true);
    check(&authorizer, "watch /secrets certs/web", "web", "Opaque", false);
    check(&authorizer, "watch /secrets ns/web", "web", "kubernetes.io/tls", false);
    check(&authorizer, "watch /secrets certs/other", "other", "kubernetes.io/tls", false);
    check(&authorizer, "get /secrets certs/web", "web", "kubernetes.io/tls", false);
    authorizer.graph.remove(WatchedKind::GatewayConfig, "ns", "g");
    check(&authorizer, "watch /secrets certs/web", "web", "kubernetes.io/tls", false);
}

#[test]
fn what_every_node_may() {
    let authorizer = authorizer();
    let check = |text: &str| {
        assert!(authorizer.allows(&node("b"), &wanted(text)).is_allowed(), "{text}");
    };
    check("list /services");
    check("create /events ns/");
    check("create /nodes");
    check("create /pods ns/");
    check("delete /pods ns/mirror");
    check("patch /pods/status ns/web");
    check("create /pods/eviction ns/web");
    check("create coordination.k8s.io/leases kube-node-lease/");
    check("create certificates.k8s.io/certificatesigningrequests");
    check("create authentication.k8s.io/tokenreviews");
    check("list node.k8s.io/runtimeclasses");
    check("list storage.k8s.io/csidrivers");
    check("create storage.k8s.io/csistoragecapacities kube-system/");
    check("create resource.k8s.io/resourceslices");
}

#[test]
fn selectors_widen_lists() {
    let authorizer = authorizer();
    let check = |resource: &str, selector: &[(&str, &str)], expected: bool| {
        for verb in ["list", "watch"] {
            let text = format!("{verb} {resource}");
            let wanted = wanted(&text).selecting(selector);
            assert_eq!(authorizer.allows(&node("a"), &wanted).is_allowed(), expected, "{text} {selector:?}");
        }
    };
    check("/pods", &[("spec.nodeName", "a")], true);
    check("/pods", &[("metadata.name", "x"), ("spec.nodeName", "a")], true);
    check("/pods", &[("spec.nodeName", "b")], false);
    check("/pods", &[("metadata.name", "a")], false);
    check("resource.k8s.io/resourceslices", &[("spec.nodeName", "a")], true);
    check("resource.k8s.io/resourceslices", &[("spec.nodeName", "b")], false);
    check("/secrets", &[("spec.nodeName", "a")], false);
}

#[test]
fn others_are_not_judged() {
    let authorizer = authorizer();
    let secret = wanted("get /secrets ns/env");
    assert_eq!(authorizer.allows(&User::authenticated("jane", &[]), &secret), Decision::no_opinion(""));
    assert!(!authorizer.allows(&User::authenticated("system:node:a", &[]), &secret).is_allowed());
    assert!(authorizer.allows(&node(""), &secret).reason().contains("unknown node"));
    assert!(!authorizer.allows(&node("a"), &Attributes::path("get", "/metrics")).is_allowed());
}

#[test]
fn rights_end_with_the_pod() {
    let mut authorizer = authorizer();
    let secret = wanted("get /secrets ns/env");
    let mut second = pod("a");
    second["metadata"]["name"] = json!("web-2");
    authorizer.graph.upsert(WatchedKind::Pod, &second);
    authorizer.graph.remove(WatchedKind::Pod, "ns", "web");
    assert!(authorizer.allows(&node("a"), &secret).is_allowed(), "the second pod still uses it");
    second["spec"]["containers"] = json!([]);
    authorizer.graph.upsert(WatchedKind::Pod, &second);
    assert!(!authorizer.allows(&node("a"), &secret).is_allowed(), "an update can drop it");
    assert!(authorizer.allows(&node("a"), &wanted("get /secrets ns/pull")).is_allowed());
    second["spec"]["nodeName"] = json!("b");
    authorizer.graph.upsert(WatchedKind::Pod, &second);
    assert!(!authorizer.allows(&node("a"), &wanted("get /secrets ns/pull")).is_allowed());
    assert!(authorizer.allows(&node("b"), &wanted("get /secrets ns/pull")).is_allowed());

    authorizer.graph.remove(WatchedKind::Pod, "ns", "web-2");
    authorizer.graph.remove(WatchedKind::PersistentVolume, "", "pv-1");
    authorizer.graph.remove(WatchedKind::VolumeAttachment, "", "va-1");
    authorizer.graph.remove(WatchedKind::ResourceSlice, "", "slice-1");
    authorizer.graph.remove(WatchedKind::Ingress, "ns", "i");
    assert!(authorizer.graph.is_empty(), "nothing is left behind: {:?}", authorizer.graph);
}

#[test]
fn a_kind_can_be_forgotten() {
    let mut authorizer = authorizer();
    authorizer.graph.clear(WatchedKind::Pod);
    assert!(!authorizer.allows(&node("a"), &wanted("get /secrets ns/env")).is_allowed());
    authorizer.graph.upsert(WatchedKind::Pod, &pod("a"));
    assert!(authorizer.allows(&node("a"), &wanted("get /secrets ns/env")).is_allowed());
    for kind in [
        WatchedKind::Pod,
        WatchedKind::PersistentVolume,
        WatchedKind::VolumeAttachment,
        WatchedKind::ResourceSlice,
        WatchedKind::Ingress,
    ] {
        authorizer.graph.clear(kind);
    }
    assert!(authorizer.graph.is_empty(), "nothing is left behind: {:?}", authorizer.graph);
}

#[test]
fn mirror_pods_grant_nothing() {
    let mut authorizer = NodeAuthorizer::default();
    let mut mirror = pod("a");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    authorizer.graph.upsert(WatchedKind::Pod, &mirror);
    assert!(!authorizer.allows(&node("a"), &wanted("get /secrets ns/env")).is_allowed());
    assert!(authorizer.allows(&node("a"), &wanted("get /pods ns/web")).is_allowed());
}

#[test]
fn node_tells_only_its_own_demand() {
    let authorizer = NodeAuthorizer::default();
    let check = |text: &str, expected: bool| {
        assert_eq!(authorizer.allows(&node("a.b"), &wanted(text)).is_allowed(), expected, "{text}");
    };
    check("update internal.minik8s.io/functiondemands ns/f.a.b", true);
    check("update internal.minik8s.io/functiondemands ns/f.b", false);
    check("update internal.minik8s.io/functiondemands ns/f.a.b.c", false);
    check("deletecollection internal.minik8s.io/functiondemands ns/", false);
    check("update internal.minik8s.io/functionendpoints ns/f", false);
    check("update internal.minik8s.io/meshacks ns/r.a.b", true);
    check("update internal.minik8s.io/meshacks ns/r.b", false);
    check("update internal.minik8s.io/gatewayacks ns/g.a.b", true);
    check("update internal.minik8s.io/gatewayacks ns/g.b", false);
    check("update internal.minik8s.io/meshprogresses ns/u.a.b", true);
    check("update internal.minik8s.io/meshprogresses ns/u.b", false);
    check("list minik8s.io/rollingupdates", false);
    check("update internal.minik8s.io/meshroutes ns/r", false);
    check("update internal.minik8s.io/meshservices ns/s", false);
    check("update minik8s.io/meshpolicies ns/p", false);
    check("update internal.minik8s.io/gatewayconfigs ns/g", false);
    check("create minik8s.io/triggers/events ns/hook", true);
    check("create minik8s.io/triggers ns/hook", false);
    check("get minik8s.io/triggers ns/hook", false);
    check("list minik8s.io/triggers", false);
    check("create minik8s.io/invocations ns/", true);
    check("delete minik8s.io/invocations ns/x", false);
    check("list minik8s.io/invocations", false);
    check("get minik8s.io/invocations ns/x", false);
    check("update minik8s.io/functions ns/f", false);
}

#[test]
fn nonsense_relates_to_nothing() {
    let mut graph = NodeGraph::default();
    let kinds = [
        WatchedKind::Pod,
        WatchedKind::PersistentVolume,
        WatchedKind::VolumeAttachment,
        WatchedKind::ResourceSlice,
        WatchedKind::Ingress,
    ];
    for kind in kinds {
        for object in
            [json!(null), json!([]), json!({"metadata": 1, "spec": {"volumes": {}, "containers": [1]}})]
        {
            graph.upsert(kind, &object);
        }
        graph.remove(kind, "", "");
    }
    assert!(graph.is_empty());
}

proptest! {
    /// Pods come, change node and secret, and go: a node reaches exactly the secrets of its living pods.
    #[test]
    fn counts_equal_a_scan(steps in prop::collection::vec((0usize..4, 0usize..3, 0usize..3, any::<bool>()), 1..50)) {
        let mut graph = NodeGraph::default();
        let mut living = std::collections::BTreeMap::new();
        for (pod, node, secret, remove) in steps {
            if remove {
                graph.remove(WatchedKind::Pod, "ns", &pod.to_string());
                living.remove(&pod);
            } else {
                graph.upsert(WatchedKind::Pod, &json!({
                    "metadata": {"namespace": "ns", "name": pod.to_string()},
                    "spec": {"nodeName": format!("n{node}"), "imagePullSecrets": [{"name": format!("s{secret}")}]},
                }));
                living.insert(pod, (node, secret));
            }
        }
        for node in 0..3 {
            for secret in 0..3 {
                let expected = living.values().any(|&pair| pair == (node, secret));
                let found = graph.relates(&format!("n{node}"), Kind::Secret, "ns", &format!("s{secret}"));
                prop_assert_eq!(found, expected);
            }
        }
        for pod in living.keys() {
            graph.remove(WatchedKind::Pod, "ns", &pod.to_string());
        }
        prop_assert!(graph.is_empty());
    }
}

/// What a node pulls from the cluster's own registry is what its own pods name, of their own namespace.
#[test]
fn node_pulls_from_repositories_of_its_pods_only() {
    let mut authorizer = NodeAuthorizer::default();
    let image = |image: &str| json!({"image": format!("{REGISTRY_HOST}/{image}")});
    let mut pod = json!({
        "metadata": {"namespace": "ns", "name": "web"},
        "spec": {
            "nodeName": "a",
            "initContainers": [image("ns/init@sha256:00")],
            "containers": [image("ns/app:1"), image("other/app2"), image("ns/deep/er"), {"image": "quay.io/ns/app3"}],
            "volumes": [{"name": "v", "image": {"reference": format!("{REGISTRY_HOST}/ns/files")}}],
        },
    });
    authorizer.graph.upsert(WatchedKind::Pod, &pod);
    let check = |authorizer: &NodeAuthorizer, who: &str, text: &str, expected: bool| {
        let decision = authorizer.allows(&node(who), &wanted(text));
        assert_eq!(decision.is_allowed(), expected, "{who} {text}: {decision:?}");
    };
    for name in ["ns/app", "ns/init", "ns/files"] {
        check(&authorizer, "a", &format!("get minik8s.io/imagerepositories {name}"), true);
        check(&authorizer, "b", &format!("get minik8s.io/imagerepositories {name}"), false);
        for verb in ["update", "delete", "list"] {
            check(&authorizer, "a", &format!("{verb} minik8s.io/imagerepositories {name}"), false);
        }
    }
    for name in ["other/app2", "ns/app2", "ns/app3", "ns/deep", "ns/deep/er", "other/app", "ns/"] {
        check(&authorizer, "a", &format!("get minik8s.io/imagerepositories {name}"), false);
    }
    // Nodes make mirror pods themselves.
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    authorizer.graph.upsert(WatchedKind::Pod, &pod);
    check(&authorizer, "a", "get minik8s.io/imagerepositories ns/app", false);
}
