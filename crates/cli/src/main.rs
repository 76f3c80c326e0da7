//! The program: joins the engine crates and talks to a person.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod args;
mod ask;
mod check;
mod compare;
mod completion;
mod doctor;
mod document;
mod drawing;
mod drawn;
mod exit;
mod export;
mod file;
mod forecast;
mod import;
mod load;
mod manual;
mod measuring;
mod pipe;
mod plot;
mod progress;
mod prove;
mod proven;
mod provoke;
mod qos;
mod record;
mod redacted;
mod rehearse;
mod report;
mod rows;
mod rtos;
mod sched;
mod serve;
mod show;
mod stack;
mod switch;
mod temporary;
mod terminal;
mod timers;
mod top;
mod unfinished;
mod why;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use laggard_measure::linux;

use crate::args::{Args, BEGIN, Command};

/// What any command takes at least, bytes of addresses: with less, libraries and
/// threads that begin end the program before it can say why.
const ROOM: usize = 8 << 20;

/// Says what helps where there is no more.
#[global_allocator]
static MEMORY: linux::ToldMemory = linux::ToldMemory;

fn main() -> ExitCode {
    // First of all: threads and loads would inherit what `chrt` gave.
    linux::become_normal();
    stack::enough(run)
}

fn run() -> ExitCode {
    completion::answer(Args::command);
    exit::survive_file_limit();
    laggard_record::hush_damage();
    let args = Args::parse();
    let Some(command) = args.command else {
        pipe::say_as_it_is(BEGIN);
        return exit::nothing_asked();
    };
    if let Err(refused) = linux::has_room(ROOM) {
        return exit::report(Err(refused.into()));
    }
    let result = match command {
        Command::Record(args) => record::record(&args),
        Command::Top(args) => top::top(*args),
        Command::Serve(args) => serve::serve(&args),
        Command::Show(args) => show::show(&args),
        Command::Why(args) => why::why(&args),
        Command::Report(args) => report::report(&args),
        Command::Plot(args) => plot::plot(&args),
        Command::Export(args) => export::export(&args),
        Command::Import(args) => import::import(&args),
        Command::Qos(args) => qos::qos(&args),
        Command::Forecast(args) => forecast::forecast(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Check(args) => check::check(&args),
        Command::Sched(args) => sched::sched(&args),
        Command::Rehearse(args) => rehearse::rehearse(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Switch(args) => switch::switch(&args),
        Command::Timers(args) => timers::timers(&args),
        Command::Rtos(args) => rtos::rtos(&args),
        Command::Load(args) => load::load(args),
        Command::Provoke(args) => provoke::provoke(&args),
        Command::Completions { shell } => completion::script(shell),
        Command::Man { dir } => manual::man(&dir),
        Command::Schema { of } => document::schema(of),
    };
    exit::report(result)
}
