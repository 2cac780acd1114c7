//! Configurations of the peers: one process each, kept connections, no log. The least that each can do.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub fn nginx_conf(file: &Path, port: u16, backend: u16) -> Result<()> {
    let dir = file.parent().context("a folder")?.display();
    let text = format!(
        "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  map $http_end_user $by_user {{ default rest; \"~^jason$\" v2; }}
  upstream v2 {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  upstream v3 {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  upstream rest {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;
    location ~ ^/reviews/[0-9]+/new$ {{ proxy_pass http://v3; }}
    location / {{ proxy_pass http://$by_user; }}
  }}
}}
"
    );
    Ok(std::fs::write(file, text)?)
}

pub fn haproxy_conf(file: &Path, port: u16, backend: u16) -> Result<()> {
    let text = format!(
        "global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  use_backend v2 if {{ req.hdr(end-user) -m reg ^jason$ }}
  use_backend v3 if {{ path_reg ^/reviews/[0-9]+/new$ }}
  default_backend rest
backend v2
  server s 127.0.0.1:{backend}
backend v3
  server s 127.0.0.1:{backend}
backend rest
  server s 127.0.0.1:{backend}
"
    );
    Ok(std::fs::write(file, text)?)
}

pub fn envoy_conf(file: &Path, port: u16, backend: u16) -> Result<()> {
    envoy(file, port, backend, (None, None))
}

/// TLS with clients, and with the backend; both sides show the certificate of that folder and name.
pub type EnvoyTls<'a> = (Option<(&'a Path, &'a str)>, Option<(&'a Path, &'a str)>);

pub fn envoy(file: &Path, port: u16, backend: u16, (down, up): EnvoyTls<'_>) -> Result<()> {
    let address = |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let endpoint = json!({"endpoint": {"address": address(backend)}});
    let mut cluster = json!({"name": "back", "type": "STATIC", "connect_timeout": "5s", "load_assignment": {
        "cluster_name": "back", "endpoints": [{"lb_endpoints": [endpoint]}]}});
    if let Some((dir, name)) = up {
        cluster["transport_socket"] = tls("UpstreamTlsContext", common(dir, name));
    }
    let header = json!({"name": "end-user", "string_match": {"safe_regex": {"regex": "^jason$"}}});
    let to = json!({"cluster": "back"});
    let routes = json!([
        {"match": {"prefix": "/", "headers": [header]}, "route": to},
        {"match": {"safe_regex": {"regex": "^/reviews/[0-9]+/new$"}}, "route": to},
        {"match": {"prefix": "/"}, "route": to},
    ]);
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    });
    let mut filter =
        json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
    if down.is_some() {
        // As a pod's proxy does with what comes, where no policy is about requests: it does not look into it.
        let proxy = json!({"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "bench", "cluster": "back"});
        filter = json!({"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy});
    }
    let mut chain = json!({"filters": [filter]});
    if let Some((dir, name)) = down {
        let mut context = tls("DownstreamTlsContext", common(dir, name));
        context["typed_config"]["require_client_certificate"] = json!(true);
        chain["transport_socket"] = context;
    }
    let listener = json!({"name": "l", "address": address(port), "filter_chains": [chain]});
    let config = json!({"static_resources": {"listeners": [listener], "clusters": [cluster]}});
    Ok(std::fs::write(file, config.to_string())?)
}

fn tls(kind: &str, common: Value) -> Value {
    json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{kind}"),
        "common_tls_context": common}})
}

fn common(dir: &Path, name: &str) -> Value {
    let file = |end: &str| json!({"filename": dir.join(format!("{name}.{end}"))});
    json!({
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificates": [{"certificate_chain": file("crt"), "private_key": file("key")}],
        "validation_context": {"trusted_ca": {"filename": dir.join("ca.crt")}},
    })
}
