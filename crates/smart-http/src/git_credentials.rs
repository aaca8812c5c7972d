//! Credentials by `git credential`: every helper, askpass program and terminal prompt that git itself would use, under git's own
//! configuration at all its levels. git-credential(1) describes the `key=value` lines; they go through pipes, so that no secret is
//! ever seen in a list of processes.

use std::{
    ffi::{OsStr, OsString},
    io::{Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use bstr::{BStr, ByteSlice};

use crate::{CredentialRequest, Credentials, CredentialsError, Identity};

/// More than any helper's answer: tokens run to a few kilobytes.
const MAX_ANSWER: u64 = 64 * 1024;

/// Runs `git credential fill`, `approve` and `reject`.
///
/// Prompts are git's own: `GIT_ASKPASS`, `core.askPass`, `SSH_ASKPASS`, then the terminal unless `GIT_TERMINAL_PROMPT=0`. What git
/// says on stderr is passed through.
#[derive(Clone)]
pub struct GitCredentials {
    program: OsString,
    directory: Option<PathBuf>,
    config: Vec<(OsString, OsString)>,
    environment: Vec<(OsString, Option<OsString>)>,
}

impl Default for GitCredentials {
    fn default() -> Self {
        GitCredentials::new()
    }
}

impl GitCredentials {
    /// `git` from PATH, in the current directory, with this process's environment.
    pub fn new() -> Self {
        GitCredentials {
            program: "git".into(),
            directory: None,
            config: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Run this program instead of `git`.
    #[must_use]
    pub fn program(mut self, program: impl Into<OsString>) -> Self {
        self.program = program.into();
        self
    }

    /// Run as `git -C directory`: that repository's configuration counts too.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Set a configuration value as `git -c key=value` would. The value travels in the environment, not in the arguments.
    #[must_use]
    pub fn config(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.config.push((key.into(), value.into()));
        self
    }

    /// Set an environment variable for git.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Remove an environment variable for git.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    fn spawn(&self, action: &str, stdout: Stdio) -> Result<Child, CredentialsError> {
        let mut command = Command::new(&self.program);
        if let Some(directory) = &self.directory {
            command.arg("-C").arg(directory);
        }
        for (number, (key, value)) in self.config.iter().enumerate() {
            let variable = format!("RGIT_CREDENTIAL_CONFIG_{number}");
            let mut argument = OsString::from("--config-env=");
            argument.push(key);
            argument.push("=");
            argument.push(&variable);
            command.arg(argument).env(variable, value);
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .args(["credential", action])
            .stdin(Stdio::piped())
            .stdout(stdout);
        command.spawn().map_err(|source| CredentialsError::Spawn {
            program: shown(&self.program),
            source,
        })
    }

    /// Tell git what became of credentials. Failing to do so must not fail the request that they were good (or bad) for.
    fn tell(&self, action: &str, request: &CredentialRequest, identity: &Identity) {
        let told = message(request, Some(identity)).and_then(|text| {
            let mut child = self.spawn(action, Stdio::null())?;
            let written = write_all(&mut child, &text);
            let status = child.wait()?;
            written?;
            Ok(status)
        });
        match told {
            Ok(status) if status.success() => {}
            Ok(status) => tracing::debug!(target: "rgit::credentials", action, %status, "git credential failed"),
            Err(err) => tracing::debug!(target: "rgit::credentials", action, %err, "git credential could not be told"),
        }
    }
}

impl Credentials for GitCredentials {
    fn fill(&mut self, request: &CredentialRequest) -> Result<Option<Identity>, CredentialsError> {
        let text = message(request, None)?;
        let mut child = self.spawn("fill", Stdio::piped())?;
        let mut answer = Answer(Vec::new());
        let read = write_all(&mut child, &text).and_then(|()| match child.stdout.take() {
            Some(stdout) => stdout.take(MAX_ANSWER + 1).read_to_end(&mut answer.0).map(drop),
            None => Ok(()),
        });
        let too_long = answer.0.len() as u64 > MAX_ANSWER;
        if read.is_err() || too_long {
            // It may still be writing, or waiting for an answer of ours that won't come.
            child.kill().ok();
        }
        let status = child.wait()?;
        read?;
        if too_long {
            return Err(CredentialsError::Answer {
                reason: "it is longer than 64 KiB",
            });
        }
        if !status.success() {
            // A helper said quit, prompts are disabled, the user pressed ^D: git has told them on stderr.
            return Ok(None);
        }
        parse(&answer.0).map(Some)
    }

    fn approve(&mut self, request: &CredentialRequest, identity: &Identity) {
        self.tell("approve", request, identity);
    }

    fn reject(&mut self, request: &CredentialRequest, identity: &Identity) {
        self.tell("reject", request, identity);
    }
}

impl std::fmt::Debug for GitCredentials {
    /// Names only: configuration and environment values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitCredentials")
            .field("program", &self.program)
            .field("directory", &self.directory)
            .field("config", &self.config.iter().map(|(key, _)| key).collect::<Vec<_>>())
            .field(
                "environment",
                &self.environment.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            )
            .finish()
    }
}

/// A buffer that held a password, zeroed on drop.
struct Answer(Vec<u8>);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

fn shown(program: &OsStr) -> String {
    crate::mask_control(program.as_encoded_bytes())
}

fn write_all(child: &mut Child, text: &Answer) -> std::io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else {
        return Ok(());
    };
    match stdin.write_all(&text.0) {
        // It ended without reading to the end: its exit status says more.
        Err(err) if err.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The lines for git's stdin. A value with a line break would become a line of its own, and could name another host: the hole that
/// once made git's own helpers hand out credentials to the wrong server. So none is let through.
fn message(request: &CredentialRequest, identity: Option<&Identity>) -> Result<Answer, CredentialsError> {
    let mut text = Answer(Vec::with_capacity(1024));
    let mut line = |key: &'static str, value: &[u8]| {
        if value.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
            return Err(CredentialsError::UnsafeValue { key });
        }
        text.0.extend_from_slice(key.as_bytes());
        text.0.push(b'=');
        text.0.extend_from_slice(value);
        text.0.push(b'\n');
        Ok(())
    };
    line("protocol", request.protocol.as_bytes())?;
    line("host", request.host.as_bytes())?;
    if let Some(path) = &request.path {
        line("path", path)?;
    }
    match identity {
        Some(identity) => {
            line("username", identity.username())?;
            line("password", identity.password())?;
            for extra in identity.lines() {
                if extra.iter().any(|byte| matches!(byte, b'\n' | 0)) {
                    return Err(CredentialsError::UnsafeValue {
                        key: "helper's own line",
                    });
                }
                text.0.extend_from_slice(extra);
                text.0.push(b'\n');
            }
        }
        None => {
            if let Some(username) = &request.username {
                line("username", username)?;
            }
            for challenge in &request.wwwauth {
                line("wwwauth[]", challenge)?;
            }
        }
    }
    text.0.push(b'\n');
    Ok(text)
}

fn parse(answer: &[u8]) -> Result<Identity, CredentialsError> {
    let (mut username, mut password, mut extra) = (None, None, Vec::new());
    for line in answer.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
        if line.contains(&0) {
            return Err(CredentialsError::Answer {
                reason: "it holds a NUL",
            });
        }
        let Some((key, value)) = line.split_once_str("=") else {
            return Err(CredentialsError::Answer {
                reason: "one of its lines is no 'key=value'",
            });
        };
        match key {
            b"username" => username = Some(value),
            b"password" => password = Some(value),
            // Told again from the request; `capability[]` and `wwwauth[]` would be lies coming from here.
            b"protocol" | b"host" | b"path" | b"url" | b"quit" | b"capability[]" | b"wwwauth[]" => {}
            _ => extra.push(BStr::new(line)),
        }
    }
    let (Some(username), Some(password)) = (username, password) else {
        return Err(CredentialsError::Answer {
            reason: "it holds no user name and password",
        });
    };
    let identity = Identity::new(username, password);
    Ok(extra
        .into_iter()
        .fold(identity, |identity, line| identity.with_line(line.to_vec())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> CredentialRequest {
        let mut request = CredentialRequest::new("https", "h:8443");
        request.path = Some("a/b.git".into());
        request.username = Some("me".into());
        request.wwwauth = vec!["Basic realm=\"x\"".into(), "Bearer".into()];
        request
    }

    #[test]
    fn what_git_is_told() {
        assert_eq!(
            message(&request(), None).unwrap().0.as_bstr(),
            "protocol=https\nhost=h:8443\npath=a/b.git\nusername=me\nwwwauth[]=Basic realm=\"x\"\nwwwauth[]=Bearer\n\n"
        );
        let identity = Identity::new("you", "pw").with_line("oauth_refresh_token=t");
        assert_eq!(
            message(&request(), Some(&identity)).unwrap().0.as_bstr(),
            "protocol=https\nhost=h:8443\npath=a/b.git\nusername=you\npassword=pw\noauth_refresh_token=t\n\n"
        );
    }

    #[test]
    fn what_git_answers() {
        let identity =
            parse(b"protocol=https\nhost=h\nusername=u\npassword=p=q\nstate[]=x\npassword_expiry_utc=9\n").unwrap();
        assert_eq!((identity.username(), identity.password()), ("u".into(), "p=q".into()));
        assert_eq!(
            identity.lines().collect::<Vec<_>>(),
            ["state[]=x", "password_expiry_utc=9"]
        );
        assert_eq!(format!("{identity:?}"), "Identity { .. }");
        for bad in [
            &b"username=u\n"[..],
            b"password=p\n",
            b"",
            b"junk\n",
            b"username=\0\npassword=p\n",
        ] {
            assert!(matches!(parse(bad), Err(CredentialsError::Answer { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_line_break_in_any_value_is_refused() {
        for evil in ["x\nhost=evil", "x\rhost=evil", "x\0"] {
            let mut by_field: Vec<CredentialRequest> = vec![request(); 5];
            by_field[0].host = evil.into();
            by_field[1].path = Some(evil.into());
            by_field[2].username = Some(evil.into());
            by_field[3].wwwauth = vec![evil.into()];
            by_field[4].protocol = evil.into();
            for request in &by_field {
                let err = GitCredentials::new().program("never-run").fill(request).unwrap_err();
                assert!(matches!(err, CredentialsError::UnsafeValue { .. }), "{err:?}");
                assert!(!err.to_string().contains("evil"));
            }
            assert!(message(&request(), Some(&Identity::new(evil, "p"))).is_err());
            assert!(message(&request(), Some(&Identity::new("u", evil))).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_parsed_or_refused(answer in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(identity) = parse(&answer) {
                prop_assert!(!identity.username().contains(&b'\n') && !identity.password().contains(&b'\n'));
            }
        }
    }
}
