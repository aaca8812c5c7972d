//! `GitCredentials` against the real git and its helpers, with a home and a configuration of its own.
#![allow(missing_docs)]

use std::{fs, path::Path, sync::Arc};

use rgit_smart_http::{
    CredentialRequest, Credentials, CredentialsError, GitCredentials, Identity, Options, Service, Session,
};

fn git_in(home: &Path) -> GitCredentials {
    let mut git = GitCredentials::new()
        .directory(home)
        .env("HOME", home)
        .env("GIT_CONFIG_SYSTEM", home.join("system"))
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "")
        .env("GIT_CEILING_DIRECTORIES", home)
        .env("LC_ALL", "C");
    for (name, _) in std::env::vars_os() {
        let known = name.to_string_lossy().into_owned();
        let kept = [
            "GIT_CONFIG_SYSTEM",
            "GIT_TERMINAL_PROMPT",
            "GIT_ASKPASS",
            "GIT_CEILING_DIRECTORIES",
            "GIT_EXEC_PATH",
        ];
        if known.starts_with("GIT_") && !kept.contains(&known.as_str()) {
            git = git.env_remove(name);
        }
    }
    git.env_remove("SSH_ASKPASS")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("DISPLAY")
}

fn request(path: &str) -> CredentialRequest {
    let mut request = CredentialRequest::new("https", "example.com:8443");
    request.path = Some(path.into());
    request.wwwauth = vec!["Basic realm=\"a b\"".into(), "Negotiate".into()];
    request
}

fn pair(identity: Option<Identity>) -> Option<(String, String)> {
    identity.map(|identity| (identity.username().to_string(), identity.password().to_string()))
}

fn is(user: &str, password: &str) -> Option<(String, String)> {
    Some((user.to_owned(), password.to_owned()))
}

#[test]
fn the_store_helper_of_the_system_level_gives_keeps_and_forgets() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("system"), "[credential]\n\thelper = store\n").unwrap();
    let mut git = git_in(home.path());
    assert_eq!(
        pair(git.fill(&request("r.git")).unwrap()),
        None,
        "nothing stored, and no terminal"
    );
    let identity = Identity::new("me", "p@ss:w=rd");
    git.approve(&request("r.git"), &identity);
    let stored = fs::read_to_string(home.path().join(".git-credentials")).unwrap();
    assert_eq!(stored, "https://me:p%40ss%3aw%3drd@example.com%3a8443\n");
    let filled = git.fill(&request("other.git")).unwrap().unwrap();
    assert_eq!(pair(Some(filled.clone())), is("me", "p@ss:w=rd"));
    let mut elsewhere = request("r.git");
    elsewhere.host = "example.com".into();
    assert_eq!(pair(git.fill(&elsewhere).unwrap()), None);
    git.reject(&request("r.git"), &filled);
    assert_eq!(fs::read_to_string(home.path().join(".git-credentials")).unwrap(), "");
}

/// A helper that writes down what it hears, and answers with an expiry date and a token of its own.
fn recording_helper(home: &Path, answer: &str) -> String {
    format!(
        "!f() {{ {{ echo \"[$1]\"; cat; }} >>'{}'; test \"$1\" = get && printf '{answer}'; }}; f",
        home.join("heard").display()
    )
}

#[test]
fn a_shell_helper_hears_challenges_and_its_own_lines_again() {
    let home = tempfile::tempdir().unwrap();
    let answer = "username=you\\npassword=pw\\npassword_expiry_utc=32503680000\\noauth_refresh_token=tok\\n";
    let mut git = git_in(home.path()).config("credential.helper", recording_helper(home.path(), answer));
    let identity = git.fill(&request("a b/r.git")).unwrap().unwrap();
    assert_eq!(pair(Some(identity.clone())), is("you", "pw"));
    git.approve(&request("a b/r.git"), &identity);
    git.reject(&request("a b/r.git"), &identity);
    let heard = fs::read_to_string(home.path().join("heard")).unwrap();
    let parts: Vec<&str> = heard
        .split('[')
        .filter(|part| part.starts_with(['g', 's', 'e']))
        .collect();
    let [get, store, erase] = parts[..] else {
        panic!("{heard}")
    };
    assert!(get.starts_with("get]") && store.starts_with("store]") && erase.starts_with("erase]"));
    assert!(
        heard.contains("wwwauth[]=Basic realm=\"a b\"\nwwwauth[]=Negotiate\n"),
        "{heard}"
    );
    for told in [store, erase] {
        for line in [
            "protocol=https\n",
            "host=example.com:8443\n",
            "username=you\n",
            "password=pw\n",
            "oauth_refresh_token=tok\n",
        ] {
            assert!(told.contains(line), "{line:?} is missing in {told}");
        }
    }
    assert!(!heard.contains("path="), "git drops the path by itself: {heard}");
}

