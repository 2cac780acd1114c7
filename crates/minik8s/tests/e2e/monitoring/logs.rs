//! Logs across pods and time: merged, filtered, followed, and found after their pods have gone.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::collector::{Collector, has};
use super::site::Site;
use crate::harness::cluster::{Cluster, NODE};

#[test]
fn logs_are_found_across_pods_and_after_their_end() {
    let collector = Collector::start();
    let url = collector.url.clone();
    let to_collector = format!("otlp={url}");
    let flags = [
        "--log-retention",
        "1h,64MiB",
        "--export-logs",
        &to_collector,
        "--export-traces",
        &url,
        "--trace-sampling-per-million",
        "1000000",
    ];
    Cluster::builder().flags(&flags).run(move |cluster| {
        let site = Site::new(&cluster);
        site.run(&["create", "namespace", "other"]);
        for (name, text) in [("one", "first"), ("two", "second")] {
            site.apply(&talker(name, "default", text));
        }
        site.apply(&talker("three", "other", "third"));
        for (name, namespace) in [("one", "default"), ("two", "default"), ("three", "other")] {
            site.run(&[
                "wait",
                &format!("pod/{name}"),
                "-n",
                namespace,
                "--for=condition=Ready",
                "--timeout=180s",
            ]);
        }
        refused(&site);
        merged(&site);
        followed(&site);
        ended(&site);
        by_own_rights(&site);
        exported(&site, &collector);
    });
}

/// Three lines, the first plain and the others JSON, and then silence.
fn talker(name: &str, namespace: &str, text: &str) -> String {
    let script = format!(
        "echo {text} begins; echo '{{\"level\":\"info\",\"who\":\"{text}\"}}'; \
         echo '{{\"level\":\"error\",\"who\":\"{text}\",\"http\":{{\"code\":503}}}}'; exec sleep 1000000"
    );
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: talker}}}}\n\
         spec:\n  terminationGracePeriodSeconds: 0\n  containers:\n    - name: main\n      image: minik8s.io/busybox:1\n\
         \x20     command: [sh, -c, {}]\n",
        serde_json::to_string(&script).unwrap()
    )
}

fn refused(site: &Site) {
    for (words, part) in [
        (["--grep", "("], "--grep is no regular expression"),
        (["--until", "soon"], "give a time as 10m"),
        (["--where", "level"], "level=error"),
    ] {
        let said = site.output(&[&["logs", "-l", "app=talker"], &words[..]].concat());
        assert!(said.contains(part), "{words:?}: {said}");
    }
}

fn merged(site: &Site) {
    // A container runs a moment before it has said everything.
    site.eventually("each talker has said its three lines", || {
        site.run(&["logs", "-A", "-l", "app=talker", "--grep", "."]).lines().count() == 9
    });
    let all = site.run(&["logs", "-l", "app=talker", "--grep", ".", "--timestamps"]);
    let times: Vec<&str> = all.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(times.len(), 6, "{all}");
    assert!(times.is_sorted(), "{all}");
    let errors =
        site.run(&["logs", "-l", "app=talker", "--where", "level=error", "--where", "http.code=503"]);
    assert_eq!(errors.lines().count(), 2, "{errors}");
    assert!(errors.contains("[pod/one/main]") && errors.contains("[pod/two/main]"), "{errors}");
    let begins = site.run(&["logs", "-A", "-l", "app=talker", "--grep", "^[a-z]+ begins$"]);
    assert_eq!(begins.lines().count(), 3, "{begins}");
    assert!(begins.contains("[other/three/main] third begins"), "{begins}");
    let before = site.run(&["logs", "-l", "app=talker", "--until", "2026-01-01T00:00:00Z"]);
    assert_eq!(before, "", "nothing was printed then");
    // Without a word of ours it is as kubectl has it.
    assert!(site.run(&["logs", "one", "--tail=1"]).starts_with("{\"level\":\"error\""));
}

