//! The demo's table: one row an operation and client, the clients of one operation under each other.

use std::time::Duration;

/// One operation by one client.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) client: String,
    pub(super) operation: &'static str,
    pub(super) wall: Duration,
    pub(super) requests: usize,
    pub(super) connections: usize,
    /// Bytes of request bodies.
    pub(super) up: u64,
    /// Bytes of response bodies.
    pub(super) down: u64,
    /// `Err` says why it is not what it should be.
    pub(super) check: Result<(), String>,
}

const HEADINGS: [&str; 8] = [
    "operation",
    "transport",
    "ms",
    "requests",
    "connections",
    "up",
    "down",
    "check",
];

/// Prints all rows.
pub(super) fn print(rows: &[Row]) {
    print!("{}", format(rows));
}

fn format(rows: &[Row]) -> String {
    let mut operations: Vec<&str> = Vec::new();
    for row in rows {
        if !operations.contains(&row.operation) {
            operations.push(row.operation);
        }
    }
    let mut cells = vec![HEADINGS.map(str::to_owned)];
    for operation in operations {
        for row in rows.iter().filter(|row| row.operation == operation) {
            cells.push([
                row.operation.to_owned(),
                row.client.clone(),
                format!("{:.0}", row.wall.as_secs_f64() * 1000.0),
                row.requests.to_string(),
                row.connections.to_string(),
                row.up.to_string(),
                row.down.to_string(),
                if row.check.is_ok() { "ok" } else { "FAILED" }.to_owned(),
            ]);
        }
    }
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &cells {
        // Words to the left, numbers to the right.
        let line: Vec<String> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                0 | 1 | 7 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_stand_under_each_other_and_columns_line_up() {
        let row = |client: &str, operation, ms, check| Row {
            client: client.to_owned(),
            operation,
            wall: Duration::from_millis(ms),
            requests: 2,
            connections: 1,
            up: 1000,
            down: 5,
            check,
        };
        let rows = [
            row("git", "push", 120, Ok(())),
            row("git", "clone", 9, Ok(())),
            row("rgit-h1", "push", 50, Err("refs differ".to_owned())),
            row("rgit-h1", "clone", 4, Ok(())),
        ];
        let text = format(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "operation  transport   ms  requests  connections    up  down  check",
                "push       git        120         2            1  1000     5  ok",
                "push       rgit-h1     50         2            1  1000     5  FAILED",
                "clone      git          9         2            1  1000     5  ok",
                "clone      rgit-h1      4         2            1  1000     5  ok",
            ]
        );
    }
}
