//! Our packs against those of `git pack-objects`: time, processor time, first byte, memory and size: `cargo bench --bench pack`.
//!
//! Each case is a repository and a range of it, packed by both in turn with two threads, five times. What is printed are medians and
//! ratios (ours to git's); no number here fails anything, but each of our packs must pass `git index-pack`.
//!
//! `RGIT_BENCH_REPOSITORY`, the path of a repository (one without bitmaps: with them git makes no thin packs), adds cases on that one.
//!
//! `RGIT_BENCH_CASES` selects cases whose names contain one of its words (separated by commas). Started by anything but
//! `cargo bench`, or with `RGIT_BENCH_QUICK` set, it is a smoke run with small repositories.
#![allow(clippy::print_stdout, reason = "a bench reports to the person who started it")]

use std::{
    env,
    error::Error,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use rgit_pack::{ObjectSet, Options, PackSource, Search};
use rgit_testkit::{
    history,
    meter::{Figures, median},
    repository::{Git, ObjectFormat},
};

const THREADS: usize = 2;
const REPOSITORY: &str = "RGIT_BENCH_REPOSITORY";
/// The argument that makes this program write one pack, so that both packers are processes of their own.
const ONE: &str = "--one-pack";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, rest @ ..] = &arguments[..]
        && first == ONE
    {
        one_pack(rest).expect("a pack");
        return;
    }
    let quick = env::var_os("RGIT_BENCH_QUICK").is_some() || !arguments.iter().any(|argument| argument == "--bench");
    let chosen = env::var("RGIT_BENCH_CASES").unwrap_or_default();
    let mut lab = Lab::new(quick);
    println!("ratios are ours / git's; medians of {}; {THREADS} threads", lab.runs());
    println!(
        "{:<22}{:>17}{:>17}{:>19}{:>20}{:>25}",
        "case", "wall s", "CPU s", "first byte s", "peak RssAnon MB", "bytes"
    );
    let named = env::var_os(REPOSITORY).is_some();
    for case in CASES.iter().chain(GIVEN.iter().filter(|_| named)) {
        if chosen.is_empty() || chosen.split(',').any(|word| case.name.contains(word.trim())) {
            lab.run(case);
        }
    }
}

struct Case {
    name: &'static str,
    repository: fn(&mut Lab) -> PathBuf,
    /// What both get to read: revisions, `^` before those the remote has.
    range: fn(&Lab) -> Vec<String>,
    everything: bool,
}

fn all(_: &Lab) -> Vec<String> {
    vec!["main".into()]
}

fn last(lab: &Lab) -> Vec<String> {
    vec!["main".into(), format!("^main~{}", if lab.quick { 20 } else { 200 })]
}

fn given(_: &Lab) -> Vec<String> {
    vec!["HEAD".into()]
}

fn given_last(_: &Lab) -> Vec<String> {
    vec!["HEAD".into(), "^HEAD~200".into()]
}

fn two(_: &Lab) -> Vec<String> {
    vec!["main".into(), "^main~2".into()]
}

fn one(_: &Lab) -> Vec<String> {
    vec!["main".into(), "^main~1".into()]
}

const fn case(name: &'static str, repository: fn(&mut Lab) -> PathBuf, range: fn(&Lab) -> Vec<String>) -> Case {
    Case {
        name,
        repository,
        range,
        everything: false,
    }
}

const CASES: &[Case] = &[
    case("text-packed-full", Lab::text_packed, all),
    case("text-loose-full", Lab::text_loose, all),
    Case {
        everything: true,
        ..case("text-loose-searched", Lab::text_loose, all)
    },
    case("random-loose-full", Lab::random_loose, all),
    case("random-packed-full", Lab::random_packed, all),
    case("two-lines", Lab::wide, two),
    case("text-loose-last", Lab::text_loose, last),
    case("text-packed-last", Lab::text_packed, last),
    case("copied-files", Lab::copied, one),
];

/// On the repository that was named.
const GIVEN: &[Case] = &[
    case("given-full", Lab::given, given),
    Case {
        everything: true,
        ..case("given-searched", Lab::given, given)
    },
    case("given-last", Lab::given, given_last),
];

/// Repositories, made when first asked for.
struct Lab {
    git: Git,
    quick: bool,
}

impl Lab {
    fn new(quick: bool) -> Self {
        Lab { git: Git::new(), quick }
    }

