//! Random histories, random tips: what is sent is complete and, by git's own judgement, no more than needed.

use std::ops::Range;

use gix::ObjectId;
use proptest::{collection::vec, prelude::*};
use rgit_pack::{Options, Search};

use crate::support::{Lab, Repo, names, text};

/// A commit: its parents by distance, by how much its clock is off, and what it does.
#[derive(Clone, Debug)]
struct Step {
    parents: Vec<usize>,
    clock: i64,
    actions: Vec<Action>,
}

#[derive(Clone, Debug)]
enum Action {
    Write { path: usize, version: u64 },
    Delete { path: usize },
    Rename { from: usize, to: usize },
    Submodule { path: usize },
}

const PATHS: [&str; 10] = [
    "a", "b.txt", "d/a", "d/b.txt", "d/e/c", "d/e/d", "f/g/h/i", "f/g/j", "d.x", "f-y",
];

fn action() -> impl Strategy<Value = Action> {
    let path = 0..PATHS.len();
    prop_oneof![
        6 => (path.clone(), 0..12u64).prop_map(|(path, version)| Action::Write { path, version }),
        1 => path.clone().prop_map(|path| Action::Delete { path }),
        2 => (path.clone(), path.clone()).prop_map(|(from, to)| Action::Rename { from, to }),
        1 => path.prop_map(|path| Action::Submodule { path }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let parents = prop_oneof![
        10 => Just(vec![1]),
        4 => (1..5usize, 1..8usize).prop_map(|(a, b)| vec![a, b]),
        2 => (1..12usize).prop_map(|a| vec![a]),
        1 => Just(vec![]),
    ];
    let clock = prop_oneof![8 => Just(0i64), 1 => -4000..4000i64];
    (parents, clock, vec(action(), 0..4)).prop_map(|(parents, clock, actions)| Step {
        parents,
        clock,
        actions,
    })
}

#[derive(Clone, Debug)]
struct History {
    steps: Vec<Step>,
    /// Where the history is repacked, and whether with a commit-graph.
    repack: Option<bool>,
    /// Annotated tags, of the commit, its tree or a blob.
    tags: Vec<(usize, u8)>,
    wanted: Vec<usize>,
    hidden: Vec<usize>,
    deltas: Deltas,
    /// How many of the last commits stay loose, or are packed apart.
    late: Option<(usize, bool)>,
}

/// How deltas are made.
#[derive(Clone, Debug)]
struct Deltas {
    depth: usize,
    window: usize,
    everything: bool,
    by_offset: bool,
}

impl Deltas {
    fn options(&self) -> Options {
        let search = if self.everything {
            Search::Everything
        } else {
            Search::NewPaths
        };
        Options::default()
            .depth(self.depth)
            .window(self.window)
            .search(search)
            .offset_deltas(self.by_offset)
    }
}

fn deltas() -> impl Strategy<Value = Deltas> {
    (
        prop_oneof![Just(0usize), Just(1), Just(2), Just(5), Just(50)],
        prop_oneof![Just(0usize), Just(1), Just(10)],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(depth, window, everything, by_offset)| Deltas {
            depth,
            window,
            everything,
            by_offset,
        })
}

fn history(commits: Range<usize>) -> impl Strategy<Value = History> {
    (
        vec(step(), commits),
        proptest::option::of(any::<bool>()),
        vec((0..100usize, 0..4u8), 0..3),
        vec(0..1000usize, 1..4),
        vec(0..1000usize, 0..4),
        deltas(),
        proptest::option::of((1..6usize, any::<bool>())),
    )
        .prop_map(|(steps, repack, tags, wanted, hidden, deltas, late)| History {
            steps,
            repack,
            tags,
            wanted,
            hidden,
            deltas,
            late,
        })
}

/// The stream for `git fast-import`; commits become refs/heads/c0, c1, …
fn stream(history: &History, numbers: Range<usize>) -> String {
    let mut out = String::new();
    for (number, step) in history.steps.iter().enumerate().take(numbers.end).skip(numbers.start) {
        let time = 1_700_000_000 + number as i64 * 600 + step.clock;
        let parents: Vec<usize> = step
            .parents
            .iter()
            .filter_map(|back| number.checked_sub(*back))
            .collect();
        out += &format!("commit refs/heads/c{number}\nmark :{}\n", number + 1);
        out += &format!("committer C <c@example.com> {time} +0000\ndata 2\nc\n");
        for (place, parent) in parents.iter().enumerate() {
            if !parents[..place].contains(parent) {
                let name = if *parent < numbers.start {
                    format!("refs/heads/c{parent}")
                } else {
                    format!(":{}", parent + 1)
                };
                out += &format!("{} {name}\n", if place == 0 { "from" } else { "merge" });
            }
        }
        for action in &step.actions {
            match action {
                Action::Write { path, version } => {
                    let content = text(*version, 30);
                    out += &format!("M 100644 inline {}\ndata {}\n{content}\n", PATHS[*path], content.len());
                }
                // Neither fails where the path doesn't exist.
                Action::Delete { path } => out += &format!("D {}\n", PATHS[*path]),
                Action::Rename { from, to } => {
                    let content = text(*from as u64 + 50, 20);
                    out += &format!("M 100644 inline {}\ndata {}\n{content}\n", PATHS[*from], content.len());
                    if from != to {
                        out += &format!("R {} {}\n", PATHS[*from], PATHS[*to]);
                    }
                }
                Action::Submodule { path } => {
                    out += &format!(
                        "M 160000 12345678123456781234567812345678123456{path:02} {}\n",
                        PATHS[*path]
                    );
                }
            }
        }
        out += "\n";
    }
    out
}

fn build(repo: &Repo, history: &History) -> Vec<ObjectId> {
    let import = |numbers: Range<usize>, limit: &str| {
        let limit = format!("fastimport.unpackLimit={limit}");
        let input = stream(history, numbers);
        repo.git_with(&["-c", &limit, "fast-import", "--quiet"], input.as_bytes());
    };
    let steps = history.steps.len();
    let early = steps - history.late.map_or(0, |(late, _)| late.min(steps));
    import(0..early, "100000");
    let repack = || {
        if let Some(graph) = history.repack {
            repo.git(&["repack", "-q", "-adf", "--window=20"]);
            if graph {
                repo.git(&["commit-graph", "write", "--reachable"]);
            }
        }
    };
    if let Some((_, packed)) = history.late {
        repack();
        import(early..steps, if packed { "1" } else { "100000" });
    }
    let listed = repo.git(&[
        "for-each-ref",
        "--format=%(refname:lstrip=2) %(objectname)",
        "refs/heads",
    ]);
    let mut tips: Vec<(usize, ObjectId)> = listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, id)| (name[1..].parse().unwrap(), id.parse().unwrap()))
        .collect();
    tips.sort();
    let mut tips: Vec<ObjectId> = tips.into_iter().map(|(_, id)| id).collect();
    let commits = tips.len();
    for (number, (of, what)) in history.tags.iter().enumerate() {
        let commit = tips[of % commits];
        let target = match what {
            0 => commit.to_string(),
            1 => format!("{commit}^{{tree}}"),
            2 => repo
                .hash_object("blob", format!("tagged {number}").as_bytes())
                .to_string(),
            _ => tips[commits.max(tips.len() - 1)..]
                .first()
                .unwrap_or(&commit)
                .to_string(),
        };
        let name = format!("t{number}");
        repo.git(&["tag", "-a", "-m", "t", &name, &target]);
        tips.push(repo.id(&name));
    }
    if history.late.is_none() {
        repack();
    }
    tips
}

