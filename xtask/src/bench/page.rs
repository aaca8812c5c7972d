//! The results as one HTML page that needs nothing else: no script, no font, no network.
//!
//! Owns the order of what a reader sees: first where rgit loses, then charts, then every figure and how it was measured.

mod chart;

use std::fmt::Write as _;

use super::{
    matrix::{Client, Group, Road, Scenario, Server},
    results::Results,
    roads,
    table::{cells, git, limits, provenance, verdict},
};
use chart::{Bar, Line, bars, lines};

/// Losses on the first screen; the others are a touch away.
const FIRST: usize = 8;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--quiet:#5a636e;--rule:#d5dae0;--bad:#b3261e;--good:#1a7037;\
--git-h1:#6b7280;--git-h2:#9a8b5f;--h1:#1f6fd6;--h2:#b35a00;--auto:#1a7f37;--persistent-cold:#7b4bc4;--persistent-warm:#c2318b;--persistent-h1:#4f5bd5;--persistent-h2:#a8470f;\
--gix:#0e7c86;--grit:#8a3b3b}\
@media(prefers-color-scheme:dark){:root{--ground:#12161b;--ink:#e4e8ec;--quiet:#9aa4af;--rule:#333b44;--bad:#ff8a80;--good:#63c98a;\
--git-h1:#a3abb5;--git-h2:#cbb982;--h1:#6cabff;--h2:#ff9f4a;--auto:#56d07c;--persistent-cold:#b597f2;--persistent-warm:#f07cc0;--persistent-h1:#8f99ff;--persistent-h2:#ffb27a;\
--gix:#4ec8d3;--grit:#d98c8c}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--ground);color:var(--ink);font:16px/1.45 system-ui,sans-serif}\
h1{font-size:1.5rem;margin:.2rem 0 .6rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:.6rem 0 .2rem}\
p,li{overflow-wrap:anywhere}.quiet{color:var(--quiet);font-size:.875rem}\
.verdict{border-left:4px solid var(--bad);padding:.1rem .9rem;margin:.5rem 0}.verdict.none{border-color:var(--good)}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1rem}\
figure{margin:0;min-width:0}figcaption{font-size:.875rem;color:var(--quiet)}svg{width:100%;height:auto;display:block}\
svg text{fill:var(--ink);font:11px system-ui,sans-serif}svg .axis{stroke:var(--rule)}svg .one{stroke:var(--quiet);stroke-dasharray:3 3}\
svg .spread{stroke:var(--ink)}svg .cut{stroke:var(--ground);stroke-width:4}.keys{display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;list-style:none;font-size:.875rem}\
.keys i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.35rem;vertical-align:-1px}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.8125rem;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--rule);white-space:nowrap}\
summary{cursor:pointer;padding:.3rem 0}code{overflow-wrap:anywhere}";

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            other => escaped.push(other),
        }
    }
    escaped
}

/// The whole page.
pub(super) fn page(results: &Results) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>rgit bench, {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>rgit bench</h1>\n",
        escaped(&results.date)
    );
    html += &first_screen(results);
    html += &keys(results);
    html += &section("Throughput against round trip", &throughputs(results));
    html += &section("Time, as a multiple of git's", &ratios(results));
    let roads = roads::table(results);
    if !roads.is_empty() {
        html += &section("auto against the better of h1 and h2", &table(&roads));
    }
    html += &section("Every cell", &spreads(results));
    html += &section("All figures", &table(&cells(results)));
    let limits = limits(results);
    if !limits.is_empty() {
        html += &section("Limits", &table(&limits));
    }
    let lines: String = provenance(results)
        .iter()
        .fold(String::new(), |list, line| list + "<li>" + &escaped(line) + "</li>\n");
    html += &section("How it was measured", &format!("<ul>\n{lines}</ul>\n"));
    html += "</body>\n</html>\n";
    html
}

fn section(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{title}</h2>\n{content}</section>\n")
}

