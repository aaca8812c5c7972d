//! [`Git`]: the real git as referee, cut off from the user's and the machine's configuration, and comparisons of what
//! two repositories hold.
//!
//! Owns the environment every git runs in. Makes no content: that is [`crate::history`].

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs, io,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use tempfile::TempDir;

/// The first commit's time: 2024-01-01 00:00:00 UTC. Each command of one [`Git`] is a second later than the one before,
/// so that a test which runs the same commands makes the same objects.
pub const EPOCH: u64 = 1_704_067_200;

const CONFIGURATION: &str = "\
[user]
\tname = A U Thor
\temail = author@example.com
[init]
\tdefaultBranch = main
[gc]
\tauto = 0
[maintenance]
\tauto = false
[receive]
\tautogc = false
[advice]
\tdetachedHead = false
[protocol \"file\"]
\tallow = always
";

/// How objects are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ObjectFormat {
    /// 40 hexadecimal digits.
    #[default]
    Sha1,
    /// 64 hexadecimal digits.
    Sha256,
}

impl ObjectFormat {
    /// As `git init --object-format` wants it.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectFormat::Sha1 => "sha1",
            ObjectFormat::Sha256 => "sha256",
        }
    }
}

/// Runs git with a home of its own and nothing else of the environment but PATH.
#[derive(Clone)]
pub struct Git {
    home: PathBuf,
    environment: Vec<(OsString, OsString)>,
    clock: Arc<AtomicU64>,
    _files: Option<Arc<TempDir>>,
}

impl fmt::Debug for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest of the environment may hold a password for askpass.
        f.debug_struct("Git").field("home", &self.home).finish_non_exhaustive()
    }
}

impl Default for Git {
    fn default() -> Self {
        Git::new()
    }
}

impl Git {
    /// Git in a temporary home, which goes with the last clone of this value.
    ///
    /// # Panics
    /// When there is no temporary directory to be had.
    pub fn new() -> Self {
        let files = tempfile::tempdir().expect("a temporary directory");
        let mut git = Git::at(files.path()).expect("a home for git");
        git._files = Some(Arc::new(files));
        git
    }

    /// Git with its home in `home`, which is made, with a `.gitconfig` (kept when there is one already).
    ///
    /// # Errors
    /// When the directory or the file can't be written.
    pub fn at(home: &Path) -> io::Result<Self> {
        fs::create_dir_all(home)?;
        let configuration = home.join(".gitconfig");
        if !configuration.exists() {
            fs::write(configuration, CONFIGURATION)?;
        }
        Ok(Git {
            home: home.to_owned(),
            environment: Vec::new(),
            clock: Arc::new(AtomicU64::new(EPOCH)),
            _files: None,
        })
    }

    /// The same git (same home, same clock) with a further variable: `GIT_SSL_CAINFO`, `GIT_TRACE_CURL`, ...
    pub fn with(&self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut git = self.clone();
        git.environment.push((name.into(), value.as_ref().to_owned()));
        git
    }

