//! Targets of a Probe: the prober, once for each address that it shall look at.

use serde_json::Value;

use super::endpoint::{Endpoint, Group};
use super::relabel::LabelSet;
use super::scope::Scope;
use crate::discovery::{Kind, Objects, list, name_of, namespace_of, text};

pub fn targets(probes: &[Value], objects: &Objects, found: &mut Vec<Group>) {
    for probe in probes {
        let (spec, namespace) = (&probe["spec"], namespace_of(probe));
        let (fixed, ingress) = (&spec["targets"]["staticConfig"], &spec["targets"]["ingress"]);
        let settings = settings(spec);
        if let Some(endpoint) = Endpoint::new(&settings, &fixed["relabelingConfigs"]) {
            for target in list(&fixed["static"]).filter_map(Value::as_str) {
                let mut labels = labels(probe, target);
                for (name, value) in fixed["labels"].as_object().into_iter().flatten() {
                    labels.insert(name.clone(), text(value).to_owned());
                }
                found.extend(endpoint.target(text(&spec["prober"]["url"]), namespace, labels));
            }
        }
        let Some(endpoint) = Endpoint::new(&settings, &ingress["relabelingConfigs"]) else { continue };
        if ingress.is_null() {
            continue;
        }
        let scope = Scope::new(ingress, namespace);
        for object in objects.of(Kind::Ingress).iter().filter(|object| scope.takes(object)) {
            for url in urls(object) {
                let mut labels = labels(probe, &url);
                labels.insert("ingress".to_owned(), name_of(object).to_owned());
                found.extend(endpoint.target(text(&spec["prober"]["url"]), namespace_of(object), labels));
            }
        }
    }
}

/// A probe as an endpoint says it.
fn settings(spec: &Value) -> Value {
    let prober = &spec["prober"];
    let mut settings = spec.clone();
    settings["scheme"] = prober["scheme"].clone();
    settings["path"] = match text(&prober["path"]) {
        "" => "/probe".into(),
        path => path.into(),
    };
    settings
}

fn labels(probe: &Value, target: &str) -> LabelSet {
    let spec = &probe["spec"];
    let job = match text(&spec["jobName"]) {
        "" => format!("probe/{}/{}", namespace_of(probe), name_of(probe)),
        job => job.to_owned(),
    };
    let mut labels = LabelSet::from([
        ("job".to_owned(), job),
        ("instance".to_owned(), target.to_owned()),
        ("__param_target".to_owned(), target.to_owned()),
    ]);
    if let Some(module) = spec["module"].as_str().filter(|module| !module.is_empty()) {
        labels.insert("__param_module".to_owned(), module.to_owned());
    }
    labels
}

/// `http://HOST/PATH` of every rule.
fn urls(ingress: &Value) -> Vec<String> {
    let spec = &ingress["spec"];
    let secured: Vec<&str> =
        list(&spec["tls"]).flat_map(|tls| list(&tls["hosts"])).filter_map(Value::as_str).collect();
    let mut urls = Vec::new();
    for rule in list(&spec["rules"]) {
        let host = text(&rule["host"]);
        if host.is_empty() || host.starts_with('*') {
            continue;
        }
        let scheme = if secured.contains(&host) { "https" } else { "http" };
        let mut paths: Vec<&str> = list(&rule["http"]["paths"]).map(|path| text(&path["path"])).collect();
        if paths.is_empty() {
            paths.push("/");
        }
        urls.extend(paths.into_iter().map(|path| format!("{scheme}://{host}{path}")));
    }
    urls
}