fn first_screen(results: &Results) -> String {
    let lost = verdict(results);
    let item = |line: &String| format!("<li>{}</li>\n", escaped(line));
    let mut html = String::new();
    if lost.is_empty() {
        html += "<div class=\"verdict none\"><p>rgit loses nowhere to git or a peer by more than 5 %, nor auto to h1 or h2.</p></div>\n";
    } else {
        let first: String = lost.iter().take(FIRST).map(item).collect();
        let _ = write!(
            html,
            "<div class=\"verdict\"><p><b>Where rgit loses by more than 5 %</b></p><ul>\n{first}</ul>\n"
        );
        if lost.len() > FIRST {
            let rest: String = lost.iter().skip(FIRST).map(item).collect();
            let _ = write!(
                html,
                "<details><summary>and {} more</summary><ul>\n{rest}</ul></details>\n",
                lost.len() - FIRST
            );
        }
        html += "</div>\n";
    }
    let _ = writeln!(
        html,
        "<p class=\"quiet\">{} UTC · commit {} · {} · {}</p>",
        escaped(&results.date),
        escaped(&results.commit),
        escaped(&results.host.processor),
        escaped(&results.versions.git)
    );
    html
}

/// Clients that have a cell, in the order of reports.
fn clients(results: &Results) -> Vec<Client> {
    let has_time = |client: &Client| {
        let mut cells = results.cells.iter().filter(|cell| cell.client == *client);
        cells.any(|cell| cell.wall().is_some())
    };
    Client::ALL.iter().copied().filter(has_time).collect()
}

fn keys(results: &Results) -> String {
    let items: String = clients(results)
        .into_iter()
        .map(|client| {
            format!(
                "<li><i style=\"background:var(--{client})\"></i>{}</li>\n",
                label(client)
            )
        })
        .collect();
    format!("<ul class=\"keys\">\n{items}</ul>\n")
}

fn label(client: Client) -> String {
    if client.is_ours() {
        format!("rgit {client}")
    } else {
        client.to_string()
    }
}

/// The values that one part of a group has, in order, each once.
fn each<T: Clone + Ord>(results: &Results, part: impl Fn(&Group) -> T) -> Vec<T> {
    let mut all: Vec<T> = results.cells.iter().map(|cell| part(&cell.group)).collect();
    all.sort();
    all.dedup();
    all
}

/// One chart a scenario that moves bulk, and server.
fn throughputs(results: &Results) -> String {
    let mut html = String::new();
    for (server, scenario) in each(results, |group| (group.server.clone(), group.scenario)) {
        // Over a real link there is one round trip, and no line to draw.
        if matches!(server, Server::Url(_)) {
            continue;
        }
        let without_delay = |road: Road| Road {
            round_trip_ms: 0,
            ..road
        };
        for kind in each(results, |group| without_delay(group.road)) {
            let speed = |client: Client, round_trip_ms: u32| {
                let road = Road { round_trip_ms, ..kind };
                let group = Group {
                    scenario,
                    road,
                    server: server.clone(),
                };
                Some((f64::from(round_trip_ms), results.cell(&group, client)?.speed()? / 1e6))
            };
            let round_trips = each(results, |group| group.road.round_trip_ms);
            let drawn: Vec<Line> = clients(results)
                .into_iter()
                .map(|client| Line {
                    class: client.name(),
                    label: label(client),
                    points: round_trips.iter().filter_map(|ms| speed(client, *ms)).collect(),
                })
                .filter(|line| !line.points.is_empty())
                .collect();
            if drawn.is_empty() {
                continue;
            }
            let mut link = kind
                .rate_mb_s
                .map_or_else(String::new, |rate| format!(", link of {rate} MB/s"));
            if kind.tun {
                link += ", the kernel's TCP";
            }
            if kind.loss_per_mille > 0 {
                let _ = write!(link, ", {} % of packets lost", f64::from(kind.loss_per_mille) / 10.0);
            }
            let _ = writeln!(
                html,
                "<figure><h3>{scenario}, {}{link}</h3>{}<figcaption>MB/s over round trip in ms</figcaption></figure>",
                served_by(&server),
                lines(&drawn)
            );
        }
    }
    grid(&html)
}

