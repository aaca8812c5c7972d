use http::{HeaderMap, HeaderName, header};

/// Whether a message with these headers, a request or its answer, is part of an authentication that is the connection's instead of the
/// request's: by NTLM or Negotiate (RFC 4559, section 6). Whoever sent anything on that connection afterwards could do so as that user.
/// A server that only offers these schemes, as many do beside Basic, has authenticated nobody: its answer carries no token.
pub fn authenticates_connection(headers: &HeaderMap) -> bool {
    let fields = [header::AUTHORIZATION, header::WWW_AUTHENTICATE];
    let mut items = fields
        .iter()
        .flat_map(|name| headers.get_all(name))
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    // A comma within quotes ends an item, too. That can make a scheme of what is none, which costs a connection, but hides none.
    items.any(|item| {
        let mut words = item.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (scheme, token) = (words.next(), words.next());
        token.is_some()
            && scheme.is_some_and(|scheme| {
                let is = |known: &[u8]| scheme.eq_ignore_ascii_case(known);
                is(b"negotiate") || is(b"ntlm")
            })
    }) || crate::has_token(headers, HeaderName::from_static("persistent-auth"), "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntlm_and_negotiate_are_found_in_any_place_and_case() {
        for (name, value, expected) in [
            ("authorization", "Negotiate YII=", true),
            ("authorization", "nTLM TlRM", true),
            ("authorization", "Basic bmVnb3RpYXRl", false),
            ("authorization", "Bearer ntlm", false),
            ("www-authenticate", "NTLM", false),
            ("www-authenticate", "NTLM TlRM", true),
            ("www-authenticate", "Basic realm=\"a, b\", Negotiate YII=", true),
            ("www-authenticate", "Basic realm=\"a\", Negotiate", false),
            ("www-authenticate", "Basic realm=\"a\",\tNegotiate\tYII=", true),
            ("www-authenticate", "Basic realm=\"Negotiate\"", false),
            ("www-authenticate", "NTLMv3", false),
            ("www-authenticate", "", false),
            ("persistent-auth", "TRUE", true),
            ("persistent-auth", "false", false),
            ("proxy-authorization", "Negotiate YII=", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append("www-authenticate", "Basic realm=\"first\"".parse().unwrap());
            headers.append(name, value.parse().unwrap());
            assert_eq!(authenticates_connection(&headers), expected, "{name}: {value}");
        }
    }
}