/// A pod that comes later is followed as well.
fn followed(site: &Site) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_minik8s"))
        .arg("--kubeconfig")
        .arg(site.cluster.kubeconfig())
        .args(["logs", "-f", "-l", "app=talker", "--grep", "begins"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = vec![lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()];
    site.apply(&talker("late", "default", "fourth"));
    seen.push(lines.next().unwrap().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen[2].contains("[pod/late/main] fourth begins"), "{seen:?}");
}

fn ended(site: &Site) {
    site.run(&["delete", "pod", "one", "late", "--wait=true"]);
    site.eventually("the logs of both are kept", || {
        let found = site.run(&["logs", "-l", "app=talker", "--ended", "--grep", "begins"]);
        found.contains("[ended/one/main] first begins") && found.contains("[ended/late/main] fourth begins")
    });
    let found = site.run(&["logs", "-l", "app=talker", "--ended", "--grep", "begins"]);
    assert!(found.contains("[pod/two/main] second begins"), "those that are there as well: {found}");
    let by_name = site.run(&["logs", "one", "--ended", "--where", "level=error"]);
    assert_eq!(by_name.lines().count(), 1, "{by_name}");
    assert_eq!(site.run(&["logs", "-l", "app=nobody", "--ended"]), "");
    // Who may not reach nodes through the API server is told so, and sees nothing.
    let refused = site.output(&["logs", "one", "--ended", "--as", "jane"]);
    assert!(refused.contains("forbidden") && !refused.contains("first"), "{refused}");
}

/// Who may read the logs of a namespace one by one may search them, of pods that are gone as well, and nobody else's.
fn by_own_rights(site: &Site) {
    let search = |namespace: &str, words: &[&str]| {
        let path = format!("/apis/logs.minik8s.io/v1/namespaces/{namespace}/logs?grep=begins&ended=true");
        site.output(&[&["get", "--raw", &path], words].concat())
    };
    let before = search("default", &["--as", "jane"]);
    assert!(before.contains("pods/log") && !before.contains("first"), "{before}");
    site.run(&["create", "rolebinding", "jane", "--clusterrole=view", "--user=jane"]);
    site.eventually("jane may", || search("default", &["--as", "jane"]).contains("first begins"));
    let own: serde_json::Value = serde_json::from_str(&search("default", &["--as", "jane"])).unwrap();
    assert!(own["lines"].as_array().unwrap().iter().all(|line| line["namespace"] == "default"), "{own}");
    assert!(
        own["searchedBytes"].as_u64().unwrap() > 0 && own["unanswered"] == serde_json::json!([]),
        "{own}"
    );
    for path in ["/apis/logs.minik8s.io/v1/namespaces/other/logs", "/apis/logs.minik8s.io/v1/logs"] {
        let refused = site.output(&["get", "--raw", path, "--as", "jane"]);
        assert!(refused.contains("pods/log") && !refused.contains("third"), "{refused}");
    }
    let found = site.run(&["logs", "-l", "app=talker", "--ended", "--grep", "begins", "--as", "jane"]);
    assert!(found.contains("[ended/one/main] first begins"), "{found}");
    let said = site.output(&["get", "--raw", "/apis/logs.minik8s.io/v1/logs?namespace=other"]);
    assert!(said.contains("use since, until"), "{said}");
    let said = site.output(&["get", "--raw", "/apis/logs.minik8s.io/v1/logs?grep=("]);
    assert!(said.contains("regular expression"), "{said}");
    // Logs of another namespace that had the same name before are not those of this one.
    site.run(&["delete", "namespace", "other", "--wait=true"]);
    site.eventually("the logs of other are kept", || search("other", &[]).contains("third begins"));
    site.run(&["create", "namespace", "other"]);
    assert!(!search("other", &[]).contains("third"), "a new namespace of an old name");
}

fn exported(site: &Site, collector: &Collector) {
    site.eventually("lines of pods, and events, arrive at the collector", || {
        let records = collector.records();
        let is_line = |record: &serde_json::Value| {
            record["body"]["stringValue"] == "third begins"
                && has(record, "k8s.pod.name", "three")
                && has(record, "k8s.namespace.name", "other")
        };
        let is_event = |record: &serde_json::Value| {
            has(record, "k8s.event.reason", "Started") && has(record, "k8s.object.name", "three")
        };
        records.iter().any(is_line) && records.iter().any(is_event)
    });
    let begins = collector.records();
    let twice = begins.iter().filter(|record| record["body"]["stringValue"] == "first begins").count();
    assert_eq!(twice, 1, "each line is told once");
    site.eventually("spans of the API server arrive", || {
        collector
            .spans()
            .iter()
            .any(|span| span["name"] == "LIST pods" && has(span, "service.name", "minik8s-apiserver"))
    });
    let page = site.run(&["get", "--raw", &format!("/api/v1/nodes/{NODE}/proxy/metrics")]);
    let sent = page.lines().find_map(|line| line.strip_prefix("minik8s_export_logs_sent_total "));
    assert!(sent.is_some_and(|sent| sent != "0"), "{sent:?}");
}
