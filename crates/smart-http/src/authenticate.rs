//! The 401 dialogue: which schemes are offered, who is known to which origin, and what goes into `authorization`.
//!
//! As in git, credentials are never sent before they were asked for, then kept for the session: the URL's own user and password
//! first, else what [`Credentials`] gives. One refusal ends it. They go to the origin that asked and to no other.

use base64::{Engine, prelude::BASE64_STANDARD};
use bstr::BString;
use http::{HeaderMap, HeaderValue, header};

use crate::{
    CredentialRequest, Credentials, Error, Identity, Unauthenticated,
    text::masked,
    url::{Login, Origin, RepositoryUrl},
};

/// More challenges than any server has a reason to send.
const MAX_CHALLENGES: usize = 32;

/// The `www-authenticate` headers of one answer (RFC 9110, section 11.6.1).
#[derive(Debug)]
pub(crate) struct Challenges {
    values: Vec<BString>,
    schemes: Vec<String>,
}

impl Challenges {
    pub(crate) fn of(headers: &HeaderMap) -> Challenges {
        let values: Vec<BString> = headers
            .get_all(header::WWW_AUTHENTICATE)
            .iter()
            .take(MAX_CHALLENGES)
            .map(|value| value.as_bytes().into())
            .collect();
        let mut named: Vec<String> = Vec::new();
        for scheme in values.iter().flat_map(|value| schemes(value)).take(MAX_CHALLENGES) {
            let scheme = masked(scheme, 32);
            if !named.iter().any(|known| known.eq_ignore_ascii_case(&scheme)) {
                named.push(scheme);
            }
        }
        Challenges { values, schemes: named }
    }

    fn offers_basic(&self) -> bool {
        self.schemes.iter().any(|scheme| scheme.eq_ignore_ascii_case("basic"))
    }
}

