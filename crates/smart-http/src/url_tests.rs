use proptest::prelude::*;

use super::*;

fn parse(url: &str) -> RepositoryUrl {
    RepositoryUrl::parse(url).unwrap().0
}

fn refused(url: &str) -> String {
    RepositoryUrl::parse(url).unwrap_err().to_string()
}

#[test]
fn joins_as_git_does() {
    let join = |url: &str| parse(url).info_refs(Service::UploadPack);
    assert_eq!(
        join("https://h/r.git"),
        "https://h/r.git/info/refs?service=git-upload-pack"
    );
    assert_eq!(
        join("https://h/r.git/"),
        "https://h/r.git/info/refs?service=git-upload-pack"
    );
    assert_eq!(
        join("https://h/r.git//"),
        "https://h/r.git//info/refs?service=git-upload-pack"
    );
    assert_eq!(join("HTTP://h"), "http://h/info/refs?service=git-upload-pack");
    assert_eq!(join("http://h/"), "http://h/info/refs?service=git-upload-pack");
    assert_eq!(join("http://h:/r"), "http://h/r/info/refs?service=git-upload-pack");
    assert_eq!(
        join("http://h:8080/cgi?repo=a/b"),
        "http://h:8080/cgi?repo=a/b/info/refs&service=git-upload-pack"
    );
    assert_eq!(join("http://h?r=1"), "http://h/?r=1/info/refs&service=git-upload-pack");
    assert_eq!(
        join("http://[::1]:81/r%2Fx/../%41é"),
        "http://[::1]:81/r%2Fx/../%41é/info/refs?service=git-upload-pack"
    );
}

#[test]
fn origins_know_default_ports_and_ignore_case() {
    assert_eq!(parse("https://Host/a").origin, parse("https://hOST:443/b").origin);
    assert_eq!(parse("http://h/a").origin, parse("http://h:80/b").origin);
    assert_ne!(parse("http://h/a").origin, parse("https://h/a").origin);
    assert_ne!(parse("http://h/a").origin, parse("http://h:8080/a").origin);
    assert_eq!(parse("http://[::1]/a").origin, parse("http://[::1]:80").origin);
}

#[test]
fn user_and_password_are_taken_out_and_decoded() {
    let (url, login) = RepositoryUrl::parse("https://us%65r%40x:p%3Ass%FF@h:444/r").unwrap();
    let login = login.unwrap();
    assert_eq!(url.as_str(), "https://h:444/r");
    assert_eq!((url.protocol(), url.host()), ("https", "h:444"));
    assert_eq!(login.username.expose(), b"user@x");
    assert_eq!(login.password.as_ref().unwrap().expose(), b"p:ss\xff");
    assert_eq!(format!("{login:?}").matches("<redacted>").count(), 2);
    let (_, login) = RepositoryUrl::parse("https://tok@h/r").unwrap();
    assert!(login.unwrap().password.is_none());
    assert!(RepositoryUrl::parse("https://@h/r").unwrap().1.is_none());
}

#[test]
fn credential_paths_are_decoded_and_trimmed() {
    let path = |url: &str| parse(url).credential_path();
    assert_eq!(path("http://h//a%20b/c.git//"), Some("a b/c.git".into()));
    assert_eq!(path("http://h/"), None);
    assert_eq!(path("http://h/x?y=1"), Some("x?y=1".into()));
}

#[test]
fn other_schemes_are_refused_by_name() {
    for (url, scheme) in [
        ("ssh://git:hunter2@h/r", "ssh"),
        ("git://h/r", "git"),
        ("file:///r", "file"),
        ("git@h:r.git", "ssh"),
        ("/srv/r.git", "file"),
        ("../r", "file"),
        ("ftp://h/r", "ftp"),
    ] {
        let err = RepositoryUrl::parse(url).unwrap_err();
        let Error::UnsupportedScheme { scheme: got, .. } = &err else {
            panic!("{url}: {err:?}")
        };
        assert_eq!(got, scheme, "{url}");
        assert!(
            err.to_string().contains("http://") && err.to_string().contains("https://"),
            "{err}"
        );
        assert!(!format!("{err} {err:?}").contains("hunter2"));
    }
}

#[test]
fn broken_urls_are_refused_without_their_secrets() {
    for url in [
        "http://user:hunter2@/r",
        "http://user:hunter2@h:0/r",
        "http://user:hunter2@h:99999/r",
        "http://user:hunter2@h:8o/r",
        "http://user:hunter2@h:+80/r",
        "http://user:hun/hunter2@h/r",
        "http://user:hunter2@a@h/r",
        "http://user:hunter2@h/r#x",
        "http://user:hunter2@h/a b",
        "http://user:hunter2@h/a\nb",
        "http://user:hunter2@h\\x/r",
        "http://user:hunter2@[::g]/r",
        "http://user:hunter2@[::1/r",
        "http://user:hunter2@[::1]x/r",
        "http://user:hunter2@[fe80::1%25eth0]/r",
        "http://user:hunter2@::1/r",
        "http://user:hunter2@h%2fx/r",
        "http://user:hunter2@bücher.example/r",
        "http://user:hunter2%0aprotocol=x@h/r",
        "http://user%00:hunter2@h/r",
    ] {
        let err = RepositoryUrl::parse(url).unwrap_err();
        assert!(matches!(err, Error::InvalidUrl { .. }), "{url}: {err:?}");
        let shown = format!("{err} {err:?}");
        assert!(!shown.contains("hunter2") && !shown.contains('\u{a}'), "{url}: {shown}");
    }
    assert!(refused("http://h/r#x").contains("%23"));
    assert!(refused("http://h/a b").contains("percent-encoded"));
}

