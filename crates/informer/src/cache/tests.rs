use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod(name: &str, uid: &str, version: u64, owner: Option<&str>) -> Pod {
    let owners: Vec<_> = owner
        .iter()
        .map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}))
        .collect();
    serde_json::from_value(json!({"metadata": {
        "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string(),
        "ownerReferences": owners,
    }}))
    .unwrap()
}

fn cache() -> Cache<Pod> {
    Cache::new(Kind::of::<Pod>())
}

fn names(objects: &[Arc<Pod>]) -> Vec<&str> {
    objects.iter().map(|p| p.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn indexes_follow_owners() {
    let cache = cache();
    cache.apply(pod("a", "1", 1, None));
    cache.apply(pod("b", "2", 2, Some("o")));
    assert_eq!(names(&cache.orphans_in("ns")), ["a"]);
    assert_eq!(names(&cache.controlled_by("o")), ["b"]);
    cache.apply(pod("a", "1", 3, Some("o")));
    assert_eq!(names(&cache.orphans_in("ns")), [""; 0]);
    assert_eq!(names(&cache.controlled_by("o")), ["a", "b"]);
    cache.remove(&pod("b", "2", 4, Some("o")));
    assert_eq!(names(&cache.controlled_by("o")), ["a"]);
    assert_eq!(names(&cache.in_namespace("ns")), ["a"]);
}

#[test]
fn own_writes_show_at_once_and_late_answers_do_not_resurrect() {
    let cache = cache();
    cache.replace(vec![], 10);
    cache.offer(pod("a", "1", 11, None));
    assert_eq!(cache.len(), 1, "a write is visible before the watch shows it");
    cache.apply(pod("b", "2", 12, None));
    cache.remove(&pod("b", "2", 13, None));
    cache.offer(pod("b", "2", 12, None));
    assert_eq!(names(&cache.list()), ["a"], "the answer came after the watch had shown the deletion");
    cache.forget(&Key::new("ns", "a"), "1");
    cache.apply(pod("a", "1", 14, None));
    assert!(cache.is_empty(), "older news about a deleted object");
    cache.remove(&pod("a", "1", 15, None));
    cache.apply(pod("a", "3", 16, None));
    assert_eq!(cache.len(), 1, "a new object of the same name");
}

#[test]
fn a_relist_removes_what_is_gone_but_not_newer_writes() {
    let cache = cache();
    cache.replace(vec![pod("a", "1", 1, None), pod("b", "2", 2, None)], 5);
    cache.offer(pod("c", "3", 9, None));
    cache.replace(vec![pod("b", "2", 2, None)], 8);
    assert_eq!(names(&cache.list()), ["b", "c"]);
}

#[test]
fn late_listeners_hear_what_is_there() {
    let cache = cache();
    cache.apply(pod("a", "1", 1, None));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = heard.clone();
    cache.listen(Box::new(move |old, new| sink.lock().push((old.is_some(), new.is_some()))));
    cache.apply(pod("a", "1", 2, None));
    cache.remove(&pod("a", "1", 3, None));
    assert_eq!(*heard.lock(), [(false, true), (true, true), (true, false)]);
}

/// One history of one name: create, change, delete, create again...
#[derive(Debug, Clone)]
struct Write {
    version: u64,
    uid: u64,
    deletes: bool,
}

fn histories() -> impl Strategy<Value = (Vec<Write>, Vec<bool>)> {
    prop::collection::vec(any::<bool>(), 1..12).prop_flat_map(|deletes| {
        let mut uid = 1;
        let writes: Vec<Write> = deletes
            .iter()
            .enumerate()
            .map(|(i, &wants_delete)| {
                // A deletion needs an object: the first write always creates.
                let deletes = wants_delete && i > 0;
                let write = Write { version: i as u64 + 1, uid, deletes };
                uid += u64::from(deletes);
                write
            })
            .collect();
        let count = writes.len();
        // After each watch event, whether the answers to all our writes so far have come in just before.
        (Just(writes), prop::collection::vec(any::<bool>(), count))
    })
}

proptest! {
    /// However answers and watch events interleave, the end state is what the watch says.
    #[test]
    fn any_interleaving_ends_like_the_watch((writes, early) in histories()) {
        let cache = cache();
        cache.replace(vec![], 0);
        let key = Key::new("ns", "x");
        let mut answered = 0;
        for (i, write) in writes.iter().enumerate() {
            let answer_up_to = if early[i] { writes.len() } else { i };
            for write in &writes[answered..answer_up_to.max(answered)] {
                let uid = write.uid.to_string();
                if write.deletes { cache.forget(&key, &uid) } else { cache.offer(pod("x", &uid, write.version, None)) }
            }
            answered = answered.max(answer_up_to);
            let object = pod("x", &write.uid.to_string(), write.version, None);
            if write.deletes { cache.remove(&object) } else { cache.apply(object) }
        }
        let last = &writes[writes.len() - 1];
        let held = cache.get(&key).map(|p| version(p.metadata()));
        prop_assert_eq!(held, (!last.deletes).then_some(last.version));
    }
}