/// The schemes in one header value. A comma separates challenges as well as their parameters: what has a `=` right after its first
/// word is a parameter, anything else begins a challenge.
fn schemes(value: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    for part in split_unquoted(value) {
        let part = part.trim_ascii();
        let end = part
            .iter()
            .position(|b| b.is_ascii_whitespace() || *b == b'=')
            .unwrap_or(part.len());
        let (word, after) = part.split_at(end);
        let is_parameter = after.trim_ascii_start().starts_with(b"=");
        if !word.is_empty() && word.iter().all(is_token) && !is_parameter {
            found.push(word);
        }
    }
    found
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Split at commas outside of quoted strings.
fn split_unquoted(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |byte| {
        let escape = std::mem::take(&mut escaped);
        match byte {
            _ if escape => {}
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    })
}

/// Who the session is, to whom.
pub(crate) struct Keyring {
    credentials: Box<dyn Credentials>,
    /// What stood in the session's URL, and for which origin.
    login: Option<(Origin, Login)>,
    held: Vec<Held>,
}

struct Held {
    origin: Origin,
    request: CredentialRequest,
    identity: Identity,
    authorization: HeaderValue,
    approved: bool,
}

impl Keyring {
    pub(crate) fn new(credentials: Box<dyn Credentials>, login: Option<(Origin, Login)>) -> Self {
        Keyring {
            credentials,
            login,
            held: Vec::new(),
        }
    }

    /// The `authorization` header for `origin`, if it asked before.
    pub(crate) fn authorization(&self, origin: &Origin) -> Option<HeaderValue> {
        let held = self.held.iter().find(|held| held.origin == *origin)?;
        Some(held.authorization.clone())
    }

    /// `base` asks who we are, for the first time: find out. `url` is what was asked, for errors.
    pub(crate) fn identify(&mut self, base: &RepositoryUrl, url: &str, challenges: Challenges) -> Result<(), Error> {
        let fail = |reason| Error::Authentication {
            url: url.to_owned(),
            reason,
        };
        if !challenges.offers_basic() {
            return Err(fail(Unauthenticated::NoBasic {
                offered: challenges.schemes,
            }));
        }
        let mut request = CredentialRequest::new(base.protocol(), base.host());
        request.path = base.credential_path();
        request.wwwauth = challenges.values;
        let login = self
            .login
            .as_mut()
            .filter(|(origin, _)| *origin == base.origin)
            .map(|(_, login)| login);
        request.username = login.as_ref().map(|login| login.username.expose().into());
        // The password is good for one try; the name stays, for whoever is asked after that.
        let identity = match login.and_then(|login| Some((login.password.take()?, &login.username))) {
            Some((password, username)) => Identity::new(username.expose(), password.expose()),
            None => {
                let filled = self.credentials.fill(&request).map_err(|source| Error::Credentials {
                    url: url.to_owned(),
                    source,
                })?;
                filled.ok_or_else(|| fail(Unauthenticated::NoCredentials))?
            }
        };
        self.held.push(Held {
            origin: base.origin.clone(),
            authorization: basic(&identity),
            request,
            identity,
            approved: false,
        });
        Ok(())
    }

    /// What was sent to `origin` was taken.
    pub(crate) fn approve(&mut self, origin: &Origin) {
        if let Some(held) = self
            .held
            .iter_mut()
            .find(|held| held.origin == *origin && !held.approved)
        {
            held.approved = true;
            self.credentials.approve(&held.request, &held.identity);
        }
    }

    /// What was sent to `origin` was refused.
    pub(crate) fn reject(&mut self, origin: &Origin) {
        if let Some(at) = self.held.iter().position(|held| held.origin == *origin) {
            let held = self.held.swap_remove(at);
            self.credentials.reject(&held.request, &held.identity);
        }
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<_> = self.held.iter().map(|held| &held.origin).collect();
        f.debug_struct("Keyring")
            .field("known_to", &known)
            .finish_non_exhaustive()
    }
}

/// RFC 7617, section 2. Bytes as given, as in git; base64 is always a valid header value.
fn basic(identity: &Identity) -> HeaderValue {
    let mut pair = Vec::with_capacity(identity.username().len() + identity.password().len() + 1);
    pair.extend_from_slice(identity.username());
    pair.push(b':');
    pair.extend_from_slice(identity.password());
    let text = format!("Basic {}", BASE64_STANDARD.encode(&pair));
    pair.fill(0);
    std::hint::black_box(&pair);
    let mut value = HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use bstr::ByteSlice;
    use proptest::prelude::*;

    use super::*;

    fn offered(values: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("www-authenticate", HeaderValue::from_str(value).unwrap());
        }
        Challenges::of(&headers).schemes
    }

    #[test]
    fn schemes_are_told_from_parameters() {
        assert_eq!(offered(&["Basic realm=\"x\""]), ["Basic"]);
        assert_eq!(
            offered(&[
                "Negotiate, NTLM",
                "bearer authorize=\"a, Basic b\", error = \"c\", bASIC realm=\"\\\", Digest\""
            ]),
            ["Negotiate", "NTLM", "bearer", "bASIC"]
        );
        assert_eq!(offered(&["Basic", "BASIC realm=y"]), ["Basic"]);
        assert_eq!(offered(&["realm=\"Basic\"", "", ",,"]), Vec::<String>::new());
    }

    #[test]
    fn basic_encodes_bytes_as_given() {
        let value = basic(&Identity::new("Aladdin", "open sesame"));
        assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(value.is_sensitive());
        assert_eq!(basic(&Identity::new(b"\xff".as_slice(), "é")), "Basic /zrDqQ==");
    }

    proptest! {
        #[test]
        fn any_challenge_gives_few_masked_schemes(values in proptest::collection::vec("[ -~\\t\u{e9}]{0,60}", 0..4)) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            for scheme in offered(&values) {
                prop_assert!(scheme.as_bytes().find_byteset(b" ,=\t").is_none(), "{}", scheme);
                prop_assert!(scheme.chars().count() <= 35);
            }
        }
    }
}