    /// The home directory: a place for other hermetic files too.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The variables that make a process hermetic: for commands other than git that run git or read its configuration.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let date = format!("{} +0000", self.clock.fetch_add(1, Ordering::SeqCst));
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), self.home.clone().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), self.home.join(".gitconfig").into()),
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
            ("GIT_AUTHOR_NAME".into(), "A U Thor".into()),
            ("GIT_AUTHOR_EMAIL".into(), "author@example.com".into()),
            ("GIT_AUTHOR_DATE".into(), date.clone().into()),
            ("GIT_COMMITTER_NAME".into(), "C O Mitter".into()),
            ("GIT_COMMITTER_EMAIL".into(), "committer@example.com".into()),
            ("GIT_COMMITTER_DATE".into(), date.into()),
            ("LC_ALL".into(), "C".into()),
            ("TZ".into(), "UTC".into()),
        ];
        environment.extend(self.environment.iter().cloned());
        environment
    }

    /// A command for any program, hermetic, to be run in `directory`.
    pub fn program(&self, program: impl AsRef<OsStr>, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            .current_dir(directory)
            .stdin(Stdio::null());
        command
    }

    /// `git` to be run in `directory`, with arguments still to be given.
    pub fn command(&self, directory: &Path) -> Command {
        self.program("git", directory)
    }

    /// Runs git, whatever becomes of it.
    ///
    /// # Panics
    /// When git can't be started.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, directory: &Path, arguments: impl IntoIterator<Item = A>) -> Output {
        self.command(directory)
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("start git: {error}"))
    }

    /// Runs git, which must succeed.
    ///
    /// # Panics
    /// When it does not: with its arguments and what it wrote.
    #[track_caller]
    pub fn git<A: AsRef<OsStr>>(&self, directory: &Path, arguments: impl IntoIterator<Item = A>) -> Output {
        let mut command = self.command(directory);
        command.args(arguments);
        let output = command.output().unwrap_or_else(|error| panic!("start git: {error}"));
        check(&command, output)
    }

    /// As [`Git::git`], returning stdout as text without white space at its ends.
    ///
    /// # Panics
    /// As [`Git::git`].
    #[track_caller]
    pub fn text<A: AsRef<OsStr>>(&self, directory: &Path, arguments: impl IntoIterator<Item = A>) -> String {
        String::from_utf8_lossy(&self.git(directory, arguments).stdout)
            .trim()
            .to_owned()
    }

    /// As [`Git::git`], with stdin written by `write` (from another thread, so that no pipe can block).
    ///
    /// # Panics
    /// As [`Git::git`]. An error of `write` counts only when git had nothing to say.
    #[track_caller]
    pub fn input<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = A>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send,
    ) -> Output {
        let mut command = self.command(directory);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start git: {error}"));
        let stdin = child.stdin.take().expect("stdin is piped");
        let (written, output) = thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let mut stdin = io::BufWriter::with_capacity(256 * 1024, stdin);
                write(&mut stdin)?;
                stdin.flush()
            });
            let output = child.wait_with_output();
            (writing.join().expect("the writer of git's input"), output)
        });
        let output = check(&command, output.expect("wait for git"));
        written.expect("write git's input");
        output
    }

    /// Makes a repository with a working tree.
    ///
    /// # Panics
    /// When git fails.
    #[track_caller]
    pub fn init(&self, directory: &Path, format: ObjectFormat) {
        fs::create_dir_all(directory).unwrap_or_else(|error| panic!("make {}: {error}", directory.display()));
        self.git(directory, ["init", "-q", "--object-format", format.as_str()]);
    }

    /// Makes a bare repository.
    ///
    /// # Panics
    /// When git fails.
    #[track_caller]
    pub fn init_bare(&self, directory: &Path, format: ObjectFormat) {
        fs::create_dir_all(directory).unwrap_or_else(|error| panic!("make {}: {error}", directory.display()));
        self.git(directory, ["init", "-q", "--bare", "--object-format", format.as_str()]);
    }

    /// `git fsck --strict` of everything; nothing but git's notices about an unborn branch may be said.
    ///
    /// # Panics
    /// When fsck fails or complains.
    #[track_caller]
    pub fn fsck(&self, directory: &Path) {
        let output = self.git(
            directory,
            ["fsck", "--full", "--strict", "--no-dangling", "--no-progress"],
        );
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let complaints: Vec<&str> = said.lines().filter(|line| !line.starts_with("notice: ")).collect();
        assert!(
            complaints.is_empty(),
            "git fsck in {}: {complaints:?}",
            directory.display()
        );
    }

    /// Every ref but HEAD, as `<object> <name>` in order of names. Symbolic refs show what they point to.
    ///
    /// # Panics
    /// When git fails.
    #[track_caller]
    pub fn refs(&self, directory: &Path) -> Vec<String> {
        // One line a ref also where names hold bytes that are no UTF-8: those are replaced, alike on both sides.
        lines(
            &self
                .git(directory, ["for-each-ref", "--format=%(objectname) %(refname)"])
                .stdout,
        )
    }

    /// Every object reachable from any ref, by its id, sorted.
    ///
    /// # Panics
    /// When git fails: also when an object is missing.
    #[track_caller]
    pub fn objects(&self, directory: &Path) -> Vec<String> {
        let output = self.git(directory, ["rev-list", "--objects", "--no-object-names", "--all"]);
        let mut objects = lines(&output.stdout);
        objects.sort_unstable();
        objects
    }

    /// Whether two repositories hold the same refs and the same reachable objects, and both stand up to [`Git::fsck`].
    ///
    /// # Panics
    /// When they don't: with the first differences.
    #[track_caller]
    pub fn assert_same(&self, one: &Path, other: &Path) {
        self.fsck(one);
        self.fsck(other);
        assert_equal_lines("refs", one, &self.refs(one), other, &self.refs(other));
        assert_equal_lines("objects", one, &self.objects(one), other, &self.objects(other));
    }
}

