//! Static bearer tokens from a CSV file: `token,user,uid,"group1,group2"`.
//!
//! Tokens are kept as digests. A digest is found by hashing what the client sent, so the time of a lookup
//! says nothing about how much of a guess was right.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::User;
use crate::user::AUTHENTICATED;

#[derive(Debug, Default)]
pub struct TokenFile {
    users: HashMap<[u8; 32], User>,
}

/// What is wrong with the file. Never shows a token.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TokenFileError {
    #[error("line {line}: expected token,user,uid and perhaps \"group1,group2\", found {found} columns")]
    Columns { line: usize, found: usize },
    #[error("line {line}: the {column} is empty")]
    Empty { line: usize, column: &'static str },
    #[error("line {line}: the quote in column {column} is not closed")]
    OpenQuote { line: usize, column: usize },
    #[error("line {line}: column {column} has text beside its quotes")]
    StrayQuote { line: usize, column: usize },
    #[error("line {line}: the same token stands in line {first}")]
    Duplicate { line: usize, first: usize },
}

impl TokenFile {
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        let mut lines = HashMap::new();
        for (index, row) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = index + 1;
            if row.trim().is_empty() {
                continue;
            }
            let (token, user) = parse_row(row, line)?;
            let digest = digest(&token);
            if let Some(&first) = lines.get(&digest) {
                return Err(TokenFileError::Duplicate { line, first });
            }
            lines.insert(digest, line);
            users.insert(digest, user);
        }
        Ok(TokenFile { users })
    }

    /// The user of a bearer token.
    pub fn find(&self, token: &str) -> Option<&User> {
        self.users.get(&digest(token))
    }

    pub fn len(&self) -> usize {
        self.users.len()
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

fn parse_row(row: &str, line: usize) -> Result<(String, User), TokenFileError> {
    let columns = split(row, line)?;
    let (token, name, uid, groups) = match columns.as_slice() {
        [token, name, uid] => (token, name, uid, ""),
        [token, name, uid, groups, ..] => (token, name, uid, groups.as_str()),
        _ => return Err(TokenFileError::Columns { line, found: columns.len() }),
    };
    for (column, value) in [("token", token), ("user", name)] {
        if value.is_empty() {
            return Err(TokenFileError::Empty { line, column });
        }
    }
    let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
    let mut user = User {
        name: name.clone(),
        uid: uid.clone(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    };
    user.join(AUTHENTICATED);
    Ok((token.clone(), user))
}

/// Splits one line at commas outside quotes; `""` within quotes is a quote.
fn split(row: &str, line: usize) -> Result<Vec<String>, TokenFileError> {
    let mut columns = Vec::new();
    let mut rest = row;
    loop {
        let column = columns.len() + 1;
        let (value, after) = match rest.trim_start().strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
            Some(quoted) => {
                let (value, after) = unquote(quoted).ok_or(TokenFileError::OpenQuote { line, column })?;
                (value, after.trim_start())
            }
        };
        columns.push(value);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(columns),
            None => return Err(TokenFileError::StrayQuote { line, column }),
        }
    }
}

/// The text up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return Some((value, rest)),
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users() {
        let file = TokenFile::parse(
            "\u{feff}t1,jane,1,\"devs, ops\"\r\n\nt2,joe,2\n\"t\"\"3\", \"a,b\" ,,one\nt4,x,,,ignored",
        )
        .unwrap();
        let check = |token: &str, name: &str, uid: &str, groups: &[&str]| {
            let user = file.find(token).unwrap();
            assert_eq!((user.name.as_str(), user.uid.as_str()), (name, uid));
            assert_eq!(user.groups, groups);
        };
        check("t1", "jane", "1", &["devs", "ops", AUTHENTICATED]);
        check("t2", "joe", "2", &[AUTHENTICATED]);
        check("t\"3", "a,b", "", &["one", AUTHENTICATED]);
        check("t4", "x", "", &[AUTHENTICATED]);
        assert_eq!(file.len(), 4);
        for unknown in ["", "t", "t11", "jane"] {
            assert_eq!(file.find(unknown), None, "{unknown}");
        }
        assert!(TokenFile::parse("").unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, expected: TokenFileError| {
            assert_eq!(TokenFile::parse(text).unwrap_err(), expected, "{text}");
        };
        check("a,b,c\nd,e", TokenFileError::Columns { line: 2, found: 2 });
        check("\n\nsecret", TokenFileError::Columns { line: 3, found: 1 });
        check(",jane,1", TokenFileError::Empty { line: 1, column: "token" });
        check("t,,1", TokenFileError::Empty { line: 1, column: "user" });
        check("t,u,1,\"a", TokenFileError::OpenQuote { line: 1, column: 4 });
        check("t,\"u\"x,1", TokenFileError::StrayQuote { line: 1, column: 2 });
        check("t,u,1\nx,y,2\nt,v,3", TokenFileError::Duplicate { line: 3, first: 1 });
    }

    proptest::proptest! {
        #[test]
        fn noise_never_panics(text in "[a,\"\n\r é]{0,60}") {
            let _ = TokenFile::parse(&text);
        }

        #[test]
        fn quoting_round_trips(token in "[a-z,\" ]{1,20}", name in "[a-z,\"]{1,20}") {
            let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let file = TokenFile::parse(&format!("{},{},uid", quote(&token), quote(&name))).unwrap();
            proptest::prop_assert_eq!(&file.find(&token).unwrap().name, &name);
        }
    }
}
