//! The subject of a certificate: one common name (the user) and any number of organizations (the groups).
//!
//! rcgen's `DistinguishedName` holds one value per attribute, so it can neither write nor read a user with
//! two groups. This module reads names itself and puts its own subject into a certificate that rcgen has
//! laid out, then signs it again. It knows no other attributes: they mean nothing to Kubernetes.

use rcgen::SigningKey;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub common_name: String,
    pub organizations: Vec<String>,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BIT_STRING: u8 = 0x03;
const UTF8_STRING: u8 = 0x0c;
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x0a];

impl Subject {
    pub fn new(common_name: &str, organizations: &[&str]) -> Self {
        Subject {
            common_name: common_name.to_owned(),
            organizations: organizations.iter().map(|&o| o.to_owned()).collect(),
        }
    }

    /// Reads a parsed name. Several or no common names are refused: which of them would be the user?
    pub fn read(name: &X509Name<'_>) -> Result<Self, String> {
        let mut common_names = name.iter_common_name();
        let (first, second) = (common_names.next(), common_names.next());
        let common_name = match (first, second) {
            (Some(only), None) => only.as_str().map_err(|_| "it is not a text".to_owned())?,
            (None, _) => return Err("there is none".to_owned()),
            _ => return Err("there are several".to_owned()),
        };
        if common_name.is_empty() {
            return Err("it is empty".to_owned());
        }
        let organizations = name
            .iter_organization()
            .map(|o| o.as_str().map(str::to_owned).map_err(|_| "an organization is not a text".to_owned()))
            .collect::<Result<_, _>>()?;
        Ok(Subject { common_name: common_name.to_owned(), organizations })
    }

    /// The DER form of the name: a sequence of sets of one attribute each.
    fn to_der(&self) -> Vec<u8> {
        let attribute = |kind: &[u8], value: &str| {
            let value = der(UTF8_STRING, value.as_bytes());
            der(SET, &der(SEQUENCE, &[kind, &value].concat()))
        };
        let mut names = Vec::new();
        for organization in &self.organizations {
            names.extend(attribute(ORGANIZATION, organization));
        }
        names.extend(attribute(COMMON_NAME, &self.common_name));
        der(SEQUENCE, &names)
    }

    /// The same certificate with this subject, signed anew by the issuer's key.
    pub(super) fn put_into(&self, template: &[u8], key: &impl SigningKey) -> Result<Vec<u8>, rcgen::Error> {
        let unreadable = || rcgen::Error::CouldNotParseCertificate;
        let (_, certificate) = X509Certificate::from_der(template).map_err(|_| unreadable())?;
        let signed_part = certificate.tbs_certificate.as_ref();
        let old_subject = certificate.tbs_certificate.subject.as_raw();
        // Both slices point into `template`, so their distance is the subject's place.
        let start = old_subject.as_ptr() as usize - signed_part.as_ptr() as usize;
        let end = start + old_subject.len();
        let header = header_length(signed_part).ok_or_else(unreadable)?;
        let (Some(before), Some(after)) = (signed_part.get(header..start), signed_part.get(end..)) else {
            return Err(unreadable());
        };
        let new_part = der(SEQUENCE, &[before, &self.to_der(), after].concat());

        let signature = [&[0][..], &key.sign(&new_part)?].concat();
        // The algorithm stands between the signed part and the signature, and stays as it was.
        let after_signed = signed_part.as_ptr() as usize - template.as_ptr() as usize + signed_part.len();
        let rest = template.get(after_signed..).ok_or_else(unreadable)?;
        let algorithm_end = tlv_length(rest).ok_or_else(unreadable)?;
        let algorithm = rest.get(..algorithm_end).ok_or_else(unreadable)?;
        Ok(der(SEQUENCE, &[&new_part, algorithm, &der(BIT_STRING, &signature)].concat()))
    }
}

/// One DER element: tag, length, content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant = &bytes[(length.leading_zeros() / 8) as usize..];
        out.push(0x80 | significant.len() as u8);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(content);
    out
}

/// Bytes before the content of the element that starts here.
fn header_length(element: &[u8]) -> Option<usize> {
    let length = *element.get(1)?;
    Some(if length < 0x80 { 2 } else { 2 + usize::from(length & 0x7f) })
}

/// Bytes of the whole element that starts here.
fn tlv_length(element: &[u8]) -> Option<usize> {
    let header = header_length(element)?;
    let content = match *element.get(1)? {
        short if short < 0x80 => usize::from(short),
        _ => element.get(2..header)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)),
    };
    header.checked_add(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let check = |size: usize, header: &[u8]| {
            let element = der(SEQUENCE, &vec![0; size]);
            assert_eq!(&element[1..=header.len()], header, "{size}");
            assert_eq!(tlv_length(&element), Some(element.len()), "{size}");
        };
        check(0, &[0]);
        check(127, &[127]);
        check(128, &[0x81, 128]);
        check(256, &[0x82, 1, 0]);
        check(70_000, &[0x83, 1, 0x11, 0x70]);
    }

    #[test]
    fn names_round_trip() {
        let long = "x".repeat(200);
        for subject in [Subject::new("a", &[]), Subject::new("ä:b", &["one", "two", &long])] {
            let der = subject.to_der();
            let (_, name) = X509Name::from_der(&der).unwrap();
            assert_eq!(Subject::read(&name).unwrap(), subject);
        }
    }

    #[test]
    fn unusable_names() {
        let der_of = |names: &[&str]| {
            let each = names.iter().flat_map(|n| {
                let value = der(UTF8_STRING, n.as_bytes());
                der(SET, &der(SEQUENCE, &[COMMON_NAME, &value].concat()))
            });
            der(SEQUENCE, &each.collect::<Vec<u8>>())
        };
        let check = |names: &[&str], expected: &str| {
            let der = der_of(names);
            let (_, name) = X509Name::from_der(&der).unwrap();
            assert_eq!(Subject::read(&name).unwrap_err(), expected, "{names:?}");
        };
        check(&[], "there is none");
        check(&["a", "b"], "there are several");
        check(&[""], "it is empty");
    }
}
