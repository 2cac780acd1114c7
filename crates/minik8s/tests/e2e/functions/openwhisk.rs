//! OpenWhisk's API as its clients use it: with a key of one's own, and with no more rights than that key has.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_functions::zip;
use serde_json::{Value, json};

use super::archives::noise;
use super::site::{Site, eventually};
use crate::harness::cluster::Cluster;

/// As the `openwhisk` package of npm asks: host, key and path are its own.
const FRONTEND: &str = r#"
const https = require('https');
function invoke(name, params) {
  return new Promise((resolve, reject) => {
    const url = `${process.env.__OW_API_HOST}/api/v1/namespaces/_/actions/${name}?blocking=true&result=true`;
    const auth = 'Basic ' + Buffer.from(process.env.__OW_API_KEY).toString('base64');
    const body = JSON.stringify(params);
    const headers = { 'Content-Type': 'application/json', Authorization: auth, 'Content-Length': Buffer.byteLength(body) };
    const request = https.request(url, { method: 'POST', headers }, (answer) => {
      let text = '';
      answer.on('data', (piece) => { text += piece; });
      answer.on('end', () => (answer.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text))));
    });
    request.on('error', reject);
    request.end(body);
  });
}
function main(params) {
  return invoke('fact', { about: params.sentence }).then((fact) => ({ speech: fact.speech, action: process.env.__OW_ACTION_NAME }));
}
exports.main = main;
"#;

struct Client<'a> {
    site: &'a Site,
    key: String,
    server: String,
}

impl Client<'_> {
    /// Status and answer.
    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send_with(&self.key, method, path, body)
    }

    fn send_with(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/openwhisk/api/v1/namespaces/{path}", self.server);
        let body = self.site.file("body.json", &body.to_string());
        let mut curl = Command::new("curl");
        curl.args(["-sk", "-X", method, "-H", "content-type: application/json", "-w", "\n%{http_code}"]);
        curl.arg(&url);
        if matches!(method, "PUT" | "POST") {
            curl.args(["-d", &format!("@{body}")]);
        }
        if !key.is_empty() {
            curl.args(["-u", key]);
        }
        let output = curl.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (answer, code) = text.rsplit_once('\n').unwrap();
        (code.parse().unwrap(), serde_json::from_str(answer).unwrap_or(Value::Null))
    }
}

fn action(code: &str) -> Value {
    json!({"namespace": "_", "exec": {"kind": "nodejs:10", "code": code}, "parameters": [{"key": "city", "value": "Graz"}]})
}

#[test]
fn openwhisk_actions_run_with_the_rights_of_their_key() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "shop");
        let account = "--serviceaccount=shop:default";
        site.kubectl(&["create", "rolebinding", "actions", "--clusterrole=edit", account]);
        site.until_may("default", "create", "functions.minik8s.io");
        let token = site.kubectl(&["create", "token", "default"]).trim().to_owned();
        let client = Client { site: &site, key: format!("shop:{token}"), server: site.server() };
        let fact = "function main(p) { return { speech: `${p.about} of ${p.city}` }; }";
        let (code, made) = client.send("PUT", "_/actions/fact", &action(fact));
        assert_eq!(
            (code, &made["name"], &made["exec"]["kind"]),
            (200, &json!("fact"), &json!("nodejs:default"))
        );
        assert_eq!(client.send("PUT", "_/actions/fact", &action(fact)).0, 409, "not without overwrite");
        assert_eq!(client.send("PUT", "_/actions/fact?overwrite=true", &action(fact)).0, 200);
        let (code, result) =
            client.send("POST", "_/actions/fact?blocking=true&result=true", &json!({"about": "news"}));
        assert_eq!((code, &result["speech"]), (200, &json!("news of Graz")), "{result}");
        actions_call_each_other(&client);
        archive_beyond_a_function(&client);
        activations(&client);
        bad_requests(&client);
        rights(&client, &token);
        assert_eq!(client.send("DELETE", "_/actions/fact", &json!({})).0, 200);
        assert_eq!(client.send("GET", "_/actions/fact", &json!({})).0, 404);
    });
}

fn actions_call_each_other(client: &Client<'_>) {
    assert_eq!(client.send("PUT", "_/actions/frontend", &action(FRONTEND)).0, 200);
    let (code, answer) =
        client.send("POST", "_/actions/frontend?blocking=true&result=true", &json!({"sentence": "weather"}));
    assert_eq!(
        (code, answer),
        (200, json!({"speech": "weather of Graz", "action": "/shop/frontend"})),
        "an action called another with its own key"
    );
}

