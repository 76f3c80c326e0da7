//! Types of small programs that the tests compile.

use std::process::Command;

use super::*;

const HEAD: &str =
    "typedef unsigned char u8; typedef unsigned int u32; typedef unsigned long long u64;\n";

/// Returns the objects of these C texts; `None` without clang.
fn objects(texts: &[&str]) -> Option<(tempfile::TempDir, Vec<PathBuf>)> {
    let folder = tempfile::tempdir().unwrap();
    let mut objects = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let source = folder.path().join(format!("{number}.c"));
        let object = source.with_extension("o");
        fs::write(&source, format!("{HEAD}{text}")).unwrap();
        let clang = env::var_os("CLANG").unwrap_or_else(|| "clang-19".into());
        let status = Command::new(clang)
            .args(["-target", "bpf", "-g", "-O2", "-c", "-o"])
            .args([&object, &source])
            .status();
        let Ok(status) = status else {
            println!("skipped: clang-19 is missing, and CLANG is not set");
            return None;
        };
        assert!(status.success());
        objects.push(object);
    }
    Some((folder, objects))
}

/// Returns the output of `write` for these texts.
fn made(
    texts: &[&str],
    write: impl Fn(Types) -> Result<Types, TypesError>,
) -> Option<Result<String, String>> {
    let (_folder, objects) = objects(texts)?;
    let made = Types::from_objects(&objects).and_then(write);
    Some(match made {
        Ok(types) => Ok(types.text().to_owned()),
        Err(err) => Err(err.to_string()),
    })
}

fn shared(types: Types) -> Result<Types, TypesError> {
    types.shared(&["thing"])
}

#[test]
fn fields_follow_c_if_two_are_swapped() {
    let fields = |text: &str| {
        let made = made(&[text], shared)?.unwrap();
        let offsets = made.lines().filter_map(|line| {
            let (_, field) = line.split_once("offset_of!(Thing, ")?;
            Some(field.replace(')', ""))
        });
        Some(
            offsets
                .map(|offset| offset.replace(";", ""))
                .collect::<Vec<_>>(),
        )
    };

    let (Some(first), Some(swapped)) = (
        fields("struct thing { u64 due_ns; u64 ran_ns; u32 cpu; u32 line; } it;"),
        fields("struct thing { u64 ran_ns; u64 due_ns; u32 cpu; u32 line; } it;"),
    ) else {
        return;
    };

    assert_eq!(
        first,
        ["due_ns == 0", "ran_ns == 8", "cpu == 16", "line == 20"]
    );
    assert_eq!(swapped[..2], ["ran_ns == 0", "due_ns == 8"]);
}

#[test]
fn unsupported_layout_is_refused_with_a_remedy() {
    for (texts, message) in [
        (
            &["struct thing { u32 cpu; u64 due_ns; } it;"][..],
            "`struct thing`: 4 bytes of padding before `due_ns`; name them, or order the fields by size",
        ),
        (
            &["struct thing { u64 due_ns; u32 cpu; } it;"],
            "`struct thing`: 4 bytes of padding at its end; name them",
        ),
        (
            &["struct thing { u32 is_late : 1; u32 rest : 31; } it;"],
            "`struct thing`: `is_late` is a bitfield; use a separate number",
        ),
        (
            &["struct thing { union { u64 one; u64 other; }; } it;"],
            "`struct thing`: a member has no name; give it one",
        ),
        (
            &["struct thing { void *function; } it;"],
            "`struct thing`: `function` has an unsupported kind (Ptr)",
        ),
        (
            &["u64 it;"],
            "no object describes `struct thing`; use it as a map's value, a program's argument or the type of a variable",
        ),
    ] {
        let Some(made) = made(texts, shared) else {
            return;
        };

        assert_eq!(made.unwrap_err(), message);
    }
}

#[test]
fn objects_that_disagree_are_refused() {
    let texts = [
        "struct thing { u64 due_ns; u64 ran_ns; } it;",
        "struct thing { u64 ran_ns; u64 due_ns; } it;",
    ];
    let Some(differ) = made(&texts, shared) else {
        return;
    };

    let message = differ.unwrap_err();

    assert!(
        message.starts_with("`struct thing` differs between "),
        "{message}"
    );
    assert!(message.ends_with("1.o"), "{message}");
    assert!(made(&[texts[0]; 2], shared).unwrap().is_ok());
}

#[test]
fn value_is_read_and_written_at_the_offsets_of_c() {
    let text = "struct part { u32 one; u32 other; };\
                struct thing { u64 due_ns; struct part parts[2]; u8 name[8]; } it;";

    let Some(made) = made(&[text], |types| types.values(&["thing"])) else {
        return;
    };

    let made = made.unwrap();
    for line in [
        "pub struct Part {",
        "pub parts: [Part; 2],",
        "pub const PARTS_AT: usize = 8;",
        "pub const PARTS_LEN: usize = 2;",
        "const BYTES: usize = 32;",
        "name: ::std::array::from_fn(|place| u8::from_ne_bytes(::laggard_bpf::value::part(bytes, 24 + place))),",
    ] {
        assert!(made.contains(line), "{line} is not in {made}");
    }
}

#[test]
fn constants_have_the_type_of_c() {
    let text = "enum limit { MOST = 16, NONE = 255 }; enum limit it;";

    let Some(made) = made(&[text], |types| types.constants(&["limit"])) else {
        return;
    };

    assert!(made.unwrap().contains("pub const NONE: u32 = 255;"));
}
