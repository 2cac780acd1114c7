//! Admission: defaults and refusals by what else is in the namespace.

use serde_json::{Value, json};

use crate::cluster::*;

#[tokio::test]
async fn pods_get_their_service_account() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let made = admin.post(PODS, pod("p")).await.ok();
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    let mount = &made["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(made["spec"]["volumes"][0]["name"], mount["name"]);
    let mut quiet = pod("quiet");
    quiet["spec"]["automountServiceAccountToken"] = json!(false);
    assert!(admin.post(PODS, quiet).await.ok()["spec"].get("volumes").is_none());
    let mut unknown = pod("unknown");
    unknown["spec"]["serviceAccountName"] = json!("nobody");
    let refused = admin.post(PODS, unknown).await.refused(403, "Forbidden");
    assert!(
        refused["message"].as_str().unwrap().contains("error looking up service account default/nobody"),
        "{refused}"
    );
    let account = json!({"metadata": {"name": "sa"}, "imagePullSecrets": [{"name": "s"}], "automountServiceAccountToken": false});
    admin.post("/api/v1/namespaces/default/serviceaccounts", account).await.ok();
    let mut own = pod("own");
    own["spec"]["serviceAccountName"] = json!("sa");
    let made = admin.post(PODS, own).await.ok();
    assert_eq!(
        (&made["spec"]["imagePullSecrets"][0]["name"], made["spec"].get("volumes")),
        (&json!("s"), None)
    );
}

#[tokio::test]
async fn pods_get_their_priority() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(admin.post(PODS, pod("none")).await.ok()["spec"]["priority"], 0);
    admin
        .post(classes, json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}))
        .await
        .ok();
    let with = |name: &str, class: &str| {
        let mut pod = pod(name);
        pod["spec"]["priorityClassName"] = json!(class);
        pod
    };
    let made = admin.post(PODS, with("p", "high")).await.ok();
    assert_eq!(
        (&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    admin.post(PODS, with("q", "none")).await.refused(403, "Forbidden");
    let mut contradicting = with("r", "high");
    contradicting["spec"]["priority"] = json!(5);
    admin.post(PODS, contradicting).await.refused(403, "Forbidden");
    admin.post(classes, json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true})).await.ok();
    let made = admin.post(PODS, pod("usual")).await.ok();
    assert_eq!((&made["spec"]["priority"], &made["spec"]["priorityClassName"]), (&json!(7), &json!("usual")));
    admin
        .post(classes, json!({"metadata": {"name": "huge"}, "value": 2_000_000_000}))
        .await
        .refused(422, "Invalid");
}

#[tokio::test]
async fn pods_get_what_their_runtime_class_says() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    let tolerations = json!([{"key": "k", "operator": "Exists"}]);
    admin
        .post(
            classes,
            json!({"metadata": {"name": "heavy"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "0.25"}},
                "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": tolerations}}),
        )
        .await
        .ok();
    admin.post(classes, json!({"metadata": {"name": "plain"}, "handler": "runc"})).await.ok();
    let with = |name: &str, class: &str, more: Value| {
        let mut pod = pod(name);
        pod["spec"]["runtimeClassName"] = json!(class);
        for (field, value) in more.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let made = admin.post(PODS, with("a", "heavy", json!({"nodeSelector": {"disk": "fast"}}))).await.ok();
    let spec = &made["spec"];
    assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
    assert_eq!(spec["nodeSelector"], json!({"disk": "fast", "vm": "yes"}));
    assert!(spec["tolerations"].as_array().unwrap().contains(&tolerations[0]), "{spec}");
    admin.post(PODS, with("b", "heavy", json!({"overhead": {"cpu": "250m"}}))).await.ok();
    let made = admin.post(PODS, with("c", "plain", json!({}))).await.ok();
    assert!(made["spec"].get("overhead").is_none(), "{made}");
    let refused = async |pod: Value, text: &str| {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let refused = admin.post(PODS, pod).await.refused(403, "Forbidden");
        assert_eq!(refused["message"], format!("pods \"{name}\" is forbidden: {text}"));
    };
    refused(
        with("d", "heavy", json!({"overhead": {"cpu": "1"}})),
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    )
    .await;
    let mut given = pod("e");
    given["spec"]["overhead"] = json!({"cpu": "1"});
    refused(given, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        .await;
    refused(
        with("f", "heavy", json!({"nodeSelector": {"vm": "no"}})),
        "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
    )
    .await;
    refused(with("g", "none", json!({})), "pod rejected: RuntimeClass \"none\" not found").await;
    admin.delete(&format!("{classes}/plain")).await.ok();
    refused(with("h", "plain", json!({})), "pod rejected: RuntimeClass \"plain\" not found").await;
}

#[tokio::test]
async fn limit_ranges() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let ranges = "/api/v1/namespaces/default/limitranges";
    let limits = json!([
        {"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}, "min": {"cpu": "50m"}},
        {"type": "Pod", "max": {"cpu": "1500m"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]);
    admin.post(ranges, json!({"metadata": {"name": "l"}, "spec": {"limits": limits}})).await.ok();
    let made = admin.post(PODS, pod("p")).await.ok();
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(
        (&resources["limits"]["cpu"], &resources["requests"]["cpu"]),
        (&json!("200m"), &json!("100m"))
    );
    let with = |name: &str, cpu: &[&str]| {
        let mut pod = pod(name);
        let containers = cpu.iter().enumerate().map(|(i, cpu)| {
            json!({"name": format!("c{i}"), "image": "i", "resources": {"limits": {"cpu": cpu}, "requests": {"cpu": cpu}}})
        });
        pod["spec"]["containers"] = containers.collect();
        pod
    };
    admin.post(PODS, with("fits", &["1", "500m"])).await.ok();
    for (name, cpu, text) in [
        ("large", &["2"][..], "maximum cpu usage per Container is 1, but limit is 2"),
        ("small", &["10m"], "minimum cpu usage per Container is 50m, but request is 10m"),
        ("sum", &["1", "1"], "maximum cpu usage per Pod is 1500m, but limit is 2"),
    ] {
        let refused = admin.post(PODS, with(name, cpu)).await.refused(403, "Forbidden");
        assert!(refused["message"].as_str().unwrap().contains(text), "{refused}");
    }
    let claim = |name: &str, size: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
        })
    };
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    admin.post(claims, claim("c", "1Gi")).await.ok();
    admin.post(claims, claim("d", "2Gi")).await.refused(403, "Forbidden");
}

