//! The program: joins the engine crates and talks to a person.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        unused_imports,
        reason = "most of what measures is not built"
    )
)]

mod args;
mod ask;
#[cfg(target_os = "linux")]
mod attach;
mod check;
#[cfg(any(target_os = "linux", windows))]
mod closing;
mod compare;
mod completion;
mod digest;
#[cfg(any(target_os = "linux", windows))]
mod doctor;
mod document;
mod drawing;
mod drawn;
#[cfg(windows)]
mod driver;
mod exit;
mod export;
mod figure;
mod forecast;
mod import;
#[cfg(target_os = "linux")]
mod load;
#[cfg(windows)]
#[path = "load_here.rs"]
mod load;
mod manual;
#[cfg(target_os = "linux")]
mod measuring;
#[cfg(windows)]
#[path = "measuring_here.rs"]
mod measuring;
mod pipe;
#[cfg(any(target_os = "linux", windows))]
mod progress;
#[cfg(target_os = "linux")]
mod prove;
#[cfg(target_os = "linux")]
mod proven;
#[cfg(target_os = "linux")]
mod provoke;
mod qos;
#[cfg(target_os = "linux")]
mod record;
#[cfg(windows)]
mod record_here;
mod redacted;
#[cfg(target_os = "linux")]
mod rehearse;
mod report;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(any(target_os = "linux", windows))]
mod rtos;
mod sched;
mod show;
#[cfg(target_os = "linux")]
mod study;
#[cfg(any(target_os = "linux", windows))]
mod switch;
mod system;
mod temporary;
mod terminal;
#[cfg(any(target_os = "linux", windows))]
mod timers;
#[cfg(target_os = "linux")]
mod top;
mod why;

use std::process::ExitCode;

use clap::CommandFactory as _;
use laggard_console::{exit as ending, stack};

use crate::args::{Args, BEGIN, BenchCommand, Command};
#[cfg(target_os = "linux")]
use crate::args::{MachineCommand, MeasureCommand};
use crate::exit::Exit;

fn main() -> ExitCode {
    if let Some(code) = system::read_symbols_if_asked() {
        return code;
    }
    // Before all else: threads and loads would inherit what `chrt` gave.
    system::become_normal();
    stack::enough(run)
}

fn run() -> ExitCode {
    match completion::answer(Args::command) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return exit::report(Err(error)),
    }
    system::survive_file_limit();
    ending::make_panics_printable();
    laggard_record::hush_damage();
    #[cfg(not(target_os = "linux"))]
    laggard_files::set_ending_watch(laggard_console::system::at_ending);
    let args = match args::parsed() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let Some(command) = args.command else {
        pipe::say_as_it_is(BEGIN);
        return exit::nothing_asked();
    };
    if let Err(refused) = system::has_room() {
        return exit::report(Err(refused));
    }
    // A measurement keeps less: it locks its memory.
    system::keep_free_memory();
    let result = match command {
        #[cfg(target_os = "linux")]
        Command::Measure(command) => measure(command),
        #[cfg(windows)]
        Command::Record(args) => record_here::record(&args),
        Command::Show(args) => show::show(&args),
        Command::Why(args) => why::why(&args),
        Command::Report(args) => report::report(&args),
        Command::Export(args) => export::export(&args),
        Command::Import(args) => import::import(&args),
        Command::Digest(args) => digest::digest(&args),
        Command::Qos(args) => qos::qos(&args),
        Command::Forecast(args) => forecast::forecast(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Check(args) => check::check(&args),
        Command::Sched(args) => sched::sched(&args),
        #[cfg(target_os = "linux")]
        Command::Machine(command) => try_machine(command),
        #[cfg(windows)]
        Command::Bench(args) => bench(args.command),
        #[cfg(windows)]
        Command::Timers(args) => timers::timers(&args),
        #[cfg(windows)]
        Command::Load(args) => load::load(args),
        #[cfg(windows)]
        Command::Doctor(args) => doctor::doctor(&args),
        #[cfg(windows)]
        Command::Driver(args) => driver::driver(args),
        Command::Completions { shell } => completion::script(shell),
        Command::Man { dir } => manual::man(&dir),
        Command::Schema { of } => document::schema(of),
    };
    exit::report(result)
}

#[cfg(target_os = "linux")]
fn measure(command: MeasureCommand) -> anyhow::Result<Exit> {
    match command {
        MeasureCommand::Record(args) => record::record(&args),
        MeasureCommand::Top(args) => top::top(*args),
        #[cfg(feature = "serve")]
        MeasureCommand::Serve(args) => laggard_serve::serve(&args).map(|()| Exit::Ok),
    }
}

#[cfg(target_os = "linux")]
fn try_machine(command: MachineCommand) -> anyhow::Result<Exit> {
    match command {
        MachineCommand::Rehearse(args) => rehearse::rehearse(&args),
        MachineCommand::Doctor(args) => doctor::doctor(&args),
        MachineCommand::Attach(args) => attach::attach(&args),
        MachineCommand::Bench(args) => bench(args.command),
        MachineCommand::Switch(args) => switch::switch(&args),
        MachineCommand::Timers(args) => timers::timers(&args),
        MachineCommand::Rtos(args) => rtos::rtos(&args),
        MachineCommand::Load(args) => load::load(args),
        MachineCommand::Study(args) => study::study(&args),
        MachineCommand::Provoke(args) => provoke::provoke(&args),
    }
}

#[cfg(any(target_os = "linux", windows))]
fn bench(command: BenchCommand) -> anyhow::Result<Exit> {
    match command {
        BenchCommand::Timers(args) => timers::timers(&args),
        BenchCommand::Switch(args) => switch::switch(&args),
        BenchCommand::Rtos(args) => rtos::rtos(&args),
    }
}