fn served_by(server: &Server) -> String {
    match server {
        Server::Testkit(window) => format!("window {window}"),
        other => escaped(&other.to_string()),
    }
}

fn grid(figures: &str) -> String {
    if figures.is_empty() {
        return String::new();
    }
    format!("<div class=\"charts\">\n{figures}</div>\n")
}

/// One chart a link and server, with every scenario's ratio to the faster git.
fn ratios(results: &Results) -> String {
    let mut html = String::new();
    for (server, road) in each(results, |group| (group.server.clone(), group.road)) {
        let mut drawn = Vec::new();
        for scenario in Scenario::ALL {
            let group = Group {
                scenario: *scenario,
                road,
                server: server.clone(),
            };
            let Some(git) = git(results, &group) else { continue };
            for client in clients(results).into_iter().filter(|client| client.is_ours()) {
                let Some(wall) = results.cell(&group, client).and_then(super::results::Cell::wall) else {
                    continue;
                };
                drawn.push(Bar {
                    class: client.name(),
                    label: format!("{scenario} {client}"),
                    value: wall.median / git,
                    least: wall.least / git,
                    most: wall.most / git,
                    told: format!("{:.2} ×", wall.median / git),
                });
            }
        }
        if !drawn.is_empty() {
            let link = match &server {
                Server::Url(_) => "real link".to_owned(),
                _ => road.to_string(),
            };
            let _ = writeln!(
                html,
                "<figure><h3>{link}, {}</h3>{}<figcaption>the dashed line is git, the faster of its two; shorter is \
                 better</figcaption></figure>",
                served_by(&server),
                bars(&drawn, Some(1.0))
            );
        }
    }
    grid(&html)
}

/// One chart a group: medians with the least and the most.
fn spreads(results: &Results) -> String {
    let mut html = String::new();
    for (group, cells) in results.groups() {
        let drawn: Vec<Bar> = cells
            .iter()
            .filter_map(|cell| {
                let wall = cell.wall()?;
                Some(Bar {
                    class: cell.client.name(),
                    label: label(cell.client),
                    value: wall.median,
                    least: wall.least,
                    most: wall.most,
                    told: super::losses::seconds(wall.median),
                })
            })
            .collect();
        let reasons: String = cells
            .iter()
            .filter_map(|cell| Some(format!("{}: {}. ", label(cell.client), escaped(cell.outcome.why()?))))
            .collect();
        let chart = if drawn.is_empty() {
            String::new()
        } else {
            bars(&drawn, None)
        };
        let _ = writeln!(
            html,
            "<figure><h3>{}, {}, {}</h3>{chart}<figcaption>{}; seconds, with the least and the most. {reasons}</figcaption></figure>",
            group.scenario,
            escaped(&group.link()),
            served_by(&group.server),
            group.scenario.meaning()
        );
    }
    let charts = grid(&html);
    if charts.is_empty() {
        return charts;
    }
    format!(
        "<details open><summary>{} charts</summary>\n{charts}</details>\n",
        results.groups().len()
    )
}

fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let mut html = "<div class=\"scroll\"><table>\n".to_owned();
    for (at, row) in rows.iter().enumerate() {
        let kind = if at == 0 { "th" } else { "td" };
        html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let rest = columns - column;
            let span = if column + 1 == row.len() && rest > 1 {
                format!(" colspan=\"{rest}\"")
            } else {
                String::new()
            };
            let _ = write!(html, "<{kind}{span}>{}</{kind}>", escaped(cell));
        }
        html += "</tr>\n";
    }
    html + "</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            client::on_path,
            matrix::Window,
            results::{Outcome, made_up},
        },
        *,
    };

    /// Results with everything a page can show.
    pub(super) fn results() -> Results {
        let mut all = Vec::new();
        for (place, round_trip_ms) in [0, 20, 100].into_iter().enumerate() {
            for scenario in [Scenario::LsRemote, Scenario::PushBulk, Scenario::CloneBulk] {
                for (at, client) in [Client::GitH1, Client::GitH2, Client::H1, Client::H2, Client::Auto]
                    .into_iter()
                    .enumerate()
                {
                    let wall = 0.5 + place as f64 + at as f64 / 7.0;
                    let walls = [wall * 0.95, wall, wall * 1.1];
                    all.push(made_up::cell(scenario, client, round_trip_ms, Window::Small, &walls));
                }
            }
        }
        let mut killed = made_up::cell(Scenario::PushBulk, Client::H2, 200, Window::Small, &[]);
        killed.outcome = Outcome::Killed("killed <after> 60 s".to_owned());
        all.push(killed);
        made_up::results(all)
    }

    #[test]
    fn losses_come_before_everything_else() {
        let html = page(&results());
        let at = |what: &str| html.find(what).unwrap_or_else(|| panic!("{what} is not in the page"));
        assert!(at("push-bulk/h2/cold/200ms/64KiB: killed &lt;after&gt; 60 s") < at("<svg"));
        assert!(at("Where rgit loses") < at("Throughput against round trip"));
        let mut fine = results();
        fine.cells.retain(|cell| !cell.client.is_ours());
        assert!(page(&fine).contains("loses nowhere"));
    }

    #[test]
    fn a_page_stands_by_itself_and_is_well_formed() {
        let html = page(&results());
        for outside in ["http://", "https://", "<script", "<link", "src=", "url(", "@import"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("prefers-color-scheme:dark") && html.contains("width=device-width"));
        assert!(html.contains("a &lt;made-up&gt; processor") && !html.contains("<made-up>"));
        // Every element is closed, in order.
        let mut open: Vec<&str> = Vec::new();
        for tag in html.split('<').skip(1).filter(|tag| !tag.starts_with('!')) {
            let inside = tag.split('>').next().unwrap_or_default();
            let name = inside
                .split([' ', '\n', '/'])
                .find(|word| !word.is_empty())
                .unwrap_or_default();
            if inside.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "before </{name}>");
            } else if !inside.ends_with('/') && !["meta"].contains(&name) {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
        assert!(!html.contains("NaN") && !html.contains("inf"), "a figure that is none");
    }

    /// What a browser makes of it: drawn at a phone's width, in light and in dark, without a word to the network.
    #[test]
    fn a_browser_draws_it_in_light_and_dark() {
        let browsers = ["chromium", "chromium-browser", "google-chrome"];
        let Some(browser) = browsers.iter().find_map(|name| on_path(name)) else {
            println!(
                "skipped: none of {} is on PATH (Debian package chromium)",
                browsers.join(", ")
            );
            return;
        };
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("index.html");
        std::fs::write(&file, page(&results())).expect("write the page");
        let draw = |name: &str, scheme: u8| {
            let picture = folder.path().join(name);
            let output = std::process::Command::new(&browser)
                // A sandbox of its own needs rights that a container seldom gives; the page is ours.
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--hide-scrollbars",
                    "--window-size=500,1600",
                ])
                .arg("--host-resolver-rules=MAP * ~NOTFOUND")
                .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
                .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
                .arg(format!("--screenshot={}", picture.display()))
                .arg(format!("file://{}", file.display()))
                .output()
                .expect("start the browser");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            std::fs::read(&picture).unwrap_or_else(|error| panic!("{error}: {said}"))
        };
        let (dark, light) = (draw("dark.png", 0), draw("light.png", 1));
        for picture in [&dark, &light] {
            assert!(picture.starts_with(b"\x89PNG"));
            // An empty page of this size packs into a few kilobytes.
            assert!(picture.len() > 20_000, "{} bytes", picture.len());
        }
        assert_ne!(dark, light);
    }

    #[test]
    fn every_client_has_its_colour_in_light_and_dark() {
        for client in Client::ALL {
            assert_eq!(STYLE.matches(&format!("--{client}:#")).count(), 2, "{client}");
        }
    }
}
