use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::*;

fn settings(engine: Engine) -> Settings {
    Settings { engine, retention: "15d".into(), interval: "15s".into(), claim: None, webhook: None }
}

fn find(all: &[Placed], kind: &str, name: &str) -> Value {
    let found = all.iter().find(|one| one.object["kind"] == kind && one.object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}")).object.clone()
}

#[test]
fn prometheus_reads_its_configuration() {
    let directory = tempfile::tempdir().unwrap();
    // The files that it names are in the pod.
    let account = directory.path().display().to_string();
    for file in ["token", "ca.crt"] {
        std::fs::write(directory.path().join(file), "").unwrap();
    }
    for interval in ["15s", "2s", "1m"] {
        let settings = Settings { interval: interval.into(), ..settings(Engine::Prometheus) };
        let config =
            prometheus_config(&settings).replace("/var/run/secrets/kubernetes.io/serviceaccount", &account);
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let output = Command::new("promtool").args(["check", "config"]).arg(&file).output();
        let output = output.expect("promtool is there: scripts/setup --test installs it");
        assert!(output.status.success(), "{interval}: {output:?}");
    }
}

/// A pod that asks to be scraped must not be handed the token with which all nodes are.
#[test]
fn token_goes_to_the_api_server_and_nodes_alone() {
    let config = prometheus_config(&settings(Engine::Prometheus));
    let jobs: Vec<&str> = config.split("  - job_name: ").skip(1).collect();
    assert_eq!(jobs.len(), 10);
    for job in jobs {
        let name = job.lines().next().unwrap();
        let own = job.lines().filter(|line| line.starts_with("    authorization:")).count();
        let of_pods = matches!(name, "pods" | "services" | "monitors" | "monitors-honor-labels");
        assert_eq!(own, usize::from(!of_pods), "{name}");
        if of_pods {
            for bound in ["sample_limit", "body_size_limit", "label_limit", "label_value_length_limit"] {
                assert!(job.contains(bound), "{name} has no {bound}");
            }
        }
    }
}

#[test]
fn engine_may_read_what_it_scrapes_and_no_more() {
    let all = objects(&settings(Engine::Prometheus));
    let roles: BTreeSet<String> = all
        .iter()
        .filter(|one| one.object["kind"] == "ClusterRoleBinding")
        .map(|one| one.object["roleRef"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles, ["minik8s:monitoring", "system:monitoring"].map(str::to_owned).into());
    for app in ["prometheus", "alertmanager"] {
        let pod = find(&all, "Deployment", app)["spec"]["template"]["spec"].clone();
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
        }
    }
    let alertmanager = find(&all, "Deployment", "alertmanager");
    assert_eq!(alertmanager["spec"]["template"]["spec"]["automountServiceAccountToken"], false);
}

#[test]
fn every_object_is_labelled_and_stands_where_its_path_says() {
    for engine in [Engine::Prometheus, Engine::VictoriaMetrics] {
        for Placed { collection, object } in objects(&settings(engine)) {
            assert_eq!(object["metadata"]["labels"][LABEL.0], LABEL.1, "{object}");
            let namespace = object["metadata"]["namespace"].as_str();
            assert_eq!(collection.contains("/namespaces/monitoring/"), namespace.is_some(), "{collection}");
            let version = object["apiVersion"].as_str().unwrap();
            assert!(collection.contains(&format!("/{version}/")), "{collection}");
        }
    }
}

#[test]
fn settings_shape_the_objects() {
    let whole = Settings {
        claim: Some("10Gi".into()),
        webhook: Some("http://alerts.example/hook".into()),
        ..settings(Engine::VictoriaMetrics)
    };
    whole.check().unwrap();
    let all = objects(&whole);
    let claim = find(&all, "PersistentVolumeClaim", CLAIM);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "10Gi");
    let pod = find(&all, "Deployment", "prometheus")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], CLAIM);
    assert_eq!(pod["containers"][1]["command"], json!(["/usr/bin/vmalert"]));
    let service = find(&all, "Service", "prometheus");
    assert_eq!(service["spec"]["ports"][0], json!({"name": "http", "port": 9090, "targetPort": 8428}));
    let config = find(&all, "Secret", "alertmanager")["stringData"]["alertmanager.yml"].clone();
    let config: Value = serde_json::from_str(config.as_str().unwrap()).unwrap();
    assert_eq!(config["receivers"][0]["webhook_configs"][0]["url"], "http://alerts.example/hook");
    // Other files make another pod.
    let files = |settings: &Settings| {
        find(&objects(settings), "Deployment", "prometheus")["spec"]["template"]["metadata"]["annotations"]
            ["minik8s.io/files"]
            .clone()
    };
    assert_ne!(files(&whole), files(&Settings { interval: "30s".into(), ..whole.clone() }));
    assert_eq!(files(&whole), files(&Settings { webhook: None, ..whole.clone() }));
}

#[test]
fn bad_settings_are_refused_with_what_to_write() {
    let good = settings(Engine::Prometheus);
    let check = |settings: Settings, part: &str| {
        let said = settings.check().unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    };
    for time in ["", "15", "d", "0d", "-1d", "1.5d", "15 d", "15d --web.enable-admin-api", "9999999d", "1ms"]
    {
        check(Settings { retention: time.into(), ..good.clone() }, "as 15d");
        check(Settings { interval: time.into(), ..good.clone() }, "as 15d");
    }
    for size in ["", "0", "-1Gi", "ten"] {
        check(Settings { claim: Some(size.into()), ..good.clone() }, "as 10Gi");
    }
    for webhook in ["", "alerts.example", "http://", "ftp://x/", "http:///x", "http://x/\ny"] {
        check(Settings { webhook: Some(webhook.into()), ..good.clone() }, "http://alerts.example");
    }
    assert!("graphite".parse::<Engine>().unwrap_err().to_string().contains("victoria-metrics"));
}