/// A diff short enough to read where the lists have 100,000 lines.
#[track_caller]
fn assert_equal_lines(what: &str, one: &Path, ours: &[String], other: &Path, theirs: &[String]) {
    if ours == theirs {
        return;
    }
    let only = |left: &[String], right: &[String]| -> Vec<String> {
        let right: std::collections::HashSet<&String> = right.iter().collect();
        left.iter()
            .filter(|line| !right.contains(line))
            .take(5)
            .cloned()
            .collect()
    };
    panic!(
        "{what} differ: {} has {} ({:?} ... only there), {} has {} ({:?} ... only there)",
        one.display(),
        ours.len(),
        only(ours, theirs),
        other.display(),
        theirs.len(),
        only(theirs, ours),
    );
}

#[track_caller]
fn check(command: &Command, output: Output) -> Output {
    assert!(
        output.status.success(),
        "git {:?} in {:?}: {}\n{}{}",
        command.get_args().collect::<Vec<_>>(),
        command.get_current_dir(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn fails(check: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(check)).is_err()
    }

    #[test]
    fn the_environment_is_the_test_s_own_and_commits_are_the_same_each_time() {
        let made = || {
            let git = Git::new();
            let repository = git.home().join("repository");
            git.init(&repository, ObjectFormat::Sha1);
            fs::write(repository.join("file"), "text\n").expect("a file");
            git.git(&repository, ["add", "."]);
            git.git(&repository, ["commit", "-qm", "first"]);
            assert_eq!(
                git.text(&repository, ["config", "--show-origin", "user.name"])
                    .split('\t')
                    .next_back(),
                Some("A U Thor")
            );
            assert!(git.run(&repository, ["config", "--system", "--list"]).stdout.is_empty());
            git.text(&repository, ["rev-parse", "HEAD"])
        };
        assert_eq!(made(), made());
    }

    #[test]
    fn comparisons_see_a_missing_ref_a_missing_object_and_a_damaged_one() {
        let git = Git::new();
        let (one, other) = (git.home().join("one"), git.home().join("other"));
        history::small(&git, &one, 3);
        git.git(git.home(), ["clone", "-q", "--mirror", "one", "other"]);
        git.assert_same(&one, &other);

        git.git(&other, ["update-ref", "refs/heads/extra", "main"]);
        assert!(fails(|| git.assert_same(&one, &other)));
        git.git(&other, ["update-ref", "-d", "refs/heads/extra"]);
        git.assert_same(&one, &other);

        git.git(&one, ["commit", "-q", "--allow-empty", "-m", "more"]);
        assert!(fails(|| git.assert_same(&one, &other)));
        git.git(&other, ["fetch", "-q", "origin"]);
        git.assert_same(&one, &other);

        fs::remove_dir_all(one.join(".git/objects/pack")).expect("remove the pack");
        assert!(fails(|| git.fsck(&one)));
        assert!(fails(|| drop(git.objects(&one))));
    }
}
