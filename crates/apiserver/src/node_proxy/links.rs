//! What a proxied page calls `/` is below the proxy's path for the browser: links in HTML and redirects are moved
//! there, as upstream does.
//!
//! HTML is read as a stream of tags, not parsed: only the start of an attribute's value changes, so whatever the page
//! is otherwise, it stays. Scripts, styles and comments are passed over. What is larger than [`MOST_HELD`] while its
//! end is awaited is passed on as it is.

/// A tag or comment whose end has not come yet.
const MOST_HELD: usize = 8192;

/// Attributes whose values are URLs.
const LINKS: [&str; 12] = [
    "href",
    "src",
    "action",
    "formaction",
    "poster",
    "background",
    "codebase",
    "cite",
    "longdesc",
    "manifest",
    "profile",
    "icon",
];

/// Elements whose content is no HTML.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

/// Where a page is for who reads it, and where it is for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path up to `proxy`, without a slash at its end.
    pub prefix: String,
    /// The backend's `HOST:PORT`.
    pub host: String,
}

impl Place {
    /// The URL for who reads the page; None if it is right as it is.
    pub fn moved(&self, url: &str) -> Option<String> {
        let path = match url.split_once("://") {
            Some(("http" | "https", rest)) => {
                let path = rest.strip_prefix(&self.host)?;
                if path.is_empty() { "/" } else { path }
            }
            _ => url,
        };
        let is_below = path
            .strip_prefix(&self.prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
        let is_path = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
        (is_path && !is_below).then(|| format!("{}{path}", self.prefix))
    }
}

/// Moves the links of a page that comes in pieces.
pub struct Rewriter {
    place: Place,
    held: Vec<u8>,
    /// The element whose content is passed over.
    raw: Option<&'static str>,
}

impl Rewriter {
    pub fn new(place: Place) -> Self {
        Rewriter { place, held: Vec::new(), raw: None }
    }

    /// What can be passed on after this piece.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut page = std::mem::take(&mut self.held);
        page.extend_from_slice(piece);
        let mut out = Vec::with_capacity(page.len() + 256);
        let mut rest = page.as_slice();
        while !rest.is_empty() {
            match self.step(rest, &mut out) {
                Some(read) => rest = &rest[read..],
                None if rest.len() > MOST_HELD => {
                    out.extend_from_slice(rest);
                    break;
                }
                None => {
                    self.held = rest.to_vec();
                    break;
                }
            }
        }
        out
    }

    /// What is left when nothing more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Passes one token on and says how long it was; None if its end has not come.
    fn step(&mut self, rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if let Some(element) = self.raw {
            let end = find_end(rest, element);
            if end.is_some() {
                self.raw = None;
            }
            // The beginning of the end may be there.
            let read = end.unwrap_or_else(|| rest.len().saturating_sub(element.len() + 2));
            out.extend_from_slice(&rest[..read]);
            return (read > 0 || end.is_some()).then_some(read);
        }
        let read = match rest {
            [b'<', b'!', b'-', b'-', ..] => find(rest, b"-->")? + 3,
            [b'<'] | [b'<', b'!'] | [b'<', b'!', b'-'] => return None,
            [b'<', b'/' | b'!' | b'?', ..] => find(rest, b">")? + 1,
            [b'<', letter, ..] if letter.is_ascii_alphabetic() => {
                let end = tag_end(rest)?;
                self.raw = self.tag(&rest[..end], out);
                return Some(end);
            }
            _ => 1 + rest[1..].iter().position(|byte| *byte == b'<').unwrap_or(rest.len() - 1),
        };
        out.extend_from_slice(&rest[..read]);
        Some(read)
    }

    /// Passes a start tag on. Returns its element if its content is to be passed over.
    fn tag(&self, tag: &[u8], out: &mut Vec<u8>) -> Option<&'static str> {
        let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'/';
        let name_end = tag.iter().position(|byte| is_space(byte) || *byte == b'>').unwrap_or(tag.len());
        let mut at = name_end;
        let mut copied = 0;
        while at < tag.len() {
            at += tag[at..].iter().take_while(|byte| is_space(byte)).count();
            let name_at = at;
            at += tag[at..].iter().take_while(|byte| !is_space(byte) && !matches!(byte, b'=' | b'>')).count();
            let name = &tag[name_at..at];
            let equals = at + tag[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if tag.get(equals) != Some(&b'=') {
                // A name without value, or nothing that has a name.
                at = at.max(name_at + 1);
                continue;
            }
            at = equals + 1 + tag[equals + 1..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let (value_at, value_end, next) = value_of(tag, at);
            at = next.max(equals + 1);
            let is_link = LINKS.iter().any(|link| name.eq_ignore_ascii_case(link.as_bytes()));
            let value = std::str::from_utf8(&tag[value_at..value_end]).ok().filter(|_| is_link);
            if let Some(moved) = value.and_then(|value| self.place.moved(value)) {
                out.extend_from_slice(&tag[copied..value_at]);
                out.extend_from_slice(moved.as_bytes());
                copied = value_end;
            }
        }
        out.extend_from_slice(&tag[copied..]);
        RAW.into_iter().find(|raw| tag[1..name_end].eq_ignore_ascii_case(raw.as_bytes()))
    }
}

/// Where the value that begins here starts, ends, and what follows it starts.
fn value_of(tag: &[u8], at: usize) -> (usize, usize, usize) {
    match tag.get(at) {
        Some(quote @ (b'"' | b'\'')) => {
            let length = tag[at + 1..].iter().take_while(|byte| *byte != quote).count();
            (at + 1, at + 1 + length, (at + length + 2).min(tag.len()))
        }
        _ => {
            let rest = tag.get(at..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| !byte.is_ascii_whitespace() && **byte != b'>').count();
            (at, at + length, at + length)
        }
    }
}

/// How long the tag is that begins here. A `>` within quotes is not its end.
fn tag_end(rest: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in rest.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            // A quote opens a value only after its equals sign.
            (None, b'"' | b'\'') if opens_value(&rest[..at]) => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
    }
    None
}

