//! Which files a user asked for: `*` and `?` within a folder, `**` across folders. Names are matched here and not by a
//! shell over there, so that a file's name can never be more than a name.

/// Whether a relative path matches a pattern.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    folders(&pattern, &path)
}

fn folders(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => (0..=path.len()).any(|skipped| folders(rest, &path[skipped..])),
        (Some((first, rest)), Some((name, below))) => {
            let (first, name): (Vec<char>, Vec<char>) = (first.chars().collect(), name.chars().collect());
            one(&first, &name) && folders(rest, below)
        }
        _ => false,
    }
}

/// One part against one name, without recursion: patterns are the users', and must not cost more than their length.
fn one(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, path: &str, expected| {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}")
        };
        check("out*.txt", "out.txt", true);
        check("out*.txt", "out-1.txt", true);
        check("*.csv", "a/b.csv", false);
        check("**/*.csv", "a/c/b.csv", true);
        check("**/*.csv", "b.csv", true);
        check("a/**", "a/b/c", true);
        check("?.csv", "a.csv", true);
        check("?.csv", "ab.csv", false);
        check("*a*b*", "xaxxbx", true);
        check("a", "b", false);
        check("$(id)", "$(id)", true);
        let long = "a".repeat(2000);
        check(&"*a".repeat(50), &long, true);
        check(&format!("{}b", "*a".repeat(50)), &long, false);
    }
}
