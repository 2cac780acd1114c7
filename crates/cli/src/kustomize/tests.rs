use std::fs;
use std::path::Path;

use crate::print::yaml;

/// The files of one case, and what is built of its directory `over`, as YAML.
fn built(files: &[(&str, &str)]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    build(&dir.path().join("over"))
}

fn build(directory: &Path) -> Result<String, String> {
    let objects = super::build(directory.to_str().unwrap()).map_err(|error| error.to_string())?;
    Ok(objects.iter().map(yaml::to_string).collect::<Vec<_>>().join("---\n"))
}

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'web:1', env: [{name: A, value: '1'}], envFrom: [{secretRef: {name: keys}}]}
      volumes: [{name: c, configMap: {name: settings}}]
";
const BASE: &str = "resources: [web.yaml]
configMapGenerator: [{name: settings, literals: [a=1, 'b=two words']}]
secretGenerator: [{name: keys, literals: [k=v], envs: [keys.env]}]
";

fn with(over: &str) -> Result<String, String> {
    built(&[
        ("base/web.yaml", WEB),
        ("base/keys.env", "# a remark\nX=1\nY=\n"),
        ("base/kustomization.yaml", BASE),
        ("over/kustomization.yaml", over),
        ("outside", ""),
    ])
}

/// The digests are kubectl's.
#[test]
fn generated_names_tell_contents_and_are_followed() {
    let text = with("resources: [../base]\nnamePrefix: p-\nnamespace: shop\n").unwrap();
    for expected in ["name: p-keys-bkbbb2hc7t\n", "name: p-settings-", "namespace: shop\n"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(text.matches("p-keys-bkbbb2hc7t").count(), 2, "{text}");
    let other = with(
        "resources: [../base]\nnamePrefix: p-\nconfigMapGenerator: [{name: settings, behavior: merge, literals: [a=2]}]\n",
    );
    let (other, name) =
        (other.unwrap(), |text: &str| text.split("p-settings-").nth(1).unwrap()[..10].to_owned());
    assert_ne!(name(&text), name(&other));
    assert!(other.contains("a: \"2\"\n  b: two words"), "{other}");
}

#[test]
fn patches_merge_lists_by_key_and_put_what_is_new_first() {
    let text = with(
        "resources: [../base]
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec: {template: {spec: {containers: [{name: new, image: n}, {name: web, env: [{name: B}]}]}}}
- target: {kind: Deploy.*}
  patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": 3}]'
",
    )
    .unwrap();
    let places: Vec<usize> = ["name: new", "- name: B", "- name: A", "name: web\n      volumes"]
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.contains("replicas: 3"), "{text}");
}

#[test]
fn replacements_copy_fields() {
    let text = with("resources: [../base]
replacements:
- source: {kind: Deployment, name: web, fieldPath: 'spec.template.spec.containers.[name=web].image', options: {delimiter: ':', index: 1}}
  targets:
  - select: {kind: Deployment}
    fieldPaths: [metadata.labels.version]
    options: {create: true}
")
    .unwrap();
    assert!(text.contains("version: \"1\""), "{text}");
}

#[test]
fn mistakes_say_what_and_where() {
    let check = |over: &str, expected: &str| {
        let told = with(over).unwrap_err();
        assert!(told.contains(expected), "{over}: {told}");
    };
    check("resource: [x]", "unknown field `resource`");
    check("resources: [missing.yaml]", "missing.yaml");
    check("resources: [../over]", "builds on itself");
    check("resources: [../outside]", "not in or below");
    check("resources: ['https://example.com/x.yaml']", "not fetched");
    check("helmCharts: [{name: x}]", "helmCharts is not supported");
    check("resources: [../base]\npatches: [{patch: 'kind: Pod'}]", "no matches");
    check("resources: [../base]\npatches: [{patch: '[]'}]", "must say its target");
    check("resources: [../base]\nreplicas: [{name: nobody, count: 1}]", "nobody");
    check("resources: [../base, ../base]", "already registered id: Deployment/web");
    check("configMapGenerator: [{name: a, literals: [b]}]", "expected key=value");
    check("resources: [../base]\nreplacements: [{source: {kind: Service}}]", "0 resources match");
    assert!(with("").unwrap_err().contains("empty"));
}
