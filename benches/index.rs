//! Packs that arrive, indexed by us and by `git index-pack --stdin`: time, processor time and memory: `cargo bench --bench index`.
//!
//! Also clones of the same repositories over `file://`, by the library and by git: `git upload-pack` serves both.
//!
//! Each case is a pack, read by both from a file, in turn with two threads, five times. What is printed are medians and ratios (ours
//! to git's); no number here fails anything, but the indices must be the same to the byte.
//!
//! `RGIT_BENCH_REPOSITORY` names a repository whose whole history is one more case. `RGIT_BENCH_CASES` selects cases whose names contain
//! one of its words (separated by commas). Started by anything but `cargo bench`, or with `RGIT_BENCH_QUICK` set, it is a smoke run with
//! small repositories.
#![allow(clippy::print_stdout, reason = "a bench reports to the person who started it")]

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use rgit_pack::index::{Options, index_pack};
use rgit_testkit::{
    history,
    meter::Figures,
    repository::{Git, ObjectFormat},
};

const THREADS: usize = 2;
/// The argument that makes this program index one pack, so that both are processes of their own.
const ONE: &str = "--one-index";
/// The same for a bare clone.
const CLONE: &str = "--one-clone";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, directory, ..] = &arguments[..]
        && first == ONE
    {
        one_index(Path::new(directory)).expect("an index");
        return;
    }
    if let [first, from, to, ..] = &arguments[..]
        && first == CLONE
    {
        one_clone(from, Path::new(to)).expect("a clone");
        return;
    }
    let quick = env::var_os("RGIT_BENCH_QUICK").is_some() || !arguments.iter().any(|argument| argument == "--bench");
    let chosen = env::var("RGIT_BENCH_CASES").unwrap_or_default();
    let lab = Lab { git: Git::new(), quick };
    println!("ratios are ours / git's; medians of {}; {THREADS} threads", lab.runs());
    println!(
        "{:<20}{:>8}{:>19}{:>19}{:>20}",
        "pack", "MB", "wall s", "CPU s", "peak RssAnon MB"
    );
    for (name, pack) in CASES {
        if (chosen.is_empty() || chosen.split(',').any(|word| name.contains(word.trim())))
            && let Some((repository, pack)) = pack(&lab)
        {
            lab.run(name, &pack);
            lab.clone(&format!("{name}, clone"), &repository, &pack);
        }
    }
}

