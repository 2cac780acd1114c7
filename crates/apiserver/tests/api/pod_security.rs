//! Pod Security: what a namespace's labels refuse, warn of and count.

use serde_json::{Value, json};

use crate::cluster::*;

const NAMESPACES: &str = "/api/v1/namespaces";
const BARE: &str = "allowPrivilegeEscalation != false (container \"c\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
    securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
    securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

fn labels(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), json!(value))).collect()
}

/// As `kubectl label namespace` does it.
async fn label(client: &Client, namespace: &str, pairs: &[(&str, &str)]) -> Answer {
    let body = json!({"metadata": {"labels": labels(pairs)}});
    client.patch(MERGE, &format!("{NAMESPACES}/{namespace}"), body).await
}

fn restricted(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    pod["spec"]["containers"][0]["securityContext"] = confined();
    pod
}

fn confined() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

fn privileged(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    pod
}

/// The texts of warnings, without what HTTP adds to them.
fn texts(answer: &Answer) -> Vec<String> {
    let bare = |warning: &String| {
        let text = warning.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"'));
        text.unwrap_or_default().replace("\\\"", "\"")
    };
    answer.warnings().iter().map(bare).collect()
}

#[tokio::test]
async fn pod_security_enforce_refuses_pods_in_upstreams_words() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(PODS, privileged("before")).await.ok();
    label(&admin, "default", &[("enforce", "restricted")]).await.ok();
    let refused = admin.post(PODS, pod("x")).await.refused(403, "Forbidden");
    let expected = format!("pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": {BARE}");
    assert_eq!(refused["message"], expected);
    let refused = admin.post(&format!("{PODS}?dryRun=All"), pod("x")).await.refused(403, "Forbidden");
    assert_eq!(refused["message"], expected);
    let made = admin.post(PODS, restricted("fine")).await;
    assert_eq!(texts(&made), [""; 0]);
    made.ok();

    label(&admin, "default", &[("enforce", "baseline"), ("enforce-version", "v1.30")]).await.ok();
    let refused = admin.post(PODS, privileged("y")).await.refused(403, "Forbidden");
    let why = "privileged (container \"c\" must not set securityContext.privileged=true)";
    let expected = format!("pods \"y\" is forbidden: violates PodSecurity \"baseline:v1.30\": {why}");
    assert_eq!(refused["message"], expected);
    admin.post(PODS, pod("x")).await.ok();
}

#[tokio::test]
async fn pod_security_judges_the_updates_that_matter() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(PODS, privileged("old")).await.ok();
    admin.post(PODS, restricted("fine")).await.ok();
    label(&admin, "default", &[("enforce", "restricted")]).await.ok();
    let (old, fine) = (format!("{PODS}/old"), format!("{PODS}/fine"));
    // A pod from before the policy can be cared for, but not given other work.
    admin.patch(MERGE, &old, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    admin.patch(MERGE, &format!("{old}/status"), json!({"status": {"phase": "Running"}})).await.ok();
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    admin.patch(STRATEGIC, &old, image.clone()).await.refused(403, "Forbidden");
    admin.patch(STRATEGIC, &fine, image).await.ok();
    let debug = |security: Value| json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i", "securityContext": security}]}});
    let ephemeral = format!("{fine}/ephemeralcontainers");
    let refused = admin
        .patch(STRATEGIC, &ephemeral, debug(json!({"privileged": true})))
        .await
        .refused(403, "Forbidden");
    let text = refused["message"].as_str().unwrap();
    let start =
        "pods \"fine\" is forbidden: violates PodSecurity \"restricted:latest\": privileged (container \"e\"";
    assert!(text.starts_with(start), "{text}");
    admin.patch(STRATEGIC, &ephemeral, debug(confined())).await.ok();
}

#[tokio::test]
async fn pod_security_warns_of_workloads_and_never_refuses_them() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    label(&admin, "default", &[("enforce", "restricted")]).await.ok();
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let spec = json!({"selector": selector, "template": template});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let workloads = [
        ("apps/v1", "deployments", spec.clone()),
        ("apps/v1", "replicasets", spec.clone()),
        ("apps/v1", "daemonsets", spec.clone()),
        ("apps/v1", "statefulsets", spec.clone()),
        ("batch/v1", "jobs", json!({"template": once})),
        (
            "batch/v1",
            "cronjobs",
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}),
        ),
    ];
    let mut bodies: Vec<(String, Value)> = workloads
        .into_iter()
        .map(|(version, plural, spec)| {
            let path = format!("/apis/{version}/namespaces/default/{plural}");
            (path, json!({"metadata": {"name": "w"}, "spec": spec}))
        })
        .collect();
    bodies.push((
        "/api/v1/namespaces/default/replicationcontrollers".to_owned(),
        json!({"metadata": {"name": "w"}, "spec": {"selector": {"a": "b"}, "template": template}}),
    ));
    bodies.push((
        "/api/v1/namespaces/default/podtemplates".to_owned(),
        json!({"metadata": {"name": "w"}, "template": template}),
    ));
    let expected = format!("would violate PodSecurity \"restricted:latest\": {BARE}");
    for (path, body) in bodies {
        let made = admin.post(&path, body).await;
        assert_eq!(texts(&made), [expected.as_str()], "{path}");
        made.ok();
        let changed =
            admin.patch(MERGE, &format!("{path}/w"), json!({"metadata": {"labels": {"x": "y"}}})).await;
        assert_eq!(texts(&changed), [expected.as_str()], "{path}");
        changed.ok();
    }
    let scaled = "/apis/apps/v1/namespaces/default/deployments/w/scale";
    let scaled = admin.patch(MERGE, scaled, json!({"spec": {"replicas": 2}})).await;
    assert_eq!(texts(&scaled), [""; 0], "the template is not at stake");
    scaled.ok();
}

