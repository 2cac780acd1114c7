//! Logs across pods and time: merged, filtered, followed, and found after their pods have gone.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::cluster::on_a_cluster_with;
use crate::site::Site;

#[test]
fn logs_are_found_across_pods_and_after_their_end() {
    on_a_cluster_with(&["--log-retention", "1h,64MiB"], |cluster| {
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
                "--timeout=120s",
            ]);
        }
        refused(&site);
        merged(&site);
        followed(&site);
        ended(&site);
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
