//! What ran, in words: a thread with what interrupts it, and a call chain.

use laggard_analyze::causes::Context;
use laggard_model::{StackSample, Symbols, name, printable, windows_level};

/// The thread and what it is in the midst of, from the outside in.
pub fn layers(context: &Context, symbols: &Symbols) -> Vec<String> {
    let thread = match &context.thread {
        Some(thread) if thread.tid.0 == 0 => "idle".to_owned(),
        Some(thread) => format!(
            "{} ({})",
            printable(&thread.name),
            priority(thread.priority)
        ),
        None => "?".to_owned(),
    };
    let activities = context.activities().into_iter();
    let names = activities.map(|open| name::activity_name(open.activity, symbols));
    std::iter::once(thread).chain(names).collect()
}

/// A priority as its owner set it.
fn priority(kernel: i16) -> String {
    if let Some(level) = windows_level(kernel) {
        return format!("priority {level}");
    }
    match kernel {
        ..0 => "deadline".into(),
        0..100 => format!("rt {}", 99 - kernel),
        _ => "normal".into(),
    }
}

/// The call chain of a sample in words, innermost first.
pub fn frames(sample: &StackSample, symbols: &Symbols) -> Vec<String> {
    let kernel = sample
        .kernel
        .iter()
        .map(|&at| printable(&symbols.kernel_name(at)).to_string());
    let user = sample
        .user
        .iter()
        .map(|&at| printable(&symbols.user_name(sample.process, at)).to_string());
    kernel.chain(user).collect()
}
