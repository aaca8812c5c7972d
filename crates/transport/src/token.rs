use http::{HeaderMap, header::HeaderName};

/// Whether a header that is a list of tokens (RFC 9110, section 5.6.1) has `token`, in any case.
pub fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut tokens = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    tokens.any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};

    #[test]
    fn tokens_are_found_in_any_line_and_case() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, HeaderValue::from_static("upgrade, Keep-Alive"));
        headers.append(header::CONNECTION, HeaderValue::from_static(" close"));
        for (token, expected) in [("close", true), ("keep-alive", true), ("keep", false), ("", false)] {
            assert_eq!(has_token(&headers, header::CONNECTION, token), expected, "{token}");
        }
        assert!(!has_token(&headers, header::TE, "close"));
    }
}
