//! `$(VAR)` in commands, arguments and values. Pure.
//!
//! Values are made of earlier values, so a few lines of a pod can ask for more text than there is memory. What a program
//! is started with has a bound in the kernel, and nothing beyond it is made.

use thiserror::Error;

/// Linux starts no program whose words and environment take more, whatever its limits are.
pub const LARGEST: usize = 6 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("environment, command and paths with their variables are larger than {LARGEST} bytes together")]
pub struct TooLarge;

/// What is left of [`LARGEST`].
#[derive(Debug)]
pub struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Room(LARGEST)
    }
}

impl Room {
    pub fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.0 = self.0.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Replaces `$(NAME)` by what `lookup` knows; unknown names stay as they are, `$$` is a dollar sign.
    pub fn expand<'v>(
        &mut self,
        text: &str,
        lookup: impl Fn(&str) -> Option<&'v str>,
    ) -> Result<String, TooLarge> {
        let mut out = String::new();
        let mut push = |text: &str| {
            self.take(text.len())?;
            out.push_str(text);
            Ok(())
        };
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            let (before, tail) = rest.split_at(start);
            push(before)?;
            let after = &tail[1..];
            if let Some(tail) = after.strip_prefix('$') {
                push("$")?;
                rest = tail;
            } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
                match lookup(name) {
                    Some(value) => push(value)?,
                    None => ["$(", name, ")"].into_iter().try_for_each(&mut push)?,
                }
                rest = tail;
            } else {
                push("$")?;
                rest = after;
            }
        }
        push(rest)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion() {
        let lookup = |name: &str| (name == "A").then_some("1");
        let check =
            |text: &str, want: &str| assert_eq!(Room::default().expand(text, lookup).as_deref(), Ok(want));
        check("x$(A)y", "x1y");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$1");
        check("$(B)", "$(B)");
        check("$(A", "$(A");
        check("$A $", "$A $");
        check("ü$(A)ü", "ü1ü");
        check("", "");
    }

    #[test]
    fn expansion_has_a_bound_in_all() {
        let million = "x".repeat(1_000_000);
        let lookup = |_: &str| Some(million.as_str());
        let mut room = Room::default();
        assert_eq!(room.expand("$(A)$(A)$(A)", lookup).map(|text| text.len()), Ok(3_000_000));
        assert_eq!(room.expand("$(A)$(A)$(A)", lookup).map(|text| text.len()), Ok(3_000_000));
        assert_eq!(room.expand("$(A)", lookup), Err(TooLarge));
        assert_eq!(Room::default().expand(&"$(A)".repeat(1000), lookup), Err(TooLarge));
    }
}