    fn runs(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    fn run(&mut self, case: &Case) {
        let repository = (case.repository)(self);
        let range = (case.range)(self);
        let files = self.git.home().to_owned();
        let input = files.join("revisions");
        fs::write(&input, range.join("\n") + "\n").expect("write revisions");
        let (theirs, ours) = (files.join("git.pack"), files.join("ours.pack"));
        let script = |program: &str, out: &Path| {
            let script = format!("exec {program} < '{}' > '{}'", input.display(), out.display());
            let mut command = self.git.program("sh", &repository);
            command.args(["-c", &script]);
            command
        };
        let pack_objects =
            format!("git pack-objects --revs --thin --stdout --delta-base-offset --threads={THREADS} -q");
        let program = env::current_exe().expect("this program");
        let own = format!(
            "'{}' {ONE} '{}' {}",
            program.display(),
            repository.display(),
            case.everything
        );
        let mut figures = [(); 2].map(|()| (Figures::default(), Vec::new()));
        for _ in 0..self.runs() {
            for ((figures, firsts), (program, out)) in figures.iter_mut().zip([(&pack_objects, &theirs), (&own, &ours)])
            {
                figures.add(&mut script(program, out));
                firsts.push(first_byte(&mut self.git.program("sh", &repository), program, &input));
            }
        }
        let [(git, git_first), (own, own_first)] = figures.map(|(figures, firsts)| (figures.medians(), median(firsts)));
        let sizes = [&theirs, &ours].map(|pack| fs::metadata(pack).expect("a pack").len());
        println!(
            "{:<22}{}{}{}{:>20}{:>25}",
            case.name,
            ratio(own.wall, git.wall),
            ratio(own.cpu, git.cpu),
            ratio(own_first, git_first),
            format!("{:.1}/{:.1}", own.memory, git.memory),
            format!("{}/{} {:.3}", sizes[1], sizes[0], sizes[1] as f64 / sizes[0] as f64),
        );
        self.check(&repository, &ours);
    }

    /// Git must take the pack, in a repository that has what a thin one leaves out.
    fn check(&self, repository: &Path, pack: &Path) {
        let checked = self.git.home().join("checked.git");
        self.git.init_bare(&checked, ObjectFormat::Sha1);
        let git_dir = self.git.text(repository, ["rev-parse", "--absolute-git-dir"]);
        let objects = format!("{git_dir}/objects\n");
        fs::write(checked.join("objects/info/alternates"), objects).expect("write alternates");
        let pack = fs::read(pack).expect("our pack");
        self.git
            .input(&checked, ["index-pack", "--stdin", "--fix-thin", "--strict"], |input| {
                input.write_all(&pack)
            });
        fs::remove_dir_all(&checked).expect("remove the repository");
    }

    fn directory(&self, name: &str) -> (PathBuf, bool) {
        let directory = self.git.home().join(name);
        let exists = directory.exists();
        (directory, exists)
    }

    /// A repository of loose objects from that of `packed`.
    fn loosen(&self, packed: &Path, name: &str) -> PathBuf {
        let (loose, exists) = self.directory(name);
        if !exists {
            self.git.init(&loose, ObjectFormat::Sha1);
            for entry in fs::read_dir(packed.join(".git/objects/pack")).expect("packs") {
                let path = entry.expect("a pack").path();
                if path.extension().is_some_and(|extension| extension == "pack") {
                    let pack = fs::read(path).expect("read the pack");
                    self.git
                        .input(&loose, ["unpack-objects", "-q"], |input| input.write_all(&pack));
                }
            }
            let tip = self.git.text(packed, ["rev-parse", "main"]);
            self.git.git(&loose, ["update-ref", "refs/heads/main", &tip]);
        }
        loose
    }

    fn text_packed(&mut self) -> PathBuf {
        let (directory, exists) = self.directory("text-packed");
        if !exists {
            history::text_history(&self.git, &directory, if self.quick { 200 } else { 6_000 });
            // A bitmap would keep git from making thin packs.
            self.git
                .git(&directory, ["repack", "-q", "-adf", "--no-write-bitmap-index"]);
        }
        directory
    }

    fn text_loose(&mut self) -> PathBuf {
        let packed = self.text_packed();
        self.loosen(&packed, "text-loose")
    }

    fn random_packed(&mut self) -> PathBuf {
        let (directory, exists) = self.directory("random-packed");
        if !exists {
            let (count, size) = if self.quick { (8, 100_000) } else { (200, 1_000_000) };
            history::incompressible(&self.git, &directory, count, size, 3);
        }
        directory
    }

    fn random_loose(&mut self) -> PathBuf {
        let packed = self.random_packed();
        self.loosen(&packed, "random-loose")
    }

    fn given(&mut self) -> PathBuf {
        env::var_os(REPOSITORY).map(PathBuf::from).expect("checked before")
    }

    /// A large file and a wide tree, each changed in one place.
    fn wide(&mut self) -> PathBuf {
        let (directory, exists) = self.directory("wide");
        if exists {
            return directory;
        }
        let (lines, leaves) = if self.quick { (5_000, 10) } else { (100_000, 100) };
        self.git.init(&directory, ObjectFormat::Sha1);
        let text: String = (0..lines)
            .map(|line: u64| {
                format!(
                    "line {line} has {:016x} to say and {}\n",
                    line.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    line % 97
                )
            })
            .collect();
        fs::write(directory.join("large.txt"), &text).expect("write the file");
        for number in 0..500 * leaves {
            let leaf = directory.join(format!("tree/{}/{}", number / leaves / 10, number / leaves % 10));
            fs::create_dir_all(&leaf).expect("a directory");
            fs::write(leaf.join(format!("file{}", number % leaves)), format!("{number}\n")).expect("write a file");
        }
        self.commit(&directory);
        fs::write(
            directory.join("large.txt"),
            text.replacen("line 700 has", "line 700 had", 1),
        )
        .expect("write");
        self.commit(&directory);
        fs::write(directory.join("tree/20/5/file5"), "changed\n").expect("write a file");
        self.commit(&directory);
        directory
    }

    /// A commit that adds a directory copied from another, every file of it changed a little.
    fn copied(&mut self) -> PathBuf {
        let (directory, exists) = self.directory("copied");
        if exists {
            return directory;
        }
        let text = self.text_packed();
        let from = text.display().to_string();
        let to = directory.display().to_string();
        self.git.git(self.git.home(), ["clone", "-q", &from, &to]);
        let mut copies = 0;
        let listed = self.git.text(&directory, ["ls-files"]);
        let limit = if self.quick { 10 } else { 40 };
        for path in listed.lines().filter(|path| path.contains('/')).take(limit) {
            let content = fs::read(directory.join(path)).expect("read a file");
            let copy = directory.join("copy-of").join(path);
            fs::create_dir_all(copy.parent().expect("a parent")).expect("a directory");
            let changed = [&b"// This is a copy.\n"[..], &content].concat();
            fs::write(copy, changed).expect("write a copy");
            copies += 1;
        }
        assert!(copies > 0, "{from} has files in directories");
        self.commit(&directory);
        directory
    }

    fn commit(&self, directory: &Path) {
        self.git.git(directory, ["add", "-A"]);
        self.git.git(directory, ["commit", "-q", "-m", "change"]);
    }
}

fn ratio(own: f64, git: f64) -> String {
    format!("{:>18}", format!("{own:.2}/{git:.2} {:.2}", own / git))
}

/// How long until a packer's first bytes.
fn first_byte(shell: &mut Command, program: &str, input: &Path) -> f64 {
    shell.args(["-c", &format!("exec {program} < '{}'", input.display())]);
    let start = Instant::now();
    let mut child = shell.stdout(Stdio::piped()).spawn().expect("start a packer");
    let mut out = child.stdout.take().expect("its output");
    out.read_exact(&mut [0; 20]).expect("a header and more");
    let first = start.elapsed();
    std::io::copy(&mut out, &mut std::io::sink()).expect("the rest");
    assert!(child.wait().expect("its end").success());
    first.as_secs_f64()
}

/// Write the pack for the revisions on standard input to standard output.
fn one_pack(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [repository, everything, ..] = arguments else {
        return Err("a repository and whether to search everything".into());
    };
    let repo = gix::open_opts(repository, gix::open::Options::isolated())?;
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let (mut wanted, mut remote) = (Vec::new(), Vec::new());
    for revision in input.lines() {
        match revision.strip_prefix('^') {
            Some(hidden) => remote.push(repo.rev_parse_single(hidden)?.detach()),
            None => wanted.push(repo.rev_parse_single(revision)?.detach()),
        }
    }
    let mut options = Options::default().thin(true).threads(Some(THREADS));
    if everything == "true" {
        options = options.search(Search::Everything);
    }
    let odb = repo.objects.clone().into_inner();
    let counted = Default::default();
    let interrupt: Arc<AtomicBool> = Arc::default();
    let objects = ObjectSet::find(&odb, &wanted, &remote, &[], &counted, &interrupt)?;
    let mut reader = PackSource::new(odb, Arc::new(objects), options, interrupt)?.reader()?;
    let mut out = std::io::stdout().lock();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            length => out.write_all(&buffer[..length])?,
        }
    }
    out.flush()?;
    Ok(())
}