/// Creates in parallel and counts the answers by code.
async fn crowd(
    client: &Client,
    collection: &str,
    count: usize,
    make: impl Fn(usize) -> Value,
) -> std::collections::BTreeMap<u16, usize> {
    let tasks: Vec<_> = (0..count)
        .map(|i| {
            let (client, collection, body) = (client.clone(), collection.to_owned(), make(i));
            tokio::spawn(async move { client.post(&collection, body).await.code })
        })
        .collect();
    let mut codes = std::collections::BTreeMap::new();
    for task in tasks {
        *codes.entry(task.await.unwrap()).or_insert(0) += 1;
    }
    codes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_never_exceeded() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"count/configmaps": "10", "pods": "7", "requests.cpu": "1"});
    admin.post(quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.ok();
    // More at once than a create is tried again: a crowd must not starve itself.
    let codes = crowd(&admin, CONFIG_MAPS, 120, |i| config_map(&format!("m{i}"))).await;
    assert_eq!(codes, [(201, 10), (403, 110)].into());
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.ok()).len(), 10);
    let refused = admin.post(CONFIG_MAPS, config_map("more")).await.refused(403, "Forbidden");
    let text = "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=10, limited: count/configmaps=10";
    assert!(refused["message"].as_str().unwrap().contains(text), "{refused}");
    admin.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("more")).await.refused(403, "Forbidden");

    let with_cpu = |i: usize| {
        let mut pod = pod(&format!("p{i}"));
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "300m"}});
        pod
    };
    let codes = crowd(&admin, PODS, 20, with_cpu).await;
    assert_eq!(codes, [(201, 3), (403, 17)].into(), "three times 300m fit into 1");
    let used = admin.get(&format!("{quotas}/q")).await.ok()["status"]["used"].clone();
    assert_eq!((&used["pods"], &used["requests.cpu"]), (&json!("3"), &json!("900m")));
    // Updates that need more are counted too, and a refused one changes nothing.
    let refused = admin.post(PODS, pod("free")).await.refused(403, "Forbidden");
    assert!(refused["message"].as_str().unwrap().contains("must specify"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_behind_in_a_namespace_that_goes() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for round in 0..3 {
        let name = format!("n{round}");
        admin.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.ok();
        let collection = format!("/api/v1/namespaces/{name}/configmaps");
        let writers: Vec<_> = (0..20)
            .map(|i| {
                let (admin, collection) = (admin.clone(), collection.clone());
                tokio::spawn(async move { admin.post(&collection, config_map(&format!("m{i}"))).await.code })
            })
            .collect();
        let dying = admin.delete(&format!("/api/v1/namespaces/{name}")).await.ok();
        let deleted: u64 = version(&dying).parse().unwrap();
        for writer in writers {
            let code = writer.await.unwrap();
            assert!(matches!(code, 201 | 403), "{code}");
        }
        for item in admin.get(&collection).await.ok()["items"].as_array().unwrap() {
            assert!(version(item).parse::<u64>().unwrap() < deleted, "created after the delete");
        }
    }
}