fn opens_value(before: &[u8]) -> bool {
    before.iter().rev().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'=')
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Where `</element` begins.
fn find_end(text: &[u8], element: &str) -> Option<usize> {
    let is_end =
        |window: &[u8]| window.starts_with(b"</") && window[2..].eq_ignore_ascii_case(element.as_bytes());
    text.windows(element.len() + 2).position(is_end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> Place {
        Place { prefix: "/p/proxy".into(), host: "10.0.0.1:80".into() }
    }

    fn rewritten(page: &[u8], piece: usize) -> Vec<u8> {
        let mut rewriter = Rewriter::new(place());
        let mut out: Vec<u8> = page.chunks(piece.max(1)).flat_map(|piece| rewriter.push(piece)).collect();
        out.extend(rewriter.finish());
        out
    }

    #[test]
    fn links_are_moved_below_the_proxy_path() {
        let check = |page: &str, expected: &str| {
            for piece in [1, 2, 7, page.len()] {
                let got = rewritten(page.as_bytes(), piece);
                assert_eq!(String::from_utf8_lossy(&got), expected, "in pieces of {piece}");
            }
        };
        let same = |page: &str| check(page, page);
        check(r#"<a href="/x">/x</a>"#, r#"<a href="/p/proxy/x">/x</a>"#);
        check("<A class=b HREF = '/x?y=1#z' >", "<A class=b HREF = '/p/proxy/x?y=1#z' >");
        check("<img src=/i.png><br/><form action=/>", "<img src=/p/proxy/i.png><br/><form action=/p/proxy/>");
        check(r#"<link rel=x href="http://10.0.0.1:80/s.css">"#, r#"<link rel=x href="/p/proxy/s.css">"#);
        check(
            r#"<script src="/a.js">var a = '<a href="/x">';</script><a href="/y">"#,
            r#"<script src="/p/proxy/a.js">var a = '<a href="/x">';</script><a href="/p/proxy/y">"#,
        );
        check(
            r#"<p title="a > b" ><a x="'>" href="/x">"#,
            r#"<p title="a > b" ><a x="'>" href="/p/proxy/x">"#,
        );
        check("<a b'c href=/x>", "<a b'c href=/p/proxy/x>");
        same(r#"<a href="x">"#);
        same(
            r#"<a href="../x"><a href="//other/x"><a href="https://other/x"><a href="/\other"><a href="mailto:a@b">"#,
        );
        same(r#"<a href="/p/proxy/x"><a href="/p/proxy">"#);
        same(r#"<!-- <a href="/x"> --><!doctype html><? <a href="/x" ?>"#);
        same(r#"<a data-href="/x" alt="/y">1 < 2 <3 </ <"#);
        same("<style>a { b: url(/x) }</STYLE ><");
        same("<a href=\"/x");
        same("<a href=");
    }

    #[test]
    fn redirects_stay_below_the_proxy_path() {
        let check =
            |url: &str, expected: Option<&str>| assert_eq!(place().moved(url).as_deref(), expected, "{url}");
        check("/login", Some("/p/proxy/login"));
        check("http://10.0.0.1:80/login", Some("/p/proxy/login"));
        check("http://10.0.0.1:80", Some("/p/proxy/"));
        check("http://10.0.0.1:8080/login", None);
        check("https://elsewhere/login", None);
        check("login", None);
        check("/p/proxyx", Some("/p/proxy/p/proxyx"));
    }

    #[test]
    fn page_whose_tag_never_ends_is_passed_on() {
        let page = ["<a href=\"/x".as_bytes(), &[b'y'; 3 * MOST_HELD]].concat();
        assert_eq!(rewritten(&page, 100), page);
    }

    proptest! {
        /// In whatever pieces it comes, a page becomes the same; without links it stays as it is.
        #[test]
        fn page_is_rewritten_the_same_in_any_pieces(parts in prop::collection::vec(0usize..20, 0..60), piece in 1usize..40) {
            const PARTS: [&str; 20] = ["<a ", "href=", "\"/x\"", "'/y'", ">", "<", "/", "!--", "-->", "<script>", "</script>",
                "=", " ", "\"", "'", "text", "<style", "</sty", "le>", "\u{e4}"];
            let page: String = parts.iter().map(|part| PARTS[*part]).collect();
            let whole = rewritten(page.as_bytes(), page.len());
            prop_assert_eq!(&rewritten(page.as_bytes(), piece), &whole);
            let back = String::from_utf8(whole).unwrap().replace("/p/proxy", "");
            prop_assert_eq!(back, page);
        }
    }
}
