//! Errors, as git shows them: `fatal: ` and what went wrong, then each cause on a line of its own.

use rgit_smart_http::mask_control;

use super::say;

/// Print an error and its causes. Text from a server may be in there, so that control characters are masked.
pub(crate) fn print(err: &anyhow::Error) {
    let mut previous = String::new();
    let mut first = true;
    for cause in err.chain() {
        for text in texts(cause) {
            // Wrapped errors often say what their source says.
            if text.is_empty() || previous.contains(&text) {
                continue;
            }
            for line in text.lines() {
                let line = mask_control(line.as_bytes());
                if first {
                    say!("fatal: {line}");
                    first = false;
                } else {
                    say!("  {line}");
                }
            }
            previous = text;
        }
    }
}

/// gix keeps its causes in a tree of its own.
fn texts(cause: &(dyn std::error::Error + 'static)) -> Vec<String> {
    match cause.downcast_ref::<gix::Error>() {
        Some(err) => err.iter_errors().map(ToString::to_string).collect(),
        None => vec![cause.to_string()],
    }
}

/// A gix error as one of anyhow's, its causes in order.
pub(crate) fn chain(err: &gix::Error) -> anyhow::Error {
    let mut texts: Vec<String> = err.iter_errors().map(ToString::to_string).collect();
    texts.dedup();
    let mut texts = texts.into_iter().rev();
    let mut chained = anyhow::anyhow!(texts.next().unwrap_or_else(|| err.to_string()));
    for text in texts {
        chained = chained.context(text);
    }
    chained
}
