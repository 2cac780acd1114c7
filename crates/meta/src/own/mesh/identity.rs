//! Who a pod is: the SPIFFE id of its service account.

use std::fmt;
use std::str::FromStr;

/// `spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub domain: String,
    pub namespace: String,
    pub account: String,
}

impl Identity {
    pub fn new(domain: &str, namespace: &str, account: &str) -> Self {
        Identity { domain: domain.to_owned(), namespace: namespace.to_owned(), account: account.to_owned() }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/ns/{}/sa/{}", self.domain, self.namespace, self.account)
    }
}

/// No other form is taken, so that two spellings are never one identity.
impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<&str> = text.strip_prefix("spiffe://").ok_or(())?.split('/').collect();
        let [domain, "ns", namespace, "sa", account] = parts[..] else { return Err(()) };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let is_name = |name: &str| !name.is_empty() && name.len() <= 253 && name.bytes().all(plain);
        match [domain, namespace, account].iter().all(|name| is_name(name)) {
            true => Ok(Identity::new(domain, namespace, account)),
            false => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_and_no_other() {
        let text = "spiffe://cluster.local/ns/shop/sa/web";
        assert_eq!(text.parse::<Identity>().unwrap(), Identity::new("cluster.local", "shop", "web"));
        assert_eq!(text.parse::<Identity>().unwrap().to_string(), text);
        for wrong in [
            "",
            "spiffe://cluster.local",
            "https://cluster.local/ns/shop/sa/web",
            "spiffe://cluster.local/ns/shop/sa/web/",
            "spiffe://cluster.local/ns/shop/sa/",
            "spiffe://cluster.local/ns//sa/web",
            "spiffe://cluster.local/ns/Shop/sa/web",
            "spiffe://cluster.local/ns/shop/sa/web?x",
            "spiffe://cluster.local/ns/shop%2f/sa/web",
            "spiffe://cluster.local/ns/shop/sa/web\u{0}",
        ] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong}");
        }
    }
}
