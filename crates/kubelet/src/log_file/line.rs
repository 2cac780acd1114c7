//! One line of a log file as runtimes write it: `TIME STREAM TAG TEXT`. Pure.

use jiff::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    pub time: &'a str,
    pub stream: &'a str,
    /// The text goes on in the next line.
    pub partial: bool,
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None` for what is not such a line.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        let mut word = || std::str::from_utf8(fields.next()?).ok();
        let (time, stream, tags) = (word()?, word()?, word()?);
        if !matches!(stream, "stdout" | "stderr") {
            return None;
        }
        let partial = tags.split(':').next() == Some("P");
        Some(Line { time, stream, partial, text: fields.next().unwrap_or_default() })
    }

    pub fn timestamp(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line: &str, want: Option<(&str, bool, &str)>| {
            let got = Line::parse(line.as_bytes());
            let got = got.map(|l| (l.stream, l.partial, std::str::from_utf8(l.text).unwrap()));
            assert_eq!(got, want, "{line}");
        };
        check(
            "2026-11-15T18:57:51.199270903Z stdout F hello world\n",
            Some(("stdout", false, "hello world")),
        );
        check("2026-11-15T18:57:51Z stderr P half", Some(("stderr", true, "half")));
        check("2026-11-15T18:57:51Z stdout F ", Some(("stdout", false, "")));
        check("2026-11-15T18:57:51Z stdout F", Some(("stdout", false, "")));
        check("2026-11-15T18:57:51Z other F x", None);
        check("nonsense", None);
        check("", None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = Line::parse(&bytes).map(|line| line.timestamp());
        }
    }
}
