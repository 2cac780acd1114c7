//! Output without what differs from run to run, so that it can be compared.

use regex::Regex;

/// Times, ages, addresses, metrics and generated names become words; runs of blanks become one, since the width of
/// columns depends on what stands in them.
pub fn plain(text: &str) -> String {
    const PATTERNS: &[(&str, &str)] = &[
        (r"\x1b\[[0-9;]*m", ""),
        (r"\r", ""),
        (r"eyJ[A-Za-z0-9_.-]{40,}", "TOKEN"),
        (r"sha256:[0-9a-f]{12,64}", "DIGEST"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}|Z)?", "TIME"),
        (r"https?://(127\.0\.0\.1|\[::1\]|[0-9.]+):\d+", "SERVER"),
        (r"\b(127\.0\.0\.1|\d+\.\d+\.\d+\.\d+)(:\d+)?\b", "ADDRESS"),
        (r"/tmp/[A-Za-z0-9._/-]+", "FILE"),
        (r"v1\.\d+\.\d+[+A-Za-z0-9.-]*", "VERSION"),
        (r"minik8s \d+\.\d+\.\d+", "minik8s VERSION"),
        (r"[█░]+", "BAR"),
        (r"\b\d+(\.\d+)?%", "N%"),
        (r"\b\d+(\.\d+)?(m|n|Ki|Mi|Gi)\b", "AMOUNT"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "AGE"),
        (r"-{4,}", "----"),
        (r"[ \t]+", " "),
        (r" \n", "\n"),
    ];
    PATTERNS.iter().fold(text.to_owned(), |text, (pattern, word)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, *word).into_owned()
    })
}
