use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use super::retention::{Kept, surplus};
use super::*;

fn pod(uid: &str) -> EndedPod {
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    EndedPod { namespace: "shop".into(), name: "web".into(), uid: uid.into(), labels, containers: Vec::new() }
}

fn lines(folder: &std::path::Path, place: (&str, &str, &str, &str), since: Option<&str>) -> (bool, String) {
    let mut text = Vec::new();
    let found = read(folder, place, since.map(|time| time.parse().unwrap()), |line| {
        text.extend(line);
        true
    });
    (found.unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn logs_outlive_their_pod_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (logs, folder) = (dir.path().join("logs"), dir.path().join("ended"));
    fs::create_dir_all(logs.join("main")).unwrap();
    fs::create_dir_all(logs.join("quiet")).unwrap();
    let line = |second: u32, text: &str| format!("2026-01-01T00:00:{second:02}Z stdout F {text}\n");
    fs::write(logs.join("main/1.log"), line(30, "again")).unwrap();
    fs::write(logs.join("main/0.log"), line(20, "then")).unwrap();
    fs::write(logs.join("main/0.log.20260101-000015"), line(10, "first")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", logs.join("main/2.log")).unwrap();
    assert!(keep(&logs, &folder, pod("u1")).unwrap());
    let all = list(&folder);
    assert_eq!((all.len(), &all[0].containers[..]), (1, &["main".to_owned()][..]));
    assert_eq!(all[0].labels["app"], "web");
    let place = ("shop", "web", "u1", "main");
    let expected =
        "2026-01-01T00:00:10Z first\n2026-01-01T00:00:20Z then\n2026-01-01T00:00:30Z again\n".to_owned();
    assert_eq!(lines(&folder, place, None), (true, expected));
    let newer = lines(&folder, place, Some("2026-01-01T00:00:25Z")).1;
    assert_eq!(newer, "2026-01-01T00:00:30Z again\n");
    for (place, why) in [
        (("shop", "web", "u2", "main"), "another pod"),
        (("shop", "web", "u1", "mai"), "a part of a name"),
        (("shop", "web", "..", "main"), "a way out"),
        (("..", "..", "etc", "passwd"), "a way out"),
    ] {
        assert_eq!(lines(&folder, place, None), (false, String::new()), "{why}");
    }
}

#[test]
fn pod_that_printed_nothing_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (logs, folder) = (dir.path().join("logs"), dir.path().join("ended"));
    fs::create_dir_all(logs.join("main")).unwrap();
    fs::write(logs.join("main/0.log"), "").unwrap();
    assert!(!keep(&logs, &folder, pod("u1")).unwrap());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    // What an agent left that was ended in between is no log, and in nobody's way.
    fs::create_dir_all(folder.join(".unfinished-shop_web_u1/x")).unwrap();
    assert_eq!(list(&folder), []);
    fs::write(logs.join("main/0.log"), "2026-01-01T00:00:00Z stdout F x\n").unwrap();
    assert!(keep(&logs, &folder, pod("u1")).unwrap());
    assert_eq!(list(&folder).len(), 1);
}

#[test]
fn oldest_go_first_by_age_and_by_size() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let retention = LogRetention { age: Duration::from_secs(3600), bytes: 100 };
    let check = |kept: &[(u64, u64)], gone: &[&str]| {
        let kept = kept.iter().enumerate().map(|(at, (age, bytes))| Kept {
            name: at.to_string(),
            ended: now - Duration::from_secs(*age),
            bytes: *bytes,
        });
        let mut found = surplus(kept.collect(), retention, now);
        found.sort();
        assert_eq!(found, gone);
    };
    check(&[(10, 50), (20, 50)], &[]);
    check(&[(10, 50), (3601, 1)], &["1"]);
    check(&[(10, 50), (20, 51), (30, 1)], &["1", "2"]);
    check(&[(30, 40), (20, 40), (10, 40)], &["0"]);
    check(&[(10, 101)], &["0"]);
    check(&[], &[]);
}

#[test]
fn prune_removes_folders() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a_a_1", "b_b_2"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("main.0.log.gz"), [0; 80]).unwrap();
    }
    prune(dir.path(), LogRetention { age: Duration::from_secs(3600), bytes: 100 }, SystemTime::now());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    prune(
        dir.path(),
        LogRetention { age: Duration::from_secs(1), bytes: 100 },
        SystemTime::now() + Duration::from_secs(9),
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn retention_is_an_age_and_a_size() {
    let check = |text: &str, want: Option<(u64, u64)>| {
        let found = text.parse::<LogRetention>().ok().map(|one| (one.age.as_secs(), one.bytes));
        assert_eq!(found, want, "{text}");
    };
    check("24h,1GiB", Some((86_400, 1 << 30)));
    check("30m, 64Mi", Some((1800, 64 << 20)));
    check("1GiB,24h", None);
    check("24h", None);
    check("0s,1Gi", None);
    check("1h,0", None);
    check("-1h,1Gi", None);
}