/// As ServerlessBench packs its actions: 2.5 MB of packages, which is more than a Function and other requests may have.
fn archive_beyond_a_function(client: &Client<'_>) {
    const SIZE: usize = 5 << 19;
    let index = b"const fs = require('fs');\n\
        exports.main = (p) => ({ bytes: fs.statSync(`${__dirname}/node_modules/a/data`).size, city: p.city });\n";
    let files = [
        ("index.js".to_owned(), index.to_vec()),
        ("package.json".to_owned(), br#"{"main": "index.js", "dependencies": {"a": "1"}}"#.to_vec()),
        ("node_modules/a/data".to_owned(), noise(1, SIZE)),
    ];
    let large = action(&STANDARD.encode(zip::pack(&files).unwrap()));
    let (code, made) = client.send("PUT", "_/actions/large", &large);
    assert_eq!((code, &made["exec"]["binary"]), (200, &json!(true)), "{made}");
    let image = client.site.get("function/large")["spec"]["code"]["image"].clone();
    assert!(image.to_string().contains("/shop/function-code.large@sha256:"), "{image}");
    let call = "_/actions/large?blocking=true&result=true";
    assert_eq!(client.send("POST", call, &json!({})), (200, json!({"bytes": SIZE, "city": "Graz"})));

    // Who may make functions, and may not push to the namespace's repositories, may not do it this way.
    let kubectl = |arguments: &[&str]| client.site.kubectl(arguments);
    kubectl(&["create", "serviceaccount", "makes"]);
    let rights = "--verb=get,create,update";
    kubectl(&["create", "role", "makes", rights, "--resource=functions.minik8s.io"]);
    kubectl(&["create", "rolebinding", "makes", "--role=makes", "--serviceaccount=shop:makes"]);
    let key = format!("shop:{}", kubectl(&["create", "token", "makes"]).trim());
    let may_look = || client.send_with(&key, "GET", "_/actions/large", &json!({})).0 == 200;
    eventually("its rights count", may_look);
    let (code, refused) = client.send_with(&key, "PUT", "_/actions/other", &large);
    assert!(code == 403 && refused["error"].to_string().contains("imagerepositories"), "{code} {refused}");
    let (code, made) = client.send_with(&key, "PUT", "_/actions/other", &action("exports.main = (p) => p"));
    assert_eq!(code, 200, "{made}");
    assert_eq!(client.send("DELETE", "_/actions/other", &json!({})).0, 200);
}

fn activations(client: &Client<'_>) {
    let (code, accepted) = client.send("POST", "_/actions/fact", &json!({"about": "later"}));
    assert_eq!(code, 202);
    let id = accepted["activationId"].as_str().unwrap().to_owned();
    let path = format!("_/activations/{id}");
    eventually("the activation has ended", || client.send("GET", &path, &json!({})).0 == 200);
    let (_, whole) = client.send("GET", &path, &json!({}));
    assert_eq!(
        (&whole["name"], &whole["response"]["status"]),
        (&json!("fact"), &json!("success")),
        "{whole}"
    );
    let (_, result) = client.send("GET", &format!("{path}/result"), &json!({}));
    assert_eq!(result["result"]["speech"], "later of Graz");
    let (_, listed) = client.send("GET", "_/activations?name=fact&limit=2", &json!({}));
    assert!(listed.as_array().unwrap().len() == 2 && listed.to_string().contains(&id), "{listed}");
    let boom = action("function main() { throw new Error('boom'); }");
    assert_eq!(client.send("PUT", "_/actions/boom", &boom).0, 200);
    let (code, failed) = client.send("POST", "_/actions/boom?blocking=true&result=true", &json!({}));
    assert_eq!((code, failed), (502, json!({"error": "boom"})));
}

fn bad_requests(client: &Client<'_>) {
    let check = |method: &str, path: &str, body: Value, code: u16, told: &str| {
        let (got, answer) = client.send(method, path, &body);
        assert!(got == code && answer["error"].to_string().contains(told), "{method} {path}: {got} {answer}");
    };
    check("PUT", "_/actions/x", json!({"exec": {"kind": "swift:4", "code": "x"}}), 400, "nodejs:VERSION");
    check("PUT", "_/actions/Upper_Case", action("x"), 400, "lower case");
    check("POST", "_/actions/nobody", json!({}), 404, "no action nobody");
    check("POST", "_/actions/fact", json!([1]), 400, "not an object");
    check("GET", "_/rules/x", json!({}), 405, "not part");
    check("GET", "_/activations/0af1", json!({}), 404, "not found");
}

/// No key, a wrong one, one of another namespace, one that may only look.
fn rights(client: &Client<'_>, token: &str) {
    let nothing = json!({});
    let send = |key: &str, method: &str, path: &str| client.send_with(key, method, path, &nothing).0;
    assert_eq!(send("", "GET", "_/actions"), 401);
    assert_eq!(send("shop:guess", "GET", "_/actions"), 401);
    // The name in a key opens nothing: the token decides.
    assert_eq!(send(&format!("kube-system:{token}"), "GET", "_/actions"), 403);
    assert_eq!(send(&client.key, "GET", "kube-system/actions"), 403);
    assert_eq!(send(&client.key, "POST", "default/actions/fact"), 404);
    client.site.kubectl(&["create", "serviceaccount", "looks"]);
    client.site.kubectl(&[
        "create",
        "rolebinding",
        "looks",
        "--clusterrole=view",
        "--serviceaccount=shop:looks",
    ]);
    client.site.until_may("looks", "list", "functions.minik8s.io");
    let looks = format!("shop:{}", client.site.kubectl(&["create", "token", "looks"]).trim());
    assert_eq!(send(&looks, "GET", "_/actions"), 200);
    assert_eq!(send(&looks, "POST", "_/actions/fact?blocking=true"), 403);
    assert_eq!(send(&looks, "DELETE", "_/actions/fact"), 403);
}
