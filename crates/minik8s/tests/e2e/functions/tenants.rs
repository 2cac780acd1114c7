//! Functions of two namespaces on one node: neither reads the other's memory, files or code.

use serde_json::{Value, json};

use super::registry::{Skopeo, said};
use super::site::Site;
use crate::harness::cluster::Cluster;

/// Keeps a secret in memory and in files; or looks for one wherever it may look. What it looks for comes backwards: else it
/// would find its own request.
const LOOK: &str = "
import glob, os

SECRET = ''

def read(path):
    try:
        with open(path, 'rb') as file:
            return file.read(1 << 20)
    except OSError:
        return b''

def memory(pid):
    try:
        with open(f'/proc/{pid}/maps') as maps, open(f'/proc/{pid}/mem', 'rb', 0) as content:
            for line in maps:
                start, end = (int(number, 16) for number in line.split()[0].split('-'))
                try:
                    content.seek(start)
                    yield content.read(min(end - start, 64 << 20))
                except (OSError, ValueError, OverflowError):
                    continue
    except OSError:
        return

def main(params):
    global SECRET
    if 'keep' in params:
        SECRET = params['keep']
        for folder in ('/tmp', '/dev/shm'):
            with open(folder + '/kept', 'w') as file:
                file.write(SECRET)
        return {'kept': True}
    wanted = params['look'][::-1].encode()
    pids = sorted(int(path[6:]) for path in glob.glob('/proc/[0-9]*'))
    places = [path for folder in ('/tmp', '/dev/shm', '/run', '/var') for path in glob.glob(folder + '/**', recursive=True)]
    places += [f'/proc/{pid}/{name}' for pid in pids for name in ('environ', 'cmdline')]
    found = [path for path in places if wanted in read(path)]
    found += [f'memory of {pid}' for pid in pids if pid != os.getpid() and any(wanted in piece for piece in memory(pid))]
    return {'pids': pids, 'own': os.getpid(), 'found': found}
";

const SECRET: &str = "what-only-one-may-know";

pub fn read_nothing_of_each_other(cluster: &Cluster, one: &Site, two: &Site) {
    let file = one.file("look.py", LOOK);
    let backwards: String = SECRET.chars().rev().collect();
    for site in [one, two] {
        site.run(&["create", "look", "--from", &file, "--min", "1", "--max", "1"]);
    }
    assert_eq!(one.call("look", &json!({"keep": SECRET})).json, json!({"kept": true}));
    let mine = one.call("look", &json!({"look": backwards})).json;
    let finds = |told: &Value, place: &str| told["found"].as_array().unwrap().iter().any(|one| one == place);
    assert!(finds(&mine, "/tmp/kept") && finds(&mine, "/dev/shm/kept"), "it knows how to look: {mine}");
    let theirs = two.call("look", &json!({"look": backwards})).json;
    assert_eq!(theirs["found"], json!([]), "{theirs}");
    assert_eq!(theirs["pids"], json!([1, theirs["own"]]), "its own processes alone: {theirs}");
    for site in [one, two] {
        site.run(&["delete", "look"]);
    }
    pull_no_code_of_each_other(cluster, one, two);
}

/// What nodes fetch for instances is in the registry.
fn pull_no_code_of_each_other(cluster: &Cluster, one: &Site, two: &Site) {
    assert_eq!((one.can_read("one").as_str(), two.can_read("two").as_str()), ("yes", "yes"));
    let repository = one.get("imagerepository/function-code.sum");
    let tag = repository["tags"][0]["name"].as_str().unwrap_or_else(|| panic!("{repository}"));
    let code = format!("one/function-code.sum:{tag}");
    let skopeo = Skopeo::new(cluster, one);
    let [own, foreign] =
        [one, two].map(|site| site.kubectl(&["create", "token", "default"]).trim().to_owned());
    let read = skopeo.ask("inspect", &code, &own);
    assert!(read.status.success(), "{read:?}");
    let refused = skopeo.ask("inspect", &code, &foreign);
    assert!(!refused.status.success() && said(&refused).contains("forbidden"), "{refused:?}");
}