fn check(history: &History) -> Result<(), TestCaseError> {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    let tips = build(&repo, history);
    let pick =
        |numbers: &[usize]| -> Vec<ObjectId> { numbers.iter().map(|number| tips[number % tips.len()]).collect() };
    let (wanted, hidden) = (pick(&history.wanted), pick(&history.hidden));
    let set = repo.find(&wanted, &hidden).unwrap();
    let (sent, expected) = (names(&set), repo.referee(&wanted, &hidden));
    prop_assert!(
        sent.is_subset(&expected),
        "sent although the remote has it: {:?}",
        sent.difference(&expected).collect::<Vec<_>>()
    );
    let remote = lab.init("remote", "sha1");
    if !hidden.is_empty() {
        let (first, _) = repo.pack(&hidden, &[], Options::default());
        remote.receive(&first, &hidden);
    }
    let options = history.deltas.options();
    let (plain, _) = repo.pack(&wanted, &hidden, options.clone().threads(Some(2)));
    prop_assert_eq!(remote.contents(&plain), sent);
    let has_packs = history.repack.is_some() || history.late.is_some_and(|(_, packed)| packed);
    // Git's own chains may have 50 deltas.
    let limit = history.deltas.depth.max(if has_packs { 50 } else { 0 });
    prop_assert!(deepest(&remote) <= limit, "{} is deeper than {limit}", deepest(&remote));
    let (thin, _) = repo.pack(&wanted, &hidden, options.thin(true).threads(Some(1)));
    remote.receive(&thin, &wanted);
    Ok(())
}

/// The longest chain in the pack that was checked last, by `verify-pack`: lines of deltas end in depth and base.
fn deepest(remote: &Repo) -> usize {
    let listed = remote.git(&["verify-pack", "-v", "checked.idx"]);
    let depths = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5)?.parse().ok());
    depths.max().unwrap_or(0)
}

/// Each takes some twenty processes of git; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn packs_are_complete_and_minimal(history in history(3..25)) {
        check(&history)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(10), failure_persistence: None, max_shrink_iters: 10, ..ProptestConfig::default() })]

    /// Long enough for other threads to compare trees while commits are walked and after.
    #[test]
    fn packs_of_long_histories_are_too(history in history(100..400)) {
        check(&history)?;
    }
}
