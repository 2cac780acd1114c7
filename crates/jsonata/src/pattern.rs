//! Regular expressions. JavaScript's are read by the `regex` crate, which needs linear time whatever the pattern; what
//! it cannot do (looking around, back references) is refused.

use regex::{Regex, RegexBuilder};

use crate::error::Error;

const LARGEST: usize = 1 << 20;

pub fn compile(pattern: &str, flags: &str, position: usize) -> Result<Regex, Error> {
    // A slash needs no escape here, and may not have one.
    let pattern = pattern.replace("\\/", "/");
    RegexBuilder::new(&pattern)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .size_limit(LARGEST)
        .build()
        .map_err(|error| {
            let reason = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
            Error::at(
                "S0303",
                position,
                format!("The regular expression /{pattern}/ is not supported: {reason}"),
            )
        })
}
