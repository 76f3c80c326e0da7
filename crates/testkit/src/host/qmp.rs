//! QEMU's machine protocol: commands and events.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::error::GuestError;

/// Limit against hanging, not an expectation.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Connection to a running QEMU.
#[derive(Debug)]
pub(super) struct Qmp {
    stream: UnixStream,
    answers: Receiver<Result<Value, String>>,
}

impl Qmp {
    /// Starts the protocol on a new connection. `on_event` is called with the name of each event,
    /// on another thread, until the connection ends.
    pub(super) fn start(
        stream: UnixStream,
        on_event: impl Fn(String) + Send + 'static,
    ) -> Result<Self, GuestError> {
        let reader = stream
            .try_clone()
            .map_err(|error| refused("qmp_capabilities", error))?;
        let (sender, answers) = channel();
        thread::spawn(move || listen(reader, &sender, &on_event));
        let mut qmp = Self { stream, answers };
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Writes guest memory at a physical address to a file.
    pub(super) fn save_memory(
        &mut self,
        address: u64,
        bytes: u64,
        to: &Path,
    ) -> Result<(), GuestError> {
        let arguments = json!({ "val": address, "size": bytes, "filename": to });
        self.execute("pmemsave", &arguments)
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<(), GuestError> {
        let line = json!({ "execute": command, "arguments": arguments });
        let line = format!("{line}\n");
        self.stream
            .write_all(line.as_bytes())
            .map_err(|error| refused(command, error))?;
        match self.answers.recv_timeout(ANSWER_WITHIN) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(reason)) => Err(refused(command, reason)),
            Err(_) => Err(refused(command, "no answer")),
        }
    }
}

fn refused(command: &str, reason: impl ToString) -> GuestError {
    GuestError::Monitor {
        command: command.into(),
        reason: reason.to_string(),
    }
}

fn listen(stream: UnixStream, answers: &Sender<Result<Value, String>>, on_event: &impl Fn(String)) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue; // not of this protocol; the wait for an answer times out
        };
        if let Some(event) = message["event"].as_str() {
            on_event(event.to_owned());
            continue;
        }
        let answer = if let Some(value) = message.get("return") {
            Ok(value.clone())
        } else if let Some(error) = message.get("error") {
            Err(error["desc"].as_str().unwrap_or("an error").to_owned())
        } else {
            continue; // the greeting
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a QEMU that returns one of these lines per received line.
    fn scripted(lines: &'static [&'static str]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut out = theirs.try_clone().unwrap();
            let mut requests = BufReader::new(theirs).lines();
            writeln!(out, r#"{{"QMP": {{"version": {{}}}}}}"#).unwrap();
            for line in lines {
                requests.next().unwrap().unwrap();
                writeln!(out, "{line}").unwrap();
            }
        });
        ours
    }

    #[test]
    fn events_between_command_and_answer_are_not_the_answer() {
        let stream = scripted(&[
            r#"{"return": {}}"#,
            "{\"event\": \"STOP\"}\n{\"event\": \"SHUTDOWN\"}\n{\"return\": {}}",
        ]);
        let (sender, events) = channel();
        let mut qmp = Qmp::start(stream, move |event| sender.send(event).unwrap()).unwrap();

        qmp.save_memory(0, 1, Path::new("page")).unwrap();

        assert_eq!(
            events.iter().take(2).collect::<Vec<_>>(),
            ["STOP", "SHUTDOWN"]
        );
    }

    #[test]
    fn refusal_names_the_command_and_the_reason() {
        let stream = scripted(&[
            r#"{"return": {}}"#,
            r#"{"error": {"class": "GenericError", "desc": "Could not open file"}}"#,
        ]);
        let mut qmp = Qmp::start(stream, |_| ()).unwrap();

        let error = qmp.save_memory(0, 1, Path::new("/nowhere")).unwrap_err();

        assert_eq!(
            error.to_string(),
            "qemu refuses `pmemsave`: Could not open file"
        );
    }
}
