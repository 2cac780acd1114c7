use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::*;
use crate::check;

/// `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-521 -sha512 -subj /`, which nodes call, too.
const P521: &str = "MIIBQzCBpQIBADAAMIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAh73sb6gmzsPMVW8adHbJdJST4a9xwVNwUILCLRJHtNocbFtB\
    qAA/cdQB1VUrWErvV+wLgiYRCCxS29N1uHtHwWcAylnNTd8dh/9uVRGNiYptVnz04KzdFHQhNxro7VQHVKoHKPGIO7AKk90lZARG\
    JyWWesCzRCsyXI1jyWj1sV9eJ5ugADAKBggqhkjOPQQDBAOBjAAwgYgCQgGwBAIrP3Iur6z4Cyjx8/WxDiuZgmQN/nkkR9w9KFil\
    YcRai+MOe8US5y1nN574ZKs4LhcWailpt0ivULoNu2MNWwJCAXzc0o0uAOQqgULz9pXqU05CFa4QiTF7AgEPNMltN4G/Q7RVLE6d\
    rn5nYxvWlvP8bMxZYJ9BMDw1yvrFer/UfpbM";
/// The same with `-newkey rsa:3072 -sha256`.
const RSA: &str = "MIIDRTCCAa0CAQAwADCCAaIwDQYJKoZIhvcNAQEBBQADggGPADCCAYoCggGBALFanrA+iK5OJ7Li3tTqNT8VLnnaIxDYSGrCvufG\
    L3Rs7gE9sR4XcbWSAk1tMOUdmGuIm0qj3hr1oqciehqLqi2DyRnKHI4b4A+7iQvc2wdf9Sw1lOvwXMb3jhRQCQsQ+jkboGAwYJGo\
    FoPvSYU3/Eax9LUvuxDXsQDonikqENruZUCC2Z5aO9tev1n0PzfGhPxIiexSzs5bpsnWRO1gF7jc/cLEwKHNvY1vbvZuN7s6Nvcj\
    AkaC2ZkweAylk1/K7gSWFEJaPguNLWcvRw3lboxf9+92WPIqe7KqCdN1FTBklqz3LTKgFIKozWghlaQ09koJPq26WfhZJmAk5fjU\
    8nCgXuYF/YpHZjePegD1XnEAgq3XSRzj0F9qpcQ7jP7wSizEMha+CSuvnmE5eyvjtVEHW065xoGxHOGxA7rKDw9dgcaNfsyvBgq+\
    TCqwnqMCN8dBsQI5mEdXgm1j3u5vnE1DsbmLj0jc1hX9yQfE/xliQcm90xygNO48JYHWSpCD9QIDAQABoAAwDQYJKoZIhvcNAQEL\
    BQADggGBAG5B0aLW9GElzr+fE8GgLhl0rKuAoa3kEJjUEMkdHEe8bF1Zr6EOusWrVTe4+czXgWMaxJSkCFcV8JUVASVZwOdCbenN\
    lComRv2nIJGBxwiUDtHw4DJ05uhjt1bh5iNWeZlyCqu3ivKhd1TNuN5dAvsQL/ZbMPYyDhYVKdTQJmAByvStF8hkjA/0OdprQ5Hg\
    DisbBHrzzbnWpcduBOfBnD4gWHgi6gIx7CINr7dt/e9c8+T3dp8FzZGTZdhBvx0bsXflhRtk6QwUVtIWKMQkOuYmuEMMIomFSRA1\
    fE8AQhs2yTO802TvJbz575pRQwa7n9htbc+Q15/SF3suAx0YhL6tw4hu5bHSRVJfcpPYswN00jkq5UiUPXWZ13KAk1KhX/l4dQl0\
    VKGFyGfs0XsNxVAcoZb4iMZpvBuNxvxMkLOJMTDS9XP5oZV5ojjK8TlAjt0keT3hMgBGCLTCtieCoZypyED9mJwgTjntkVZ7zS2i\
    n8HLFi24oaO8+MfUQ3UMog==";

/// A key's request, and its certificate for two hours of 2026, in PEM.
fn request_and_certificate() -> (String, String) {
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = STANDARD.encode(params.serialize_request(&key).unwrap().der());
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2026, 1, 2);
    (request, params.self_signed(&key).unwrap().pem())
}

