//! Writing PEM. Reading is `rustls-pki-types`' job; it does not write.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// `label` is the text between the dashes, e.g. `CERTIFICATE`.
pub fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for start in (0..body.len()).step_by(64) {
        text.push_str(&body[start..body.len().min(start + 64)]);
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