#[tokio::test]
async fn pod_security_warn_lets_pods_pass() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    label(&admin, "default", &[("warn", "restricted"), ("audit", "baseline")]).await.ok();
    let made = admin.post(PODS, pod("p")).await;
    assert_eq!(texts(&made), [format!("would violate PodSecurity \"restricted:latest\": {BARE}")]);
    made.ok();
    admin.post(PODS, privileged("q")).await.ok();
    let metrics = admin.get("/metrics").await.text_whole();
    let count = |decision: &str, level: &str, mode: &str| {
        format!(
            "pod_security_evaluations_total{{decision=\"{decision}\",policy_level=\"{level}\",\
             policy_version=\"latest\",mode=\"{mode}\",request_operation=\"create\",resource=\"pod\",subresource=\"\"}}"
        )
    };
    for (series, value) in [
        (count("allow", "privileged", "enforce"), 2),
        (count("deny", "restricted", "warn"), 2),
        (count("deny", "baseline", "audit"), 1),
    ] {
        assert!(metrics.contains(&format!("{series} {value}\n")), "{series} {value}\n{metrics}");
    }
}

#[tokio::test]
async fn pod_security_labels_must_mean_something() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let refused = label(&admin, "default", &[("enforce", "strict"), ("warn-version", "1.30")]).await;
    let refused = refused.refused(422, "Invalid");
    assert_eq!(
        refused["message"],
        "Namespace \"default\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
         \"strict\": must be one of privileged, baseline, restricted, \
         metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.30\": must be \"latest\" or \
         \"v1.x\"]"
    );
    let new = json!({"metadata": {"name": "n", "labels": labels(&[("audit", "")])}});
    admin.post(NAMESPACES, new).await.refused(422, "Invalid");
    let new = json!({"metadata": {"name": "n", "labels": labels(&[("audit", "baseline"), ("audit-version", "v1.99")])}});
    admin.post(NAMESPACES, new).await.ok();
}

#[tokio::test]
async fn pod_security_tells_who_labels_a_namespace_of_its_pods() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for name in ["b", "a"] {
        admin.post(PODS, privileged(name)).await.ok();
    }
    let mut host = pod("host");
    host["spec"]["hostNetwork"] = json!(true);
    admin.post(PODS, host).await.ok();
    admin.post(PODS, restricted("fine")).await.ok();
    let answer = label(&admin, "default", &[("enforce", "baseline")]).await;
    assert_eq!(
        texts(&answer),
        [
            "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 1 other pod): privileged",
            "host: host namespaces",
        ]
    );
    answer.ok();
    let dry = json!({"metadata": {"labels": labels(&[("enforce", "restricted")])}});
    let dry = admin.patch(MERGE, &format!("{NAMESPACES}/default?dryRun=All"), dry).await;
    assert_eq!(texts(&dry).len(), 3, "{:?}", texts(&dry));
    for pairs in [&[("enforce", "baseline")][..], &[("warn", "restricted")], &[("enforce", "privileged")]] {
        let answer = label(&admin, "default", pairs).await;
        assert_eq!(texts(&answer), [""; 0], "{pairs:?}");
        answer.ok();
    }
}

/// A policy that is being written is not overtaken: no pod that it forbids is created after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_security_is_not_overtaken_by_pods() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let writers: Vec<_> = (0..20)
        .map(|i| {
            let admin = admin.clone();
            tokio::spawn(async move { admin.post(PODS, privileged(&format!("p{i}"))).await })
        })
        .collect();
    let labelled = label(&admin, "default", &[("enforce", "baseline")]).await.ok();
    let labelled: u64 = version(&labelled).parse().unwrap();
    for writer in writers {
        let answer = writer.await.unwrap();
        if answer.code == 201 {
            assert!(version(&answer.body).parse::<u64>().unwrap() < labelled, "created after the label");
        } else {
            answer.refused(403, "Forbidden");
        }
    }
}
