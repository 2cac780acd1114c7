//! Words for the shell of the login node. Whatever comes from an object goes through [`word`], so that no name, path or
//! option can become a command there.

/// The text as one word of a POSIX shell, whatever is in it.
pub fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command line that runs `script` by `sh` with these arguments as `$1`, `$2`, ...
pub fn script(script: &str, arguments: &[&str]) -> String {
    let words = ["sh", "-c", script, "minik8s"].into_iter().chain(arguments.iter().copied());
    let words: Vec<String> = words.map(word).collect();
    format!("exec {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What a shell makes of hostile words is the words themselves.
    #[test]
    fn hostile_words_stay_words() {
        let hostile = [
            "",
            " ",
            "a b",
            "'",
            "''",
            "'; touch /tmp/pwned; '",
            "$(id)",
            "`id`",
            "${HOME}",
            "\\",
            "\\'",
            "a\nb",
            "\n",
            "-n",
            "--help",
            "*",
            "~",
            "a;b|c&d>e<f",
            "#x",
            "!x",
            "\"$x\"",
            "\u{7f}\u{1}é漢",
        ];
        let line = script(r#"for word; do printf '%s\0' "$word"; done"#, &hostile);
        for shell in ["sh", "bash"] {
            let output = Command::new(shell).args(["-c", &line]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let words: Vec<&str> = said.trim_end_matches('\0').split('\0').collect();
            assert_eq!(words, hostile, "{shell}");
        }
    }
}
