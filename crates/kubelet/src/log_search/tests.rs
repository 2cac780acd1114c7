use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use super::*;
use crate::ended_logs::{EndedPod, keep};

fn write(dir: &Path, file: &str, lines: &[(u32, &str)]) {
    let path = dir.join("logs").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text: String = lines
        .iter()
        .map(|(second, text)| {
            format!("2026-01-01T00:{:02}:{:02}Z stdout F {text}\n", second / 60, second % 60)
        })
        .collect();
    fs::write(path, text).unwrap();
}

/// Two pods that are there, one that is gone.
fn site() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "shop_web-1_u1/main/0.log.20260101-000000", &[(1, "GET /cart 200")]);
    write(dir.path(), "shop_web-1_u1/main/0.log", &[(5, "GET /cart 503"), (7, r#"{"level":"error","n":1}"#)]);
    write(dir.path(), "shop_web-1_u1/side/0.log", &[(6, "ready 503")]);
    write(dir.path(), "bank_db-1_u2/main/0.log", &[(3, "commit 503"), (4, "GET 2026")]);
    write(dir.path(), "gone/main/0.log", &[(2, "GET /old 503"), (8, "bye")]);
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let pod = EndedPod {
        namespace: "shop".into(),
        name: "web-0".into(),
        uid: "u0".into(),
        labels,
        containers: Vec::new(),
    };
    assert!(keep(&dir.path().join("logs/gone"), &dir.path().join("ended"), pod).unwrap());
    minik8s_datadir::remove_tree(&dir.path().join("logs"), "gone").unwrap();
    dir
}

fn find(dir: &Path, search: &Search) -> Findings {
    let labels = HashMap::from([
        ("u1".to_owned(), BTreeMap::from([("app".to_owned(), "web".to_owned())])),
        ("u2".to_owned(), BTreeMap::new()),
    ]);
    run(search, &logs(search, &labels, &dir.join("logs"), &dir.join("ended")))
}

fn search(grep: &str, fields: &[&str]) -> Search {
    let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
    let matcher = Matcher::new(Some(grep), &fields).unwrap();
    Search { matcher, limit: 100, ended: true, ..Search::default() }
}

#[test]
fn lines_are_found_by_every_condition_and_come_by_time() {
    let dir = site();
    let check = |search: Search, want: &[&str]| {
        let found = find(dir.path(), &search);
        let texts: Vec<&str> = found.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, want, "{search:?}");
        assert!(!found.truncated && (want.is_empty() || found.bytes > 0));
    };
    check(search("503", &[]), &["GET /old 503", "commit 503", "GET /cart 503", "ready 503"]);
    check(Search { ended: false, ..search("503", &[]) }, &["commit 503", "GET /cart 503", "ready 503"]);
    check(Search { namespace: "bank".into(), ..search("503", &[]) }, &["commit 503"]);
    check(Search { pod: Some("web-1".into()), ..search("503", &[]) }, &["GET /cart 503", "ready 503"]);
    check(Search { container: Some("side".into()), ..search("", &[]) }, &["ready 503"]);
    let labels = LabelSelector::parse("app=web").unwrap();
    check(Search { labels, ..search("GET.*503", &[]) }, &["GET /old 503", "GET /cart 503"]);
    check(search("^GET", &[]), &["GET /cart 200", "GET /old 503", "GET 2026", "GET /cart 503"]);
    check(search("200$", &[]), &["GET /cart 200"]);
    check(search("2026", &[]), &["GET 2026"]);
    check(search("(?i)READY", &[]), &["ready 503"]);
    check(search(r"503\s+GET", &[]), &[]);
    check(search("", &["level=error"]), &[r#"{"level":"error","n":1}"#]);
    check(search("", &["level=error", "n!=1"]), &[]);
    let time = |second: i64| Some(Timestamp::from_second(1_767_225_600 + second).unwrap());
    check(Search { since: time(5), until: time(6), ..search("", &[]) }, &["GET /cart 503", "ready 503"]);
    check(Search { namespace: "..".into(), ..search("", &[]) }, &[]);
}

#[test]
fn newest_lines_stay_and_it_is_said_that_there_are_more() {
    let dir = site();
    let found = find(dir.path(), &Search { limit: 2, ..search("", &[]) });
    let texts: Vec<&str> = found.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!((texts, found.truncated), (vec![r#"{"level":"error","n":1}"#, "bye"], true));
    let place = &found.lines[1].place;
    assert_eq!((place.pod.as_str(), place.container.as_str(), place.ended), ("web-0", "main", true));
}

#[test]
fn since_skips_to_its_place_in_a_large_file() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<(u32, String)> =
        (0..3600).map(|second| (second, format!("{second} {}", "x".repeat(200)))).collect();
    let lines: Vec<(u32, &str)> = lines.iter().map(|(second, text)| (*second, text.as_str())).collect();
    write(dir.path(), "a_b_c/main/0.log", &lines);
    for second in [0, 1, 1800, 3000, 3598, 3599, 3600] {
        let since = Some(Timestamp::from_second(1_767_225_600 + second).unwrap());
        let found = find(dir.path(), &Search { since, limit: 10_000, ..search("", &[]) });
        assert_eq!(found.lines.len() as i64, 3600 - second, "since {second}");
        if second == 3000 {
            assert!(found.bytes < 300_000, "{}", found.bytes);
        }
    }
}

#[test]
fn what_is_no_condition_is_refused() {
    assert!(Matcher::new(Some("("), &[]).unwrap_err().contains("regular expression"));
    assert!(Matcher::new(None, &["level".to_owned()]).unwrap_err().contains("level=error"));
}
