//! `$(VAR)` in commands, arguments and values. Pure.

/// Replaces `$(NAME)` by what `lookup` knows; unknown names stay as they are, `$$` is a dollar sign.
pub fn expand(text: &str, lookup: &impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        let (before, tail) = rest.split_at(start);
        out.push_str(before);
        let after = &tail[1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(&value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion() {
        let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
        let check = |text: &str, want: &str| assert_eq!(expand(text, &lookup), want, "{text}");
        check("x$(A)y", "x1y");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$1");
        check("$(B)", "$(B)");
        check("$(A", "$(A");
        check("$A $", "$A $");
        check("ü$(A)ü", "ü1ü");
        check("", "");
    }
}
