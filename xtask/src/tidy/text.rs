//! Rust source as the rules read it: without what comments and literals say, and without its tests.
//!
//! Owns a lexer that knows just enough: comments (nested), strings (raw and byte too), characters apart from lifetimes,
//! and matching braces. It refuses to parse; a rule looks for names.

use std::ops::Range;

/// `text` with every comment, string and character blanked. Lines keep their numbers.
pub(super) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' | b'b' | b'c' if !continues_a_name(bytes, at) => match raw_string_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            b'\'' => match character_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        code[at..end]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
        at = end;
    }
    // Every byte of a multi-byte character is blanked or none is: literals and comments begin and end at ASCII.
    String::from_utf8_lossy(&code).into_owned()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

fn comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of `r"..."`, `r#"..."#`, `br"..."`, `cr"..."`; `None` when none begins here (`r#name` is none).
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    if matches!(bytes[at], b'b' | b'c') {
        at += 1;
    }
    if bytes.get(at) != Some(&b'r') {
        return None;
    }
    at += 1;
    let hashes = bytes[at..].iter().take_while(|&&byte| byte == b'#').count();
    at += hashes;
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    at += 1;
    while at < bytes.len() {
        if bytes[at] == b'"' && bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count() >= hashes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(bytes.len())
}

/// The end of a character literal; `None` for a lifetime or a label.
fn character_end(bytes: &[u8], quote: usize) -> Option<usize> {
    let rest = &bytes[quote + 1..];
    if rest.first() == Some(&b'\\') {
        let closing = rest.iter().skip(2).position(|&byte| byte == b'\'')?;
        return Some(quote + 1 + 2 + closing + 1);
    }
    // The first character, whatever follows it.
    let text = String::from_utf8_lossy(&rest[..rest.len().min(4)]);
    let length = text.chars().next()?.len_utf8();
    (rest.get(length) == Some(&b'\'')).then_some(quote + 1 + length + 1)
}

fn continues_a_name(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_name(bytes[at - 1])
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Where the items under `#[cfg(test)]` or `#[cfg(all(test, ...))]` lie in `code` (see there).
pub(super) fn tests(code: &str) -> Vec<Range<usize>> {
    const ATTRIBUTE: &str = "#[cfg(";
    let mut tests = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find(ATTRIBUTE) {
        let start = from + found;
        from = start + ATTRIBUTE.len();
        if ["test)", "all(test,", "all(test)"]
            .iter()
            .any(|condition| code[from..].starts_with(condition))
        {
            from = item_end(code.as_bytes(), start);
            tests.push(start..from);
        }
    }
    tests
}

/// `code` with these parts blanked. Lines keep their numbers.
pub(super) fn without(code: &str, parts: &[Range<usize>]) -> String {
    let mut kept = code.as_bytes().to_vec();
    for part in parts {
        kept[part.clone()]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// How many lines of `code` these parts take.
pub(super) fn lines_of(code: &str, parts: &[Range<usize>]) -> usize {
    parts
        .iter()
        .map(|part| line_of(code, part.end.saturating_sub(1)) - line_of(code, part.start) + 1)
        .sum()
}

/// Where the item ends whose first attribute is at `start`: at the brace that closes its body, or at a semicolon outside
/// any bracket.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Every place where `name` stands as a whole word in `code`: line numbers from 1.
pub(super) fn lines_with(code: &str, name: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    code.match_indices(name)
        .filter(|(at, _)| {
            let end = at + name.len();
            (!is_name(bytes[*at]) || !continues_a_name(bytes, *at))
                && (!is_name(bytes[end - 1]) || !bytes.get(end).is_some_and(|&byte| is_name(byte)))
        })
        .map(|(at, _)| line_of(code, at))
        .collect()
}

/// Modules of the standard library that `code` names, with the line of each: `std::net::TcpStream` and
/// `use std::{io, net::TcpStream}` both name `net`.
pub(super) fn std_modules(code: &str) -> Vec<(usize, String)> {
    let bytes = code.as_bytes();
    let mut modules = Vec::new();
    for (at, name) in code.match_indices("std") {
        let end = at + name.len();
        if continues_a_name(bytes, at) {
            continue;
        }
        let rest = code[end..].trim_start();
        let Some(rest) = rest.strip_prefix("::") else { continue };
        let rest = rest.trim_start();
        let begin = code.len() - rest.len();
        if !rest.starts_with('{') {
            modules.push((line_of(code, begin), first_name(rest)));
            continue;
        }
        // First names at depth one of the group.
        let (mut depth, mut expected) = (0, false);
        for (offset, character) in rest.char_indices() {
            match character {
                '{' => {
                    depth += 1;
                    expected = depth == 1;
                }
                '}' if depth == 1 => break,
                '}' => depth -= 1,
                ',' => expected = depth == 1,
                _ if expected && !character.is_whitespace() => {
                    modules.push((line_of(code, begin + offset), first_name(&rest[offset..])));
                    expected = false;
                }
                _ => {}
            }
        }
    }
    modules
}

fn first_name(text: &str) -> String {
    text.chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_not() {
        let text = "a /* x /* y */ z */ b // c\n\"d\\\"e\" f r#\"g\"h\"# i b'j' 'k' '\\'' '\\u{1F600}' &'l m r#type br\"n\" 'ö' o\n";
        let words: Vec<String> = code(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["a", "b", "f", "i", "b", "&'l", "m", "r#type", "o"]);
        assert_eq!(code(text).lines().count(), text.lines().count());
        assert_eq!(code("let s = \"a\nb\"; x"), "let s =   \n  ; x");
    }

    #[test]
    fn an_unclosed_literal_ends_with_the_file() {
        for text in ["\"abc", "r#\"abc\"", "/* abc", "'\\", "'", "b", "r", "\"abc\\"] {
            assert_eq!(code(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn tests_go_with_their_attributes_and_the_rest_stays() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { let c = \"}\"; }\n\n    fn d() {}\n}\nfn e() {}\n#[cfg(feature = \"x\")]\nfn f() {}\n#[cfg(test)]\nmod g;\nfn h() {}\n#[cfg(all(test, unix))]\n#[allow(dead_code)]\nuse i::{j, k};\nfn l() {}\n";
        let code = code(text);
        let tests = tests(&code);
        let kept = without(&code, &tests);
        let names: Vec<&str> = kept.split_whitespace().filter(|word| word.ends_with("()")).collect();
        assert_eq!(names, ["a()", "e()", "f()", "h()", "l()"]);
        assert_eq!(text.lines().count() - lines_of(&code, &tests), 6);
    }

    #[test]
    fn words_are_whole() {
        let code = "todo!(); not_todo!(); todo !();\nx.todo!";
        assert_eq!(lines_with(code, "todo!"), [1, 2]);
        assert_eq!(lines_with("Instant InstantX AnInstant", "Instant"), [1]);
    }

    #[test]
    fn modules_of_std_in_paths_and_groups() {
        let code = "use std::{io::{self, Read}, net::{TcpStream, fs},\n    thread};\nlet x = std::env::var(y); mystd::fs; ::std :: time";
        let names: Vec<(usize, String)> = std_modules(code);
        let names: Vec<(usize, &str)> = names.iter().map(|(line, name)| (*line, &**name)).collect();
        assert_eq!(names, [(1, "io"), (1, "net"), (2, "thread"), (3, "env"), (3, "time")]);
    }
}