#[test]
fn use_http_path_and_user_names_reach_the_helper() {
    let home = tempfile::tempdir().unwrap();
    let mut git = git_in(home.path())
        .config("credential.helper", recording_helper(home.path(), "password=pw\\n"))
        .config("credential.https://example.com:8443.useHttpPath", "true");
    let mut request = request("a b/r.git");
    request.username = Some("us=er".into());
    assert_eq!(pair(git.fill(&request).unwrap()), is("us=er", "pw"));
    let heard = fs::read_to_string(home.path().join("heard")).unwrap();
    assert!(
        heard.contains("path=a b/r.git\n") && heard.contains("username=us=er\n"),
        "{heard}"
    );
    assert!(!format!("{git:?}").contains("printf"));
}

#[test]
fn the_users_level_and_askpass_work() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join(".gitconfig"),
        "[credential]\n\tusername = configured\n",
    )
    .unwrap();
    let askpass = home.path().join("askpass");
    fs::write(&askpass, "#!/bin/sh\necho \"$1\" >>\"$HOME/prompts\"\necho typed\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&askpass, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut git = git_in(home.path()).env("GIT_ASKPASS", &askpass);
    assert_eq!(pair(git.fill(&request("r.git")).unwrap()), is("configured", "typed"));
    let prompts = fs::read_to_string(home.path().join("prompts")).unwrap();
    assert_eq!(prompts, "Password for 'https://configured@example.com:8443': \n");
}

#[test]
fn quit_and_failure_mean_no_credentials() {
    let home = tempfile::tempdir().unwrap();
    for helper in [
        recording_helper(home.path(), "quit=1\\n"),
        "!f() { exit 3; }; f".to_owned(),
    ] {
        let mut git = git_in(home.path()).config("credential.helper", helper);
        assert_eq!(pair(git.fill(&request("r.git")).unwrap()), None);
    }
}

#[test]
fn an_endless_answer_and_a_missing_git_are_errors() {
    let home = tempfile::tempdir().unwrap();
    let error = GitCredentials::new()
        .program(home.path().join("no-git"))
        .fill(&request("r"))
        .unwrap_err();
    assert!(matches!(error, CredentialsError::Spawn { .. }), "{error:?}");
    assert!(error.to_string().contains("is git installed"));

    let endless = home.path().join("endless");
    fs::write(&endless, "#!/bin/sh\nexec yes username=x\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&endless, fs::Permissions::from_mode(0o755)).unwrap();
        let error = git_in(home.path()).program(&endless).fill(&request("r")).unwrap_err();
        assert!(matches!(error, CredentialsError::Answer { .. }), "{error:?}");
    }
}

/// A server that wants `me:hunter2`.
#[derive(Debug)]
struct Guarded;

impl rgit_transport::Transport for Guarded {
    fn exchange(
        &self,
        request: http::Request<rgit_transport::Body<'_>>,
    ) -> Result<http::Response<rgit_transport::Answer>, rgit_transport::Error> {
        let known = request
            .headers()
            .get("authorization")
            .is_some_and(|value| value == "Basic bWU6aHVudGVyMg==");
        let mut response = http::Response::new(rgit_transport::Answer::new(&b"0000"[..]));
        if known {
            let kind = http::HeaderValue::from_static("application/x-git-upload-pack-advertisement");
            response.headers_mut().insert("content-type", kind);
        } else {
            *response.status_mut() = http::StatusCode::UNAUTHORIZED;
            response
                .headers_mut()
                .insert("www-authenticate", http::HeaderValue::from_static("Basic realm=x"));
        }
        Ok(response)
    }
}

#[test]
fn a_session_uses_and_cleans_the_store() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join(".git-credentials");
    let discover = || {
        let git = git_in(home.path()).config("credential.helper", "store");
        let mut session = Session::new(
            Arc::new(Guarded),
            "https://example.com/r.git",
            Options::default(),
            Box::new(git),
        )
        .unwrap();
        session.discover(Service::UploadPack, None).map(drop)
    };
    fs::write(&store, "https://me:hunter2@example.com\n").unwrap();
    discover().unwrap();
    fs::write(&store, "https://me:wrong@example.com\n").unwrap();
    assert!(discover().unwrap_err().to_string().contains("refused"));
    assert_eq!(fs::read_to_string(&store).unwrap(), "");
}
