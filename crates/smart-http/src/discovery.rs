//! Discovery: `GET <base>/info/refs?service=<service>` (gitprotocol-http(5), "Discovering References").
//!
//! What the body says is for the protocol's own parser; here only its type and its first four bytes are looked at.

use std::io::{self, Cursor, Read};

use http::Method;
use rgit_transport::{Answer, Wire};

use crate::{
    Error, Service, Session,
    headers::git_protocol,
    session::{Ask, check_type, no_body, wire},
};

/// A smart server's advertisement, not yet read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Discovery {
    /// The body from its first byte; a `# service=` banner, where the server sends one, is still in it.
    pub reader: Answer,
    /// How the last exchange travelled.
    pub wire: Option<Wire>,
    /// Whether the session's base URL moved: [`Session::base_url`] has the new one, and users should be told.
    pub redirected: bool,
}

impl Read for Discovery {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }
}

impl Session {
    /// Ask what the repository offers by `service`. `version` is the `git-protocol` header, such as `version=2`.
    ///
    /// # Errors
    /// When no answer came, or one that is no smart server's advertisement, or authentication failed. [`Error`] tells which.
    pub fn discover(&mut self, service: Service, version: Option<&str>) -> Result<Discovery, Error> {
        let ask = Ask {
            method: Method::GET,
            service,
            tail: self.base.info_refs_tail(service),
            git_protocol: git_protocol(version)?,
        };
        let landing = self.ask(&ask, &mut no_body())?;
        check_type(&landing.response, &landing.url, service, "advertisement")?;
        let wire = wire(&landing.response);
        let reader = checked(landing.response.into_body(), &landing.url, service)?;
        self.remembered = wire.is_some_and(|wire| wire.remembered);
        self.doubting = false;
        // Only now: what is no Git server has no say in where pushes go.
        let redirected = landing.moved.as_ref().is_some_and(|base| *base != self.base);
        self.base = landing.moved.unwrap_or_else(|| self.base.clone());
        Ok(Discovery {
            reader,
            wire,
            redirected,
        })
    }
}

/// Every smart answer begins with the four hex digits of a pkt-line (gitprotocol-common(5)); the page says that clients must check.
fn checked(mut body: Answer, url: &str, service: Service) -> Result<Answer, Error> {
    let mut head = Vec::with_capacity(4);
    (&mut body)
        .take(4)
        .read_to_end(&mut head)
        .map_err(|source| Error::Answer {
            url: url.to_owned(),
            source,
        })?;
    let reason = match head.len() {
        4 if head.iter().all(u8::is_ascii_hexdigit) => return Ok(Answer::new(Cursor::new(head).chain(body))),
        0 => "the answer is empty".to_owned(),
        4 => "the answer does not begin with a pkt-line's length; does something print before Git's own output?"
            .to_owned(),
        short => format!("the answer ends after {short} bytes"),
    };
    Err(Error::NotGit {
        url: url.to_owned(),
        service,
        content_type: Some(format!("application/x-{service}-advertisement")),
        reason,
    })
}