/// A name, and what makes a repository and a pack of all of it.
type Case = (&'static str, fn(&Lab) -> Option<(PathBuf, PathBuf)>);

const CASES: &[Case] = &[
    ("text", Lab::text),
    ("random", Lab::random),
    ("repository", Lab::repository),
];

struct Lab {
    git: Git,
    quick: bool,
}

impl Lab {
    fn runs(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    fn run(&self, name: &str, pack: &Path) {
        let program = env::current_exe().expect("this program");
        let (theirs, ours) = (self.git.home().join("git.git"), self.git.home().join("ours.git"));
        let packs = ours.join("objects/pack");
        let scripts = [
            (
                &theirs,
                format!("exec git index-pack --stdin --threads={THREADS} < '{}'", pack.display()),
            ),
            (
                &ours,
                format!(
                    "exec '{}' {ONE} '{}' < '{}'",
                    program.display(),
                    packs.display(),
                    pack.display()
                ),
            ),
        ];
        let mut figures = [Figures::default(), Figures::default()];
        for _ in 0..self.runs() {
            for (figures, (repository, script)) in figures.iter_mut().zip(&scripts) {
                let _ = fs::remove_dir_all(repository);
                self.git.init_bare(repository, ObjectFormat::Sha1);
                let mut command = self.git.program("sh", repository);
                figures.add(command.args(["-c", script]));
            }
        }
        for extension in ["idx", "rev"] {
            assert_eq!(
                index_of(&theirs, extension),
                index_of(&ours, extension),
                "the same .{extension}"
            );
        }
        report(name, pack, figures);
    }

    /// Clone `repository` by both.
    fn clone(&self, name: &str, repository: &Path, pack: &Path) {
        let program = env::current_exe().expect("this program");
        let url = format!("file://{}", repository.display());
        let (theirs, ours) = (self.git.home().join("git.git"), self.git.home().join("ours.git"));
        let mut figures = [Figures::default(), Figures::default()];
        for _ in 0..self.runs() {
            for place in [&theirs, &ours] {
                let _ = fs::remove_dir_all(place);
            }
            let threads = format!("pack.threads={THREADS}");
            let mut git = self.git.command(self.git.home());
            figures[0].add(git.args(["-c", &threads, "clone", "-q", "--bare", &url]).arg(&theirs));
            let mut own = self.git.program(&program, self.git.home());
            figures[1].add(own.args([CLONE, &url]).arg(&ours));
        }
        assert_eq!(self.git.refs(&ours), self.git.refs(&theirs));
        report(name, pack, figures);
    }

    /// All of `repository` in one pack.
    fn packed(&self, repository: &Path, name: &str) -> PathBuf {
        let pack = self.git.home().join(name).with_extension("pack");
        let script = format!(
            "git -C '{}' pack-objects --all --stdout --delta-base-offset -q < /dev/null > '{}'",
            repository.display(),
            pack.display()
        );
        let mut command = self.git.program("sh", self.git.home());
        let status = command.args(["-c", &script]).status().expect("start sh");
        assert!(status.success(), "{script}");
        pack
    }

    fn text(&self) -> Option<(PathBuf, PathBuf)> {
        let directory = self.git.home().join("text");
        history::text_history(&self.git, &directory, if self.quick { 200 } else { 6_000 });
        self.git
            .git(&directory, ["repack", "-q", "-adf", "--no-write-bitmap-index"]);
        let pack = self.packed(&directory, "text");
        Some((directory, pack))
    }

    fn random(&self) -> Option<(PathBuf, PathBuf)> {
        let directory = self.git.home().join("random");
        let (count, size) = if self.quick { (8, 100_000) } else { (200, 1_000_000) };
        history::incompressible(&self.git, &directory, count, size, 3);
        let pack = self.packed(&directory, "random");
        Some((directory, pack))
    }

    fn repository(&self) -> Option<(PathBuf, PathBuf)> {
        let repository = PathBuf::from(env::var_os("RGIT_BENCH_REPOSITORY")?);
        let repository = fs::canonicalize(repository).expect("RGIT_BENCH_REPOSITORY is a directory");
        let pack = self.packed(&repository, "repository");
        Some((repository, pack))
    }
}

fn report(name: &str, pack: &Path, figures: [Figures; 2]) {
    let [git, own] = figures.map(Figures::medians);
    println!(
        "{name:<20}{:>8.1}{}{}{:>20}",
        fs::metadata(pack).expect("a pack").len() as f64 / 1e6,
        ratio(own.wall, git.wall),
        ratio(own.cpu, git.cpu),
        format!("{:.1}/{:.1}", own.memory, git.memory),
    );
}

fn ratio(own: f64, git: f64) -> String {
    format!("{:>19}", format!("{own:.2}/{git:.2} {:.2}", own / git))
}

/// The one index of a repository.
fn index_of(repository: &Path, extension: &str) -> Vec<u8> {
    let entries = fs::read_dir(repository.join("objects/pack")).expect("packs");
    let mut indices = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension));
    fs::read(indices.next().expect("an index")).expect("read the index")
}

/// Index the pack on standard input into `directory`.
fn one_index(directory: &Path) -> Result<(), Box<dyn Error>> {
    let indexed = index_pack(
        &mut std::io::stdin().lock(),
        directory,
        gix::objs::find::Never,
        &Options::new(gix::hash::Kind::Sha1).threads(Some(THREADS)),
        &mut gix::progress::Discard,
        &AtomicBool::new(false),
    )?;
    println!("{}", indexed.ok_or("an empty pack")?.checksum);
    Ok(())
}

/// A bare clone of the repository at `url`.
fn one_clone(url: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut options = rgit_porcelain::clone::Options::default();
    options.bare = true;
    options.config = vec![
        format!("pack.threads={THREADS}").into(),
        "user.name=A".into(),
        "user.email=a@b".into(),
    ];
    let local = rgit_porcelain::bridge::Local::parse(url.into()).ok_or("a local repository")?;
    rgit_porcelain::clone::clone(
        url.into(),
        to,
        local,
        &options,
        gix::progress::Discard,
        None,
        &AtomicBool::new(false),
    )?;
    Ok(())
}
