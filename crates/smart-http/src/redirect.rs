//! Whether a redirect is followed, and to where.
//!
//! Git follows those of the discovery request and moves its base URL by what the final URL ends in; this room does the same and adds
//! one rule of its own: from https to http it never goes, since everything sent after that, credentials first, could be read and
//! changed on the way.

use http::{HeaderMap, StatusCode, header};

use crate::{
    Error, FollowRedirects,
    text::masked,
    url::{Origin, redacted, resolve},
};

/// How many redirects one request may take; curl's and git's number.
pub(crate) const MAX_HOPS: u32 = 20;

/// Where a redirect leads.
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) origin: Origin,
}

/// Whether this answer is one of the redirects of RFC 9110, section 15.4. All of them keep the method here: git tells curl to
/// repeat a POST as a POST.
pub(crate) fn is_redirect(status: StatusCode, headers: &HeaderMap) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) && headers.contains_key(header::LOCATION)
}

/// Where to go from `url`, after `hops` redirects already.
pub(crate) fn next(
    policy: FollowRedirects,
    is_discovery: bool,
    url: &str,
    origin: &Origin,
    headers: &HeaderMap,
    hops: u32,
) -> Result<Target, Error> {
    let location = headers
        .get(header::LOCATION)
        .map(|value| value.as_bytes())
        .unwrap_or_default();
    let resolved = resolve(url, location);
    let to = match &resolved {
        Ok((target, _)) => masked(target.as_bytes(), 1000),
        Err(_) => redacted(&String::from_utf8_lossy(location)),
    };
    let refuse = |reason: String| Error::Redirect {
        from: url.to_owned(),
        to: Some(to.clone()),
        reason,
    };
    let follow = match policy {
        FollowRedirects::Always => true,
        FollowRedirects::Initial => is_discovery,
        FollowRedirects::Never => false,
    };
    if !follow {
        return Err(refuse(match policy {
            FollowRedirects::Never => "redirects are not followed (http.followRedirects=false); use the new URL".into(),
            _ => "only the first request's redirects are followed (http.followRedirects=initial); the server should redirect \
                  'info/refs' too, or set it to true"
                .into(),
        }));
    }
    let (target, to_origin) = match resolved {
        Ok(resolved) => resolved,
        Err(reason) => return Err(refuse(reason)),
    };
    if origin.https && !to_origin.https {
        return Err(refuse(
            "going on from https to http would give up the protection of everything that follows, credentials included; if that is \
             meant, use the http URL"
                .into(),
        ));
    }
    if hops >= MAX_HOPS {
        return Err(refuse(format!(
            "that is one more than the {MAX_HOPS} redirects that are followed; the server sends us in circles"
        )));
    }
    Ok(Target {
        url: target,
        origin: to_origin,
    })
}