#[test]
fn locations_resolve_by_rfc_3986() {
    let from = "http://h:81/a/b/info/refs?service=x";
    let to = |location: &str| resolve(from, location.as_bytes()).map(|(url, _)| url);
    assert_eq!(to("https://o/p?q#f").unwrap(), "https://o/p?q");
    assert_eq!(to("https://u:p@o/p").unwrap(), "https://o/p");
    assert_eq!(to("//o:82/p").unwrap(), "http://o:82/p");
    assert_eq!(to("/p/../q").unwrap(), "http://h:81/p/../q");
    assert_eq!(to("c/d?e=../f").unwrap(), "http://h:81/a/b/info/c/d?e=../f");
    assert_eq!(to("../../x/./y/.").unwrap(), "http://h:81/a/x/y/");
    assert_eq!(to("../../../../../x").unwrap(), "http://h:81/x");
    assert_eq!(to("?z").unwrap(), "http://h:81/a/b/info/refs?z");
    assert_eq!(to("HTTP://O").unwrap(), "http://O/");
    assert_eq!(to("http://o?x").unwrap(), "http://o/?x");
    assert_eq!(to(" /é x ").unwrap(), "http://h:81/%C3%A9%20x");
    assert_eq!(resolve(from, b"/\xff").unwrap().0, "http://h:81/%FF");
    for bad in [
        "",
        "#f",
        "ftp://o/",
        "file:///etc",
        "javascript:x",
        "http:x",
        "http://",
        "/a\tb",
        "http://a@b@c/",
    ] {
        assert!(to(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    /// Whatever the URL, what is joined keeps the path's bytes, and nothing shown holds the password.
    #[test]
    fn path_bytes_stay_untouched(path in "(/[!$-;=@-Z_a-z|~%]{0,8}){0,4}", query in proptest::option::of("[!$-;=@-Z_a-z]{0,8}")) {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let (url, login) = RepositoryUrl::parse(&format!("http://user:hunter2@host:1{path}{query}")).unwrap();
        let joined = url.info_refs(Service::ReceivePack);
        let whole = format!("{}{query}", if path.is_empty() && !query.is_empty() { "/" } else { &path });
        let join = if query.is_empty() { '?' } else { '&' };
        let kept = whole.strip_suffix('/').unwrap_or(&whole);
        prop_assert_eq!(&joined, &format!("http://host:1{kept}/info/refs{join}service=git-receive-pack"));
        let uri: http::Uri = joined.parse().unwrap();
        prop_assert_eq!(uri.path_and_query().unwrap().as_str(), joined.strip_prefix("http://host:1").unwrap());
        let shown = format!("{url:?} {login:?}");
        prop_assert!(!shown.contains("hunter2"));
        // What was joined is what a redirect to itself strips.
        prop_assert_eq!(RepositoryUrl::strip(&joined, &url.info_refs_tail(Service::ReceivePack)), Some(url));
    }

    #[test]
    fn hostile_urls_neither_panic_nor_leak(url in "[ -~\\x00\\x0a\u{e9}]{0,40}", scheme in "(http|https|HtTp|ssh|)(://)?") {
        let url = format!("{scheme}user:hunter2@{url}");
        match RepositoryUrl::parse(&url) {
            Ok((parsed, _)) => {
                prop_assert!(parsed.info_refs(Service::UploadPack).parse::<http::Uri>().is_ok());
                let shown = format!("{parsed:?}");
                prop_assert!(!shown.contains("hunter2"), "{}", shown);
            }
            Err(err) => {
                let shown = format!("{err} {err:?}");
                prop_assert!(!shown.contains("hunter2") && !err.to_string().chars().any(char::is_control), "{}", shown);
            }
        }
    }

    #[test]
    fn hostile_locations_give_a_sound_url_or_none(location in proptest::collection::vec(any::<u8>(), 0..60), prefix in "(http://|//|/|https://h|\\?|)") {
        let location = [prefix.as_bytes(), &location].concat();
        if let Ok((url, origin)) = resolve("https://start:8/a/info/refs?service=x", &location) {
            let uri: http::Uri = url.parse().unwrap();
            prop_assert_eq!(origin.https, uri.scheme_str() == Some("https"));
            prop_assert_eq!(&origin.host, &uri.host().unwrap().to_ascii_lowercase());
            prop_assert_eq!(origin.port, uri.port_u16().unwrap_or(if origin.https { 443 } else { 80 }));
            prop_assert!(!uri.authority().unwrap().as_str().contains('@'));
        }
    }
}
