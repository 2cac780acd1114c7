//! Attacks on sessions at the API server, over plain sockets: what a foreign page, a stolen link, a pod's page and a
//! narrowed session would try.

use std::process::Command;
use std::time::{Duration, Instant};

use super::kubectl;
use crate::harness::Server;

/// A browser without a page: sends what it is told.
struct Client<'a> {
    server: &'a Server,
    http: &'static str,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Client<'_> {
    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut curl = Command::new("curl");
        curl.args(["-sSki", self.http, "--max-time", "60", "-X", method]);
        for header in headers {
            curl.args(["-H", header]);
        }
        if !body.is_empty() {
            curl.args(["--data-binary", body]);
        }
        let run = curl.arg(format!("{}{path}", self.server.url)).output().unwrap();
        let text = String::from_utf8_lossy(&run.stdout).replace("\r\n", "\n");
        let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
        let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    #[track_caller]
    fn check(&self, asked: &str, headers: &[&str], expected: u16) -> Answer {
        let (method, path) = asked.split_once(' ').unwrap();
        let answer = self.send(method, path, headers, "");
        assert_eq!(answer.status, expected, "{asked} {headers:?}: {} {}", answer.head, answer.body);
        answer
    }

    /// A code for a link, by a token.
    fn code(&self, token: &str, wanted: &str) -> String {
        let authorization = format!("Authorization: Bearer {token}");
        let made = self.send("POST", "/ui/sessions", &[&authorization, UI], wanted);
        assert_eq!(made.status, 201, "{}", made.body);
        let made: serde_json::Value = serde_json::from_str(&made.body).unwrap();
        made["code"].as_str().unwrap().to_owned()
    }

    fn redeem(&self, code: &str, headers: &[&str]) -> Answer {
        self.send("POST", "/ui/session", headers, &format!(r#"{{"code": "{code}"}}"#))
    }

    /// The cookie of a session that a token opens.
    fn session(&self, token: &str, wanted: &str) -> String {
        let opened = self.redeem(&self.code(token, wanted), &[OWN, UI]);
        assert_eq!(opened.status, 200, "{}", opened.body);
        let line = opened.head.lines().find(|line| line.to_lowercase().starts_with("set-cookie: ")).unwrap();
        let cookie = &line["set-cookie: ".len()..];
        for attribute in ["__Host-", "Secure", "HttpOnly", "SameSite=Strict", "Path=/;"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.contains("Domain"), "{cookie}");
        format!("Cookie: {}", cookie.split(';').next().unwrap())
    }
}

const UI: &str = "X-Minik8s-UI: 1";
const OWN: &str = "Sec-Fetch-Site: same-origin";

/// Of a new account that has this role, once the role counts.
fn token_of(server: &Server, name: &str, role: &str) -> String {
    kubectl(server, &["create", "serviceaccount", name], "");
    let (cluster_role, account) =
        (format!("--clusterrole={role}"), format!("--serviceaccount=default:{name}"));
    kubectl(server, &["create", "clusterrolebinding", name, &cluster_role, &account], "");
    let token = kubectl(server, &["create", "token", name], "").trim().to_owned();
    let (client, authorization) =
        (Client { server, http: "--http2" }, format!("Authorization: Bearer {token}"));
    // That of discovery is everybody's.
    let expected = if role == "system:discovery" { 403 } else { 200 };
    let begun = Instant::now();
    while client.send("GET", "/api/v1/namespaces/default/pods", &[&authorization], "").status != expected {
        assert!(begun.elapsed() < Duration::from_secs(60), "{name} has no rights of {role}");
        std::thread::sleep(Duration::from_millis(50));
    }
    token
}

#[test]
fn foreign_pages_and_stolen_links_get_nothing_from_the_api_server() {
    let server = Server::start();
    let token = token_of(&server, "boss", "cluster-admin");
    for http in ["--http1.1", "--http2"] {
        let client = Client { server: &server, http };
        // Links are for who has a credential.
        client.check("POST /ui/sessions", &[UI], 401);
        client.check("POST /ui/sessions", &[UI, "Authorization: Bearer nonsense"], 401);
        let authorization = format!("Authorization: Bearer {token}");
        client.check("POST /ui/sessions", &[&authorization], 403);
        client.check("POST /ui/sessions", &[&authorization, UI, "Impersonate-User: ann"], 400);
        assert_eq!(
            client.send("POST", "/ui/sessions", &[&authorization, UI], r#"{"rights": 1}"#).status,
            400
        );
        // A code counts on our own page, once.
        let code = client.code(&token, "");
        assert_eq!(client.redeem(&code, &[UI]).status, 403);
        assert_eq!(client.redeem(&code, &[UI, "Sec-Fetch-Site: cross-site"]).status, 403);
        assert_eq!(client.redeem(&code, &[UI, OWN, "Origin: https://evil.example"]).status, 403);
        assert_eq!(client.redeem(&code, &[OWN]).status, 403, "a form has no such header");
        assert_eq!(client.redeem(&"A".repeat(code.len()), &[OWN, UI]).status, 401);
        assert_eq!(client.redeem(&code, &[OWN, UI]).status, 200, "refused attempts use up no code");
        assert_eq!(client.redeem(&code, &[OWN, UI]).status, 401, "a code works once");
        // The cookie counts for our own page alone; for others its bearer is nobody.
        let cookie = client.session(&token, "");
        let secrets = "GET /api/v1/secrets";
        client.check(secrets, &[&cookie, OWN], 200);
        client.check(secrets, &[&cookie], 403);
        client.check(secrets, &[&cookie, "Sec-Fetch-Site: cross-site"], 403);
        client.check(secrets, &[&cookie, "Sec-Fetch-Site: same-site"], 403);
        client.check(secrets, &[&cookie, "Origin: https://127.0.0.1:1"], 403);
        client.check(secrets, &[&cookie, "Origin: null"], 403);
        client.check("DELETE /api/v1/namespaces/kube-public", &[&cookie, OWN], 403);
        // No session opens another one.
        client.check("POST /ui/sessions", &[&cookie, OWN, UI], 403);
        // It ends when its user says so.
        client.check("DELETE /ui/session", &[&cookie, OWN, UI], 200);
        client.check(secrets, &[&cookie, OWN], 403);
    }
}

#[test]
fn websockets_of_foreign_pages_are_nobodys() {
    let server = Server::start();
    let token = token_of(&server, "boss", "cluster-admin");
    let client = Client { server: &server, http: "--http1.1" };
    let cookie = client.session(&token, "");
    let host = server.url.strip_prefix("https://").unwrap();
    let own = format!("Origin: https://{host}");
    let upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
    ];
    let exec = "GET /api/v1/namespaces/default/pods/none/exec?command=sh&stdin=true&stdout=true";
    let with = |origin: &str, expected: u16| {
        let headers: Vec<&str> = upgrade.iter().copied().chain([cookie.as_str(), origin]).collect();
        client.check(exec, &headers, expected);
    };
    with("Origin: https://evil.example", 403);
    with("Origin: null", 403);
    with("Origin: https://127.0.0.1:1", 403);
    // Our own page is let through to where the pod would be.
    with(&own, 404);
}

#[test]
fn pages_of_pods_are_never_pages_of_ours() {
    let server = Server::start();
    let token = token_of(&server, "boss", "cluster-admin");
    let client = Client { server: &server, http: "--http1.1" };
    let cookie = client.session(&token, "");
    for path in ["pods/x/proxy/", "pods/x/%70roxy/", "services/x/proxy/", "services/https:x:443/proxy/a"] {
        let asked = format!("GET /api/v1/namespaces/default/{path}");
        let answer = client.check(&asked, &[&cookie, OWN], 403);
        assert!(answer.body.contains("system:anonymous"), "{}", answer.body);
        if !path.contains('%') {
            assert!(answer.head.contains("content-security-policy: sandbox "), "{}", answer.head);
            assert!(!answer.head.contains("allow-same-origin"), "{}", answer.head);
        }
    }
}

#[test]
fn session_ends_with_its_token_and_is_as_narrow_as_it_was_made() {
    let server = Server::start();
    let token = token_of(&server, "boss", "cluster-admin");
    let other = token_of(&server, "guest", "view");
    let client = Client { server: &server, http: "--http2" };
    let narrow = client.session(&token, r#"{"readOnly": true, "namespace": "default", "for": "1h"}"#);
    let pods = "GET /api/v1/namespaces/default/pods";
    client.check(pods, &[&narrow, OWN], 200);
    for refused in [
        "GET /api/v1/namespaces/default/secrets",
        "GET /api/v1/pods",
        "GET /api/v1/namespaces/kube-system/pods",
        "DELETE /api/v1/namespaces/default/pods",
        "GET /apis/node.minik8s.io/v1/nodes/none/images",
        "DELETE /apis/node.minik8s.io/v1/nodes/none/images",
        "GET /api/v1/namespaces/default/pods/x/exec?command=sh",
        "POST /api/v1/namespaces/default/serviceaccounts/boss/token",
    ] {
        let answer = client.check(refused, &[&narrow, OWN, UI], 403);
        assert!(answer.body.contains("this session"), "{refused}: {}", answer.body);
    }
    assert_eq!(
        client
            .send(
                "POST",
                "/ui/sessions",
                &[&format!("Authorization: Bearer {token}"), UI],
                r#"{"for": "never"}"#
            )
            .status,
        400
    );
    // Others neither see nor end it; its user does.
    let authorization = format!("Authorization: Bearer {other}");
    let seen = client.check("GET /ui/sessions", &[&authorization], 200);
    assert!(!seen.body.contains("boss"), "{}", seen.body);
    let authorization = format!("Authorization: Bearer {token}");
    let seen = client.check("GET /ui/sessions", &[&authorization], 200);
    let seen: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
    let id = seen["items"][0]["id"].as_str().unwrap();
    assert_eq!(seen["items"][0]["readOnly"], true);
    let asked = format!("DELETE /ui/sessions?id={id}");
    client.check(&asked, &[&format!("Authorization: Bearer {other}"), UI], 404);
    client.check(&asked, &[&authorization, UI], 200);
    client.check(pods, &[&narrow, OWN], 403);
    // With the account, its token and the sessions of it end.
    let wide = client.session(&token, "");
    client.check(pods, &[&wide, OWN], 200);
    // Not below `proxy`: a page may ask what is on a node.
    client.check("GET /apis/node.minik8s.io/v1/nodes/none/images", &[&wide, OWN], 404);
    client.check("DELETE /apis/node.minik8s.io/v1/nodes/none/images", &[&wide, OWN], 403);
    kubectl(&server, &["delete", "serviceaccount", "boss"], "");
    client.check(pods, &[&wide, OWN], 401);
}

#[test]
fn links_are_made_listed_and_ended_by_the_command() {
    let server = Server::start();
    let run = |arguments: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_minik8s"))
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .arg("dashboard")
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        (run.status.success(), said, String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (made, link, trouble) = run(&["--link", "--read-only", "--for", "1h"]);
    assert!(made, "{trouble}");
    let (url, code) = link.trim().split_once("/ui/#code=").unwrap();
    assert_eq!(url, server.url);
    let client = Client { server: &server, http: "--http2" };
    assert_eq!(client.redeem(code, &[OWN, UI]).status, 200);
    let (_, listed, _) = run(&["--sessions"]);
    assert!(listed.contains("kubernetes-admin") && listed.contains("read only"), "{listed}");
    let id = listed.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(run(&["--end", id]).0);
    assert!(!run(&["--end", id]).0, "it has ended already");
    let (made, _, trouble) = run(&["--link", "--for", "soon"]);
    assert!(!made && trouble.contains("is no duration"), "{trouble}");
}

#[test]
fn what_pages_ask_beside_kubernetes_takes_rights_of_ones_own() {
    let server = Server::start_with(&["--mesh"]);
    let client = Client { server: &server, http: "--http1.1" };
    let bearer = |token: String| format!("Authorization: Bearer {token}");
    let boss = bearer(token_of(&server, "boss", "cluster-admin"));
    let guest = bearer(token_of(&server, "guest", "system:discovery"));
    client.check("GET /history", &[], 401);
    client.check("POST /history", &[&guest, UI], 405);
    let told = client.check("GET /history", &[&guest], 200);
    let told: serde_json::Value = serde_json::from_str(&told.body).unwrap();
    assert!(told["moments"].as_array().is_some_and(|all| all.len() > 1), "{told}");
    let own = "/apis/minik8s.io/v1/namespaces/default";
    // What is on a node: no such node, but only for those who might see it.
    let node = "/apis/node.minik8s.io/v1/nodes/none";
    for asked in
        [format!("GET {node}/containers"), format!("GET {node}/images"), format!("DELETE {node}/images")]
    {
        client.check(&asked, &[], 403);
        client.check(&asked, &[&guest], 403);
        client.check(&asked, &[&boss, UI], 404);
    }
    for (path, expected) in
        [("podplacements", 200), ("meshtraffic", 200), ("scalingdecisions/none/backtest?spec=%7B%7D", 404)]
    {
        let asked = format!("GET {own}/{path}");
        client.check(&asked, &[&guest], 403);
        client.check(&asked, &[&boss], expected);
    }
}
