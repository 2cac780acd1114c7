//! Front proxies that name users in headers.

use bytes::Bytes;
use http::HeaderName;
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use minik8s_api::{Extension, RequestHeaderSettings};
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_store::Options;

use crate::client::Client;
use crate::port::Port;

const WHO_AM_I: &str = "https://localhost/apis/authentication.k8s.io/v1/selfsubjectreviews";
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Asks as whom it is seen, with headers that name another.
async fn seen(port: &Port, shown: Option<&(String, String)>, names: bool) -> (u16, String) {
    let mut client = Client::over(port.tls_as(shown).await).await;
    let mut request = http::Request::post(WHO_AM_I).header("content-type", "application/json");
    if names {
        request = request
            .header("x-remote-user", "annabel")
            .header("x-remote-uid", "7")
            .header("x-remote-group", "devs")
            .header("x-remote-group", "ops")
            .header("x-remote-extra-example.com%2fTeam", "red");
    }
    let body = Full::new(Bytes::from_static(b"{}")).boxed();
    let answer = client.begin(request, body).await.await.unwrap().unwrap();
    let code = answer.status().as_u16();
    (code, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn request_headers_are_believed_of_allowed_front_proxies_alone() {
    let dir = tempfile::tempdir().unwrap();
    let names = ServingNames {
        host_name: "proxies".to_owned(),
        addresses: Vec::new(),
        extra_names: Vec::new(),
        cluster_domain: "cluster.local".to_owned(),
        service_address: None,
    };
    let now = Timestamp::now();
    let proxies = Pki::load_or_create(dir.path(), &names, now).unwrap();
    let settings = RequestHeaderSettings {
        authorities: vec![proxies.ca_der()],
        allowed_names: vec!["proxy".to_owned()],
        username_headers: vec![HeaderName::from_static("x-remote-user")],
        uid_headers: vec![HeaderName::from_static("x-remote-uid")],
        group_headers: vec![HeaderName::from_static("x-remote-group")],
        extra_prefixes: vec!["x-remote-extra-".to_owned()],
    };
    let extension = Extension { request_header: Some(settings), ..Extension::default() };
    let port = Port::with(Options::default(), extension).await;
    let of_proxies = |name: &str| proxies.issue_client(name, &["system:masters"], DAY, now).unwrap();
    let (proxy, intruder) = (of_proxies("proxy"), of_proxies("intruder"));
    let user = port.pki.issue_client("proxy", &["users"], DAY, now).unwrap();

    let (code, answer) = seen(&port, Some(&proxy), true).await;
    assert_eq!(code, 201, "{answer}");
    let review: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let expected = serde_json::json!({
        "username": "annabel", "uid": "7", "groups": ["devs", "ops", "system:authenticated"],
        "extra": {"example.com/team": ["red"]},
    });
    assert_eq!(review["status"]["userInfo"], expected);

    let check = async |shown: Option<&(String, String)>, names: bool, code: u16, told: &str| {
        let (got, answer) = seen(&port, shown, names).await;
        assert!(got == code && answer.contains(told) && !answer.contains("annabel"), "{got} {answer}");
    };
    check(None, true, 403, "system:anonymous").await;
    // The same name, but a user's.
    check(Some(&user), true, 201, "\"users\"").await;
    check(Some(&user), false, 201, "\"users\"").await;
    check(Some(&intruder), true, 401, "Unauthorized").await;
    // Whatever groups stand in it.
    check(Some(&proxy), false, 401, "Unauthorized").await;
}
