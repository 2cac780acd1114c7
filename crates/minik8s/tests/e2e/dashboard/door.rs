//! Who gets in: the door of `minik8s dashboard` over plain sockets, as a hostile page or a neighbour would try it.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Background;
use crate::harness::Server;

/// The status and the whole answer.
fn ask(address: &str, head: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = head.replace("HOST", address).replace('\n', "\r\n");
    stream.write_all(format!("{request}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, answer)
}

#[test]
fn session_is_needed_and_counts_for_our_page_only() {
    let server = Server::start();
    let mut dashboard = Background::start(&server, &["dashboard", "--print-url"]);
    let link = dashboard.first_line();
    let (page, code) = link.split_once("#code=").unwrap();
    let address = page.trim_start_matches("http://").trim_end_matches("/ui/").to_owned();
    let check = |head: &str, expected: u16| {
        let (status, answer) = ask(&address, head);
        assert_eq!(status, expected, "{head}\n{answer}");
        answer
    };
    let own = "Host: HOST\nSec-Fetch-Site: same-origin\nX-Minik8s-UI: 1";
    check(&format!("GET /api/v1/namespaces HTTP/1.1\n{own}"), 401);
    check("GET /ui/ HTTP/1.1\nHost: HOST", 200);
    // A name of elsewhere that was made to resolve to this machine.
    check("GET /ui/ HTTP/1.1\nHost: evil.example", 421);
    let exchange = format!("Content-Type: application/json\nContent-Length: {}", code.len() + 11);
    let post = |code: &str, rest: &str| {
        let body = format!("{{\"code\":\"{code}\"}}");
        let mut stream = TcpStream::connect(&address).unwrap();
        let rest = rest.replace("HOST", &address).replace('\n', "\r\n");
        let exchange = exchange.replace('\n', "\r\n");
        let head =
            format!("POST /ui/session HTTP/1.1\r\n{rest}\r\n{exchange}\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let foreign = "Host: HOST\nOrigin: http://evil.example\nX-Minik8s-UI: 1";
    assert!(
        post(code, foreign).starts_with("HTTP/1.1 403"),
        "a foreign page has no session, and uses up no code"
    );
    assert!(post(&"A".repeat(code.len()), own).starts_with("HTTP/1.1 401"));
    let opened = post(code, own);
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    assert!(post(code, own).starts_with("HTTP/1.1 401"), "a code works once");
    let cookie = opened.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();

    let answer = check(&format!("GET /api/v1/namespaces HTTP/1.1\n{own}\nCookie: {cookie}"), 200);
    assert!(answer.contains("sandbox") && answer.contains("kube-system"), "{answer}");
    // With the cookie, but not from our page.
    check(&format!("GET /api/v1/namespaces HTTP/1.1\nHost: HOST\nCookie: {cookie}"), 401);
    check(
        &format!("GET /api/v1/namespaces HTTP/1.1\nHost: HOST\nCookie: {cookie}\nSec-Fetch-Site: cross-site"),
        401,
    );
    let origin = "Origin: http://127.0.0.1:1";
    check(&format!("GET /api/v1/namespaces HTTP/1.1\nHost: HOST\nCookie: {cookie}\n{origin}"), 401);
    let write = "DELETE /api/v1/namespaces/kube-public HTTP/1.1\nHost: HOST\nSec-Fetch-Site: same-origin";
    check(&format!("{write}\nCookie: {cookie}"), 401);
    // A WebSocket of a foreign page: browsers ask nobody before they open one.
    let upgrade = "GET /api/v1/namespaces/default/pods/x/exec?command=sh&stdin=true HTTP/1.1\nHost: HOST\n\
        Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    check(&format!("{upgrade}\nCookie: {cookie}\nOrigin: http://evil.example"), 401);
    // Pages of pods would be pages of ours.
    check(&format!("GET /api/v1/namespaces/default/pods/x/proxy/ HTTP/1.1\n{own}\nCookie: {cookie}"), 401);
    check(&format!("GET /api/v1/nodes/x/proxy/metrics HTTP/1.1\n{own}\nCookie: {cookie}"), 401);
    // Forwards are our own page's to open, for pods that are there.
    let forwards = "/ui/forwards HTTP/1.1";
    let listed = check(&format!("GET {forwards}\n{own}\nCookie: {cookie}"), 200);
    assert!(listed.contains("\"items\":[]"), "{listed}");
    check(&format!("GET {forwards}\n{own}"), 401);
    check(&format!("GET {forwards}\nHost: HOST\nCookie: {cookie}"), 401);
    check(&format!("POST {forwards}\nHost: HOST\nCookie: {cookie}\nSec-Fetch-Site: same-origin"), 401);
    check(&format!("POST {forwards}\n{own}\nCookie: {cookie}\nOrigin: http://127.7.7.7:80"), 401);
    check(&format!("POST {forwards}\n{own}\nCookie: {cookie}"), 400);
    check(&format!("DELETE {forwards}\n{own}\nCookie: {cookie}"), 404);
    let open = |body: &str, expected: u16| {
        let length = body.len();
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST {forwards}\n{own}\nCookie: {cookie}\nContent-Length: {length}\nConnection: close\n\n"
        );
        let head = head.replace("HOST", &address).replace('\n', "\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{body}: {answer}");
    };
    open(r#"{"namespace": "default", "pod": "none", "port": 80}"#, 404);
    open(r#"{"namespace": "default", "pod": "../../nodes/n1/proxy", "port": 80}"#, 400);
    open(r#"{"namespace": "default", "pod": "none", "port": 99999}"#, 400);
    open(r#"{"id": "127.1.2.3:4"}"#, 404);
}

#[test]
fn files_of_the_api_server_are_public_and_nothing_else() {
    let server = Server::start();
    let get = |path: &str| {
        let run = std::process::Command::new("curl")
            .args(["-sSk", "-o", "/dev/null", "-D", "-", &format!("{}{path}", server.url)])
            .output()
            .unwrap();
        String::from_utf8_lossy(&run.stdout).to_lowercase()
    };
    let page = get("/ui/");
    assert!(page.contains(" 200") && page.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(page.contains("require-trusted-types-for 'script'"), "{page}");
    assert!(get("/ui").contains("location: /ui/"));
    assert!(get("/ui/assets/none.js").contains(" 404"));
    let denied = get("/api/v1/secrets");
    assert!(denied.contains(" 401") || denied.contains(" 403"), "{denied}");
}
