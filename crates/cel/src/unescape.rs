//! What a string or bytes literal means: quotes and prefixes off, escapes replaced.

/// The text of a string literal as written (`r'…'`, `"""…"""`, `'\n'`).
pub fn string(literal: &str) -> Result<String, String> {
    let (body, raw) = body_of(literal);
    if raw {
        return Ok(body.to_owned());
    }
    let mut found = String::new();
    for part in Parts(body) {
        match part? {
            Part::Character(character) => found.push(character),
            Part::Code(code) => found.push(char::from_u32(code).ok_or("invalid unicode code point")?),
        }
    }
    Ok(found)
}

/// The octets of a bytes literal; numeric escapes are octets, not code points.
pub fn bytes(literal: &str) -> Result<Vec<u8>, String> {
    let (body, raw) = body_of(literal);
    if raw {
        return Ok(body.as_bytes().to_vec());
    }
    let mut found = Vec::new();
    for part in Parts(body) {
        match part? {
            Part::Character(character) => {
                found.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Part::Code(code) => found.push(u8::try_from(code).map_err(|_| "unable to unescape string")?),
        }
    }
    Ok(found)
}

fn body_of(literal: &str) -> (&str, bool) {
    let quoted = literal.trim_start_matches(['r', 'R', 'b', 'B']);
    let prefix = &literal[..literal.len() - quoted.len()];
    let triple = quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''"));
    let quotes = if triple { 3 } else { 1 };
    (&quoted[quotes..quoted.len() - quotes], prefix.contains(['r', 'R']))
}

enum Part {
    Character(char),
    Code(u32),
}

struct Parts<'t>(&'t str);

impl Iterator for Parts<'_> {
    type Item = Result<Part, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.0.chars();
        let first = rest.next()?;
        if first != '\\' {
            self.0 = rest.as_str();
            return Some(Ok(Part::Character(first)));
        }
        let escape = rest.next();
        self.0 = rest.as_str();
        Some(match escape {
            Some('a') => Ok(Part::Character('\x07')),
            Some('b') => Ok(Part::Character('\x08')),
            Some('f') => Ok(Part::Character('\x0c')),
            Some('n') => Ok(Part::Character('\n')),
            Some('r') => Ok(Part::Character('\r')),
            Some('t') => Ok(Part::Character('\t')),
            Some('v') => Ok(Part::Character('\x0b')),
            Some(same @ ('\\' | '\'' | '"' | '`' | '?')) => Ok(Part::Character(same)),
            Some('x' | 'X') => self.code(2, 16),
            Some('u') => self.code(4, 16),
            Some('U') => self.code(8, 16),
            Some(digit @ '0'..='3') => self.octal(digit),
            _ => Err("unable to unescape string".to_owned()),
        })
    }
}

impl Parts<'_> {
    fn code(&mut self, digits: usize, radix: u32) -> Result<Part, String> {
        let text = self.0.get(..digits).ok_or("unable to unescape string")?;
        self.0 = &self.0[digits..];
        let is_number = text.chars().all(|c| c.is_digit(radix));
        let code = u32::from_str_radix(text, radix).ok().filter(|_| is_number);
        code.map(Part::Code).ok_or_else(|| "unable to unescape string".to_owned())
    }

    fn octal(&mut self, first: char) -> Result<Part, String> {
        let Part::Code(rest) = self.code(2, 8)? else { return Err("unable to unescape string".to_owned()) };
        Ok(Part::Code(first.to_digit(8).unwrap_or_default() * 64 + rest))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn literals_mean_what_they_say() {
        for (literal, expected) in [
            (r#""a\tb""#, "a\tb"),
            (r"r'a\tb'", r"a\tb"),
            ("'''it's'''", "it's"),
            (r"'\u00e9\x41\101'", "éAA"),
            (r#"''"#, ""),
        ] {
            assert_eq!(super::string(literal).as_deref(), Ok(expected), "{literal}");
        }
        assert!(super::string(r"'\q'").is_err());
        assert!(super::string(r"'\ud800'").is_err());
        assert_eq!(super::bytes(r"b'\xff\303'"), Ok(vec![0xff, 0o303]));
    }
}