fn object(stub: &str, status: Value) -> Value {
    json!({"metadata": {"name": "r"}, "spec": {
        "signerName": "a.b/s", "podName": "p", "podUID": "u", "serviceAccountName": "s", "serviceAccountUID": "u",
        "nodeName": "n", "nodeUID": "u", "maxExpirationSeconds": 86_400, "stubPKCS10Request": stub}, "status": status})
}

fn condition(kind: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": "R", "message": "m"}])
}

#[track_caller]
fn change(object: &Value, old: &Value, want: &[&str]) {
    let mut errors = FieldErrors::default();
    check::find("podcertificaterequests").strategy.validate_change("status", object, old, &mut errors);
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), want.len(), "{shown:#?}");
    shown.iter().zip(want).for_each(|(shown, want)| assert!(shown.contains(want), "{shown}"));
}

#[test]
fn request_proves_its_key() {
    let (stub, _) = request_and_certificate();
    check::errors("podcertificaterequests", object(&stub, json!({})), &[]);
    check::errors(
        "podcertificaterequests",
        object("", json!({})),
        &["spec.stubPKCS10Request: Required value"],
    );
    let mut der = STANDARD.decode(&stub).unwrap();
    *der.last_mut().unwrap() ^= 1;
    check::errors(
        "podcertificaterequests",
        object(&STANDARD.encode(der), json!({})),
        &["spec.stubPKCS10Request: Invalid value: \"<value omitted>\": invalid signature"],
    );
    let mut old_form = object(&stub, json!({}));
    old_form["spec"]["pkixPublicKey"] = "AAAA".into();
    check::errors("podcertificaterequests", old_form, &["spec: Invalid value"]);
}

#[test]
fn request_of_a_key_that_openssl_made_proves_it() {
    for (key_type, stub) in [("P-521", P521), ("RSA", RSA)] {
        check::errors("podcertificaterequests", object(stub, json!({})), &[]);
        let der = STANDARD.decode(stub).unwrap();
        // In the key, and in the signature.
        for place in [100, der.len() - 1] {
            let mut tampered = der.clone();
            tampered[place] ^= 1;
            let why = certificate::check_request(&STANDARD.encode(tampered)).unwrap_err();
            assert_eq!(why, "invalid signature", "{key_type}: byte {place}");
        }
    }
}

#[test]
fn certificate_fits_its_request() {
    let (stub, pem) = request_and_certificate();
    let status = |chain: &str, field: &str, value: &str| {
        let mut status = json!({"conditions": condition("Issued"), "certificateChain": chain,
            "notBefore": "2026-01-01T00:00:00Z", "notAfter": "2026-01-02T00:00:00Z", "beginRefreshAt": "2026-01-01T12:00:00Z"});
        status[field] = value.into();
        object(&stub, status)
    };
    let old = object(&stub, json!({}));
    let good = status(&pem, "beginRefreshAt", "2026-01-01T18:00:00Z");
    change(&good, &old, &[]);
    let (_, foreign) = request_and_certificate();
    change(&status(&foreign, "x", ""), &old, &["not issued to the requested public key"]);
    change(&status("", "x", ""), &old, &["must contain at least one certificate"]);
    change(&status(&pem, "notAfter", "2026-01-03T00:00:00Z"), &old, &["encoded in the leaf certificate"]);
    change(&status(&pem, "beginRefreshAt", "2026-01-01T23:55:00Z"), &old, &["before status.notAfter"]);
    change(&status(&pem, "beginRefreshAt", ""), &old, &["status.beginRefreshAt: Required value"]);
    let mut short = good.clone();
    short["spec"]["maxExpirationSeconds"] = 3600.into();
    change(&short, &old, &["lifetime must be <= spec.maxExpirationSeconds"]);
}

#[test]
fn decision_is_final_and_one_of_three() {
    let (stub, pem) = request_and_certificate();
    let old = object(&stub, json!({}));
    let denied = object(&stub, json!({"conditions": condition("Denied")}));
    change(&denied, &old, &[]);
    change(&denied, &denied, &[]);
    change(&old, &denied, &["immutable after PodCertificateRequest is issued, denied, or failed"]);
    let both = object(&stub, json!({"conditions": condition("Denied"), "certificateChain": pem}));
    change(&both, &old, &["non-condition status fields must be empty"]);
    change(
        &object(&stub, json!({"conditions": condition("Maybe")})),
        &old,
        &["Unsupported value: \"Maybe\""],
    );
    let mut two = condition("Denied");
    two.as_array_mut().unwrap().extend(condition("Failed").as_array().unwrap().clone());
    change(&object(&stub, json!({"conditions": two})), &old, &["at most one condition"]);
}
